// A ModelBackend without workers: cells on the heap, lanes that a test makes and breaks, answers that a test gives or that come by themselves.
//
// With Mode::Echo a run is answered on the loop's next turn: output i is input i (of one signature's order), byte for byte, of several members one
// behind the other. With Mode::Manual it waits until the test calls finish() or fail(). Keeps ModelBackend's promises: completion exactly once, never
// from inside run(); a lane runs one request at a time (asserted). Thread rule: the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ports/clock.h"
#include "ports/model_backend.h"

namespace coterie::testing {

class FakeBackend final : public ModelBackend {
 public:
  enum class Mode : std::uint8_t { Echo, Manual };
  struct Running {
    RunRequest request;
    Completion completion;
    bool terminated{false};
  };

  FakeBackend(EventLoop& loop, ModelSignature signature, Mode mode);
  ~FakeBackend() override;

  void setListener(Listener* listener) override;
  [[nodiscard]] const ModelSignature& signature() const override { return signature_; }
  [[nodiscard]] Result<std::shared_ptr<InputCell>> allocate(std::size_t bytes) override;
  void run(const LaneRef& lane, RunRequest request, Completion completion) override;
  void terminate(const LaneRef& lane) override;
  [[nodiscard]] bool keeps(InstanceId instance) const override { return !gone_.contains(instance); }
  void forget(InstanceId instance, std::uint64_t handle) override { states_.erase({instance, handle}); }

  void addLane(int instance, int lane, LaneClass laneClass = LaneClass::Own);
  void removeLane(int instance, int lane);  // what runs there must have been finished
  // Answers what runs on the lane: by echo, or by an error.
  void finish(int instance, int lane);
  void finishWhateverWasSaid(int instance, int lane);  // by echo, though it was told to stop
  void fail(int instance, int lane, Error error);
  void crash(int instance, int lane);          // in flight when the worker died; the lane goes
  void loseUnstarted(int instance, int lane);  // the worker went before it took the request; the lane goes
  void endInstance(int instance);              // keeps nothing any more; its lanes are the test's to remove
  // Of sequences: how many runs each state has seen, by instance and handle. A run that does not begin one and finds none is a failed assertion.
  [[nodiscard]] const std::map<std::pair<InstanceId, std::uint64_t>, int>& states() const { return states_; }

  [[nodiscard]] const std::map<LaneRef, Running>& running() const { return running_; }
  [[nodiscard]] bool runs(int instance, int lane) const { return running_.contains({InstanceId(instance), LaneId(lane)}); }
  [[nodiscard]] std::size_t cells() const { return *cells_; }  // alive
  std::size_t arenaBytes{std::size_t{1} << 30U};               // more at once: ArenaFull
  std::uint64_t runCount{0};
  std::int64_t rowsToo{0};  // its answers' first dimension is by so much another one than the inputs'

 private:
  void complete(const LaneRef& lane, RunOutcome outcome);
  void keepState(InstanceId instance, const SequencePart& part);
  [[nodiscard]] std::unique_ptr<Answer> echo(const RunRequest& request) const;

  EventLoop& loop_;
  ModelSignature signature_;
  Mode mode_;
  Listener* listener_{nullptr};
  std::vector<LaneInfo> lanes_;
  std::map<LaneRef, Running> running_;
  std::map<std::pair<InstanceId, std::uint64_t>, int> states_;
  std::map<std::pair<InstanceId, std::uint64_t>, int> before_;
  std::set<InstanceId> gone_;
  std::shared_ptr<std::size_t> cells_;
  std::shared_ptr<std::size_t> used_;
  std::shared_ptr<FakeBackend*> self_;
};

}  // namespace coterie::testing
