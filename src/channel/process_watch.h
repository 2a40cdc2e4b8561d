// What the kernel says of a worker process: whether any of its threads waits for a CPU. And what follows from that and from its CPU time:
// how much of a run's time the worker may call waiting (CostMeter), and whether it has gone silent (SilenceWatch).
//
// A worker tells with each answer how long the run waited in the kernel's run queue, and its tenant is not charged for that. CostMeter bounds the
// lie: over any stretch of time an instance is charged at least the CPU time that its process has used, per thread of a run, less what runs that are
// still under way have held. A small claim is believed unseen; a larger one costs one look at the process's CPU clock (base/cpu_clock.h).
// SilenceWatch: a process that has a run and uses no CPU time at all, with no thread that wants a CPU, is stopped, frozen or locked up. Counted in
// looks, not by the clock: a pause of our own must not be taken for the worker's. One lane that hangs while others work is no silence: that is what
// the time limit of a run is for.
// Both are pure. O(1), anyRunnable() O(threads). Source: proc_pid_stat(5). Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/units.h"

namespace coterie::channel {

// Does any of its threads run or wait for a CPU?
[[nodiscard]] bool anyRunnable(int pid);

class CostMeter {
 public:
  CostMeter() = default;
  // `cpu`: what the process has used so far; `width`: threads of one run.
  CostMeter(Nanos cpu, int width) : before_(cpu), width_(width) {}

  struct Claim {
    Nanos held{};    // as the gateway has seen it
    Nanos waited{};  // of it, says the worker
  };
  [[nodiscard]] static bool wantsProof(const Claim& claim) { return claim.waited > claim.held / kUnseen; }
  // How much waiting to believe; counts the rest as charged. The first believes all of it.
  [[nodiscard]] Nanos settle(const Claim& claim);
  // `cpu`: used by now; `underWay`: how long runs that have not ended yet hold their lanes, all together.
  [[nodiscard]] Nanos settle(const Claim& claim, Nanos cpu, Nanos underWay);

 private:
  static constexpr int kUnseen = 16;  // a sixteenth of a run is believed unseen
  Nanos before_{};
  Nanos charged_{};
  int width_{1};
};

class SilenceWatch {
 public:
  enum class Sign : std::uint8_t { Nothing, FellSilent, IsBack };
  struct Look {
    bool working{false};  // a run is on one of its lanes
    Nanos cpu{};
  };
  // `limit`: looks in a row without a sign of life. wantsCpu is asked only before it would be called silent.
  template <typename WantsCpu>
  [[nodiscard]] Sign look(const Look& look, int limit, const WantsCpu& wantsCpu) {
    if (!look.working || look.cpu != cpu_) {
      cpu_ = look.cpu;
      quiet_ = 0;
      return heard();
    }
    if (silent_ || ++quiet_ < limit) return Sign::Nothing;
    quiet_ = 0;
    if (wantsCpu()) return Sign::Nothing;  // starved, not silent
    silent_ = true;
    return Sign::FellSilent;
  }
  // It answered, which is a sign of life by itself.
  [[nodiscard]] Sign heard() { return std::exchange(silent_, false) ? Sign::IsBack : Sign::Nothing; }

 private:
  Nanos cpu_{-1};
  int quiet_{0};
  bool silent_{false};
};

}  // namespace coterie::channel
