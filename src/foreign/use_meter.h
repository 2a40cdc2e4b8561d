// What a container uses and what it would like to use, from its threads' times in the kernel (run, waited for a CPU).
//
// Exact, not sampled: between two looks the run times say how much CPU it had, run and waiting together how many threads wanted one on average.
// A thread that is seen for the first time counts from its birth if the container was looked at before; one that ended between two looks takes with
// it what it did since the last one. The figures are those of the last `window`. O(threads) per look. Pure: time is an argument. Thread-compatible.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "model/seen_process.h"

namespace coterie::foreign {

struct Use {
  Nanos span{};                      // that the figures are of; 0: nothing is known yet
  MilliCpu used;                     // CPU time per time
  MilliCpu wanted;                   // threads that run or wait, on average; never less than used
  int threads{0};                    // at the last look
  int busyThreads{0};                // of them, those that ran for a tenth of the last interval, or wanted to
  std::int64_t pressurePermille{0};  // of the last 10 s, in which some thread waited for a CPU, where the kernel says so
  [[nodiscard]] bool known() const { return span > Nanos{0}; }
};

class UseMeter {
 public:
  explicit UseMeter(Nanos window) : window_(window) {}
  void look(Instant now, const std::vector<ThreadTimes>& threads);
  // In place of a look where it is known that next to nothing ran: its threads together ran so long, and none waited.
  void rest(Instant now, Nanos ran);
  [[nodiscard]] Instant lastThreads() const { return lastThreads_; }  // when they were looked at
  [[nodiscard]] Use use() const;                                      // of the window
  [[nodiscard]] Use last() const;                                     // between the last two looks

 private:
  struct Interval {
    Nanos span{}, run{}, waited{};
  };
  [[nodiscard]] Use useOf(const Interval& sum) const;
  void keep(const Interval& interval);

  Nanos window_;
  std::unordered_map<int, ThreadTimes> before_;
  bool looked_{false};
  Instant lastLook_{}, lastThreads_{};
  Nanos restedRun_{};  // counted by rest(), and again in the threads' times
  int threads_{0};
  int busy_{0};
  std::deque<Interval> intervals_;
  Interval sum_{};  // of them
};

// Of several containers, or processes, together.
void addUse(Use& sum, const Use& one);

// How much CPU a container could use now, from what it uses (in-node scheduling, "Demand", foreign containers): twice what it uses where it is at its
// limit (more than 9/10 of what it has, or more than a tenth of the time spent waiting for a CPU, by its threads' times or by the kernel's pressure),
// else 1.2 times. Use cannot exceed what was
// granted, so a hungry one doubles step by step.
[[nodiscard]] MilliCpu foreignDemand(const Use& use, MilliCpu granted);

}  // namespace coterie::foreign
