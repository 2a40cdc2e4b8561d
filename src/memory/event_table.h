// The event log's rules (ports/event_log.h) in memory: counting repeats, the limits per object and in all. Also what the SQLite store reads from.
//
// add() says which entry to keep and which to forget, so that an adapter can do the same on disk. O(log entries). Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "ports/clock.h"
#include "ports/event_log.h"

namespace coterie::memory {

class EventTable {
 public:
  explicit EventTable(std::uint64_t sequence = 0) : sequence_(sequence) {}

  struct Added {
    Event event;                        // with its sequence, times and count
    std::vector<std::uint64_t> forget;  // sequences that are no more
  };
  Added add(Event event, std::int64_t nowMicros);
  void load(Event event);

  [[nodiscard]] std::vector<Event> last(const ObjectKey& object, std::size_t most) const;
  [[nodiscard]] std::vector<Event> since(std::uint64_t after, std::size_t most) const;

 private:
  void forget(std::uint64_t sequence, std::vector<std::uint64_t>& forgotten);

  std::uint64_t sequence_;
  std::map<std::uint64_t, Event> events_;
  std::map<ObjectKey, std::set<std::uint64_t>> byObject_;
};

class MemoryEventLog final : public EventLog {
 public:
  explicit MemoryEventLog(const Clock& clock) : clock_(clock) {}
  Status append(Event event) override { return table_.add(std::move(event), clock_.wall().micros), Status(); }
  [[nodiscard]] std::vector<Event> last(const ObjectKey& object, std::size_t most) const override { return table_.last(object, most); }
  [[nodiscard]] std::vector<Event> since(std::uint64_t after, std::size_t most) const override { return table_.since(after, most); }

 private:
  const Clock& clock_;
  EventTable table_;
};

}  // namespace coterie::memory
