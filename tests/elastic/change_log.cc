#include "change_log.h"

#include <algorithm>
#include <cmath>

namespace coterie::elastic {

namespace {

double millis(Nanos time) { return static_cast<double>(time.count()) / 1e6; }

template <typename Entry>
auto from(const std::vector<Entry>& entries, Instant time, Instant Entry::* at) {
  return std::lower_bound(entries.begin(), entries.end(), time, [at](const Entry& entry, Instant when) { return entry.*at < when; });
}

}  // namespace

LaneStart laneStarted(const ChangeLog& log, const Change& change) {
  const CpuSet added = change.after - change.before;
  LaneStart start;
  for (auto run = from(log.runs, change.decided, &RunSeen::answered); run != log.runs.end() && run->answered < change.until; ++run) {
    if (run->lane < change.before.count() || run->dispatched < change.decided) continue;
    start.ran = millis(std::max(run->dispatched, run->answered - run->cpu) - change.decided);
    break;
  }
  for (auto sample = from(log.samples, change.decided, &ThreadSample::at); sample != log.samples.end() && sample->at < change.until; ++sample) {
    if (sample->kind != ThreadKind::OwnLane || !added.contains(sample->cpu)) continue;
    start.seen = millis(sample->at - change.decided);
    break;
  }
  return start;
}

double cpuLeft(const ChangeLog& log, const Change& change) {
  const CpuSet removed = change.before - change.after;
  double last = 0;
  for (auto sample = from(log.samples, change.decided, &ThreadSample::at); sample != log.samples.end() && sample->at < change.until; ++sample) {
    if (removed.contains(sample->cpu)) last = millis(sample->at - change.decided);
  }
  return last;
}

double settledRate(const ChangeLog& log, const Change& change, Nanos settle) {
  const Instant begin = change.decided + settle;
  if (begin >= change.until) return 0;
  const auto count = from(log.runs, change.until, &RunSeen::answered) - from(log.runs, begin, &RunSeen::answered);
  return static_cast<double>(count) * 1e3 / millis(change.until - begin);
}

std::optional<double> rateFollowed(const ChangeLog& log, const Change& change, double level, Nanos window) {
  const auto wanted = std::max<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(std::ceil(0.9 * level * millis(window) / 1e3)));
  auto tail = from(log.runs, change.decided - window, &RunSeen::answered);
  for (auto head = from(log.runs, change.decided, &RunSeen::answered); head != log.runs.end() && head->answered < change.until; ++head) {
    while (tail->answered <= head->answered - window) ++tail;
    if (head - tail + 1 >= wanted) return millis(head->answered - change.decided);
  }
  return std::nullopt;
}

}  // namespace coterie::elastic
