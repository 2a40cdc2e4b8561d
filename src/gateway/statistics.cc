#include "gateway/statistics.h"

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
}

}  // namespace coterie::gateway
