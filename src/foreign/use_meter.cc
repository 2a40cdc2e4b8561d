#include "foreign/use_meter.h"

#include <algorithm>
#include <utility>

namespace coterie::foreign {

namespace {
MilliCpu perTime(Nanos time, Nanos span) { return MilliCpu(span > Nanos{0} ? time.count() * 1000 / span.count() : 0); }
}  // namespace

void UseMeter::look(Instant now, const std::vector<ThreadTimes>& threads) {
  Interval interval{now - lastLook_, {}, {}};
  std::unordered_map<int, ThreadTimes> times;
  int busy = 0;
  for (const ThreadTimes& thread : threads) {
    const auto known = before_.find(thread.tid);
    const ThreadTimes from = known != before_.end() ? known->second : ThreadTimes{thread.tid, {}, {}};
    const Nanos run = std::max(Nanos{0}, thread.run - from.run);
    const Nanos waited = std::max(Nanos{0}, thread.waited - from.waited);
    interval.run += run;
    interval.waited += waited;
    if ((run + waited) * 10 >= interval.span) ++busy;
    times.emplace(thread.tid, thread);
  }
  threads_ = static_cast<int>(threads.size());
  before_ = std::move(times);
  lastLook_ = lastThreads_ = now;
  interval.run = std::max(Nanos{0}, interval.run - std::exchange(restedRun_, Nanos{0}));
  if (!std::exchange(looked_, true) || interval.span <= Nanos{0}) return;
  busy_ = busy;
  keep(interval);
}

void UseMeter::rest(Instant now, Nanos ran) {
  const Interval interval{now - lastLook_, ran, {}};
  if (!looked_ || interval.span <= Nanos{0}) return;
  lastLook_ = now;
  restedRun_ += ran;
  busy_ = 0;
  keep(interval);
}

void UseMeter::keep(const Interval& interval) {
  intervals_.push_back(interval);
  sum_ = {sum_.span + interval.span, sum_.run + interval.run, sum_.waited + interval.waited};
  while (intervals_.size() > 1 && sum_.span - intervals_.front().span >= window_) {
    const Interval& oldest = intervals_.front();
    sum_ = {sum_.span - oldest.span, sum_.run - oldest.run, sum_.waited - oldest.waited};
    intervals_.pop_front();
  }
}

Use UseMeter::useOf(const Interval& sum) const {
  return {sum.span, perTime(sum.run, sum.span), perTime(sum.run + sum.waited, sum.span), threads_, busy_, 0};
}

Use UseMeter::use() const { return useOf(sum_); }

Use UseMeter::last() const { return useOf(intervals_.empty() ? Interval{} : intervals_.back()); }

void addUse(Use& sum, const Use& one) {
  sum.span = std::max(sum.span, one.span);
  sum.used += one.used;
  sum.wanted += one.wanted;
  sum.threads += one.threads;
  sum.busyThreads += one.busyThreads;
  sum.pressurePermille = std::max(sum.pressurePermille, one.pressurePermille);
}

MilliCpu foreignDemand(const Use& use, MilliCpu granted) {
  constexpr std::int64_t kPressurePermille = 100;
  const bool atLimit = use.used.value * 10 > granted.value * 9;
  const bool waits = use.wanted.value - use.used.value > kPressurePermille || use.pressurePermille > kPressurePermille;
  return atLimit || waits ? use.used * 2 : MilliCpu(use.used.value * 6 / 5);
}

}  // namespace coterie::foreign
