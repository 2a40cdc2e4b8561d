#include "memory/event_table.h"

#include <algorithm>
#include <utility>

namespace coterie::memory {

EventTable::Added EventTable::add(Event event, std::int64_t nowMicros) {
  Added added;
  event.sequence = ++sequence_;
  event.firstMicros = nowMicros;
  event.lastMicros = nowMicros;
  event.count = 1;
  if (const auto known = byObject_.find(event.object); known != byObject_.end()) {
    const Event& before = events_.at(*known->second.rbegin());
    if (before.reason == event.reason && before.message == event.message && before.fields == event.fields) {
      event.firstMicros = before.firstMicros;
      event.count = before.count + 1;
      forget(before.sequence, added.forget);
    }
  }
  added.event = event;
  load(std::move(event));
  std::set<std::uint64_t>& ofObject = byObject_.at(added.event.object);
  if (ofObject.size() > kEventsPerObject) forget(*ofObject.begin(), added.forget);
  if (events_.size() > kEventsInAll) forget(events_.begin()->first, added.forget);
  return added;
}

void EventTable::load(Event event) {
  sequence_ = std::max(sequence_, event.sequence);
  byObject_[event.object].insert(event.sequence);
  events_.insert_or_assign(event.sequence, std::move(event));
}

void EventTable::forget(std::uint64_t sequence, std::vector<std::uint64_t>& forgotten) {
  const auto found = events_.find(sequence);
  const auto ofObject = byObject_.find(found->second.object);
  ofObject->second.erase(sequence);
  if (ofObject->second.empty()) byObject_.erase(ofObject);
  events_.erase(found);
  forgotten.push_back(sequence);
}

std::vector<Event> EventTable::last(const ObjectKey& object, std::size_t most) const {
  std::vector<Event> result;
  const auto known = byObject_.find(object);
  if (known == byObject_.end()) return result;
  for (auto it = known->second.rbegin(); it != known->second.rend() && result.size() < most; ++it) result.push_back(events_.at(*it));
  std::reverse(result.begin(), result.end());
  return result;
}

std::vector<Event> EventTable::since(std::uint64_t after, std::size_t most) const {
  std::vector<Event> result;
  for (auto it = events_.upper_bound(after); it != events_.end() && result.size() < most; ++it) result.push_back(it->second);
  return result;
}

}  // namespace coterie::memory
