#include "gateway/statistics.h"

#include <algorithm>
#include <utility>

namespace coterie::gateway {

namespace {
std::size_t placeOf(int status) {
  for (std::size_t i = 0; i < kStatuses.size(); ++i) {
    if (kStatuses[i] == status) return i;
  }
  return placeOf(500);  // a status that nobody should send
}
}  // namespace

void RequestCounts::answer(int status, std::string_view reason) {
  ++byStatus[placeOf(status)];
  if (status == 200 || status == 499) return;
  if (const auto found = refused.find(reason); found != refused.end())
    ++found->second;
  else
    refused.emplace(reason, 1);
}

std::int64_t RequestCounts::answered() const {
  std::int64_t sum = 0;
  for (const std::int64_t count : byStatus) sum += count;
  return sum;
}

std::int64_t RequestCounts::of(int status) const { return byStatus[placeOf(status)]; }

void RecentHistogram::turn(Instant now) {
  if (now - start_ < kWindow) return;
  if (now - start_ < 2 * kWindow)
    previous_ = current_;
  else
    previous_.clear();
  current_.clear();
  start_ = now;
}

void RunCounts::record(std::size_t together, Nanos took) {
  Total& total = totals_[std::min(together, totals_.size() - 1)];
  ++total.runs;
  total.nanos += took.count();
}

std::int64_t RunCounts::runsOfAtMost(std::int64_t together) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < totals_.size() && std::cmp_less_equal(i, together); ++i) sum += totals_[i].runs;
  return sum;
}

std::int64_t RunCounts::runs() const { return runsOfAtMost(kMostBatch); }

std::int64_t RunCounts::requests() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < totals_.size(); ++i) sum += static_cast<std::int64_t>(i) * totals_[i].runs;
  return sum;
}

void ServiceStatistics::ran(std::size_t together, Nanos took) {
  runs.record(together, took);
  run.record(took.count(), static_cast<std::int64_t>(together));
}

Histogram RecentHistogram::read(Instant now) const {
  RecentHistogram turned = *this;
  turned.turn(now);
  turned.current_.merge(turned.previous_);
  return turned.current_;
}

void RequestCounts::add(const RequestCounts& other) {
  started += other.started;
  for (std::size_t i = 0; i < byStatus.size(); ++i) byStatus[i] += other.byStatus[i];
  for (const auto& [reason, count] : other.refused) refused[reason] += count;
}

void CallFigures::add(const CallFigures& other) {
  requests.add(other.requests);
  queue.merge(other.queue);
  run.merge(other.run);
  total.merge(other.total);
  withinObjective += other.withinObjective;
  bytesIn += other.bytesIn;
  bytesOut += other.bytesOut;
  slotNanos += other.slotNanos;
}

}  // namespace coterie::gateway
