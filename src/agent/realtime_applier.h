// Applies batches of writes on threads of their own, real-time where allowed.
//
// One writer does all the work; helpers (at most 3) are started only when a write is stuck, and go on with the steps that do not wait for it. A stuck
// write occupies its thread until the kernel lets go; with all threads occupied, batches wait in their queues. Batches reach a writer over a lock-
// free queue, states come back in the batch, an eventfd wakes each side. A writer neither allocates nor locks nor logs nor plans. Policy: SCHED_FIFO
// 1 with reset on fork; after 10 ms of work without a pause it sleeps once, so that a long list holds no CPU. No RLIMIT_RTTIME: it counts as work the
// time for which a hypervisor stops a CPU, and its signal ends the process (seen in a guest); the kernel's own real-time budget stays. Needs
// CAP_SYS_NICE and a cpu cgroup with real-time budget (with RT_GROUP_SCHED new groups have none: the threads stay in the process's own); the policy
// is read back. Refused: nice -15 if allowed, else ordinary; policy() says which. Why: with spinning threads on every CPU a cpuset write by an
// ordinary thread takes up to 111 ms, by a real-time one 137 us (measured). hurry() gives the caller's thread the writers' policy for as long as a
// plan is under way, where they are real-time: 150 spinning threads kept a control loop at nice -10 from a plan's 60 ms of work for 0.8 s. It is a
// whole event loop, so it has a budget of CPU time in each second, beyond which it goes on as it was. Thread rule: control loop. The destructor waits
// for threads that are not stuck.
#pragma once

#include <memory>
#include <string>

#include "agent/apply_batch.h"
#include "base/result.h"
#include "ports/clock.h"

namespace coterie::agent {

struct RealtimeApplierConfig {
  ApplyBatch::Execute execute{nullptr};  // linux::executeWrite
  bool realtime{true};                   // false: do not ask for a real-time policy
  int mostHelpers{3};
  Nanos hurryMost{Millis(300)};  // CPU time of the loop's thread in a second at which hurry() has an effect
};

class RealtimeApplier final : public StepApplier {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RealtimeApplier>> create(EventLoop& loop, const RealtimeApplierConfig& config);
  ~RealtimeApplier() override;

  void setProgress(std::function<void()> progress) override;
  void submit(std::shared_ptr<ApplyBatch> batch) override;
  void helpOut(std::shared_ptr<ApplyBatch> batch) override;
  void hurry(bool wanted) override;

  enum class Policy : std::uint8_t { Fifo, Nice, Ordinary };
  [[nodiscard]] Policy policy() const;           // as read back by the first writer
  [[nodiscard]] std::string policyText() const;  // for the log, once

 private:
  struct Impl;
  explicit RealtimeApplier(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coterie::agent
