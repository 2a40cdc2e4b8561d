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

double amount(const RunSeen& run, Unit unit) { return unit == Unit::Answers ? 1 : millis(run.cpu) / 1e3; }

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

double settledRate(const ChangeLog& log, const Change& change, Nanos settle, Unit unit) {
  const Instant begin = change.decided + settle;
  if (begin >= change.until) return 0;
  double sum = 0;
  for (auto run = from(log.runs, begin, &RunSeen::answered); run != log.runs.end() && run->answered < change.until; ++run) sum += amount(*run, unit);
  return sum * 1e3 / millis(change.until - begin);
}

std::optional<double> rateFollowed(const ChangeLog& log, const Change& change, const Level& wanted) {
  double least = 0.9 * wanted.level * millis(wanted.window) / 1e3;
  if (wanted.unit == Unit::Answers) least = std::max(1.0, std::ceil(least));
  const auto counts = [&](const RunSeen& run) { return amount(run, wanted.unit) * (run.answered < change.decided ? wanted.before : 1); };
  auto tail = from(log.runs, change.decided - wanted.window, &RunSeen::answered);
  double sum = 0;
  for (auto head = tail; head != log.runs.end() && head->answered < change.until; ++head) {
    sum += counts(*head);
    for (; tail->answered <= head->answered - wanted.window; ++tail) sum -= counts(*tail);
    if (head->answered >= change.decided && sum >= least) return millis(head->answered - change.decided);
  }
  return std::nullopt;
}

}  // namespace coterie::elastic
