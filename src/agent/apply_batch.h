// A finished list of writes with their order, as it crosses from the control loop to the threads that apply it.
//
// Steps run in index order as far as `waitsFor` allows; a step runs only after all it waits for are Done, and is Skipped once one of them Failed or
// was Skipped. Several threads may work on one batch: a step is claimed by compare-and-swap. A thread leaves when nothing can be claimed; whoever
// finishes a step looks again, so no runnable step is left behind. States only go forward: Waiting -> Running -> Done | Failed, Waiting -> Skipped.
// workOne() makes no allocation, takes no lock and writes no log. O(steps) per pass.
// Thread rule: built and destroyed by the control loop; workOne() on appliers; state() and cancelWaiting() from anywhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ports/cpu_controller.h"

namespace coterie::agent {

enum class ApplyState : std::uint8_t { Waiting, Running, Done, Failed, Skipped };

struct ApplyStep {
  PreparedChange change;
  std::vector<int> waitsFor;  // indices below its own
};

class ApplyBatch {
 public:
  using Execute = int (*)(const PreparedWrite&) noexcept;

  explicit ApplyBatch(std::vector<ApplyStep> steps);

  [[nodiscard]] std::size_t size() const { return steps_.size(); }
  [[nodiscard]] ApplyState state(std::size_t index) const { return marks_[index].state.load(std::memory_order_acquire); }
  [[nodiscard]] int error(std::size_t index) const { return marks_[index].error.load(std::memory_order_acquire); }  // errno of a failed step
  [[nodiscard]] const ApplyStep& step(std::size_t index) const { return steps_[index]; }
  [[nodiscard]] bool allFinal() const;  // every step is Done, Failed or Skipped
  // Marks a step that never began as failed, before the batch is submitted.
  void refuse(std::size_t index, int error);
  // Steps that have not begun never will.
  void cancelWaiting();

  // Claims one step and executes it. False if none can be claimed now.
  bool workOne(Execute execute) noexcept;
  // For executors of tests: the next step that may run is claimed; -1 if there is none.
  [[nodiscard]] int claim() noexcept;
  void finish(std::size_t index, int error) noexcept;

 private:
  struct Mark {
    std::atomic<ApplyState> state{ApplyState::Waiting};
    std::atomic<int> error{0};
  };
  enum class Readiness : std::uint8_t { Ready, NotYet, Never };
  [[nodiscard]] Readiness readiness(std::size_t index) const noexcept;

  std::vector<ApplyStep> steps_;
  std::unique_ptr<Mark[]> marks_;
};

// Who carries batches out. progress is called on the control loop after steps have changed state (several changes may share one call).
class StepApplier {
 public:
  virtual ~StepApplier() = default;
  virtual void setProgress(std::function<void()> progress) = 0;
  virtual void submit(std::shared_ptr<ApplyBatch> batch) = 0;
  // A step of the batch takes too long: somebody else goes on with those that do not wait for it.
  virtual void helpOut(std::shared_ptr<ApplyBatch> batch) = 0;
  // The caller's thread has a plan to make or to see through (false: no longer): it should not wait behind the load that it plans for. Cheap; told
  // again at each step on the way.
  virtual void hurry(bool wanted) = 0;
};

}  // namespace coterie::agent
