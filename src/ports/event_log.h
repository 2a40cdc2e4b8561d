// What happened to objects and why: the journal behind `explain` and `events`.
//
// Each entry is about one object and carries a reason (CamelCase, for programs), a message (for people) and structured fields. An entry that repeats
// its object's last one (same reason, message and fields) is counted there instead of being added. Kept: the last kEventsPerObject of an object, also
// after it was deleted, and kEventsInAll; the oldest go first. Entries survive kill -9; power loss may cost the last ones: they are a record, nothing
// is decided from them. Errors of append: those of a store's writes; the entry is then kept in memory only. Adapters: src/memory, src/sqlite. Thread
// rule: control loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/value.h"
#include "ports/object_store.h"

namespace coterie {

inline constexpr std::size_t kEventsPerObject = 50;
inline constexpr std::size_t kEventsInAll = 10000;

struct Event {
  std::uint64_t sequence{0};    // set by the log; grows, also when the entry is counted again
  std::int64_t firstMicros{0};  // wall time; set by the log
  std::int64_t lastMicros{0};
  std::int64_t count{1};
  ObjectKey object;
  std::string reason;
  std::string message;
  Value fields{};  // a map or null
};

class EventLog {
 public:
  virtual ~EventLog() = default;
  virtual Status append(Event event) = 0;
  // The last `most` of an object, oldest first.
  [[nodiscard]] virtual std::vector<Event> last(const ObjectKey& object, std::size_t most) const = 0;
  // Entries with a sequence above `after`, ascending, at most `most`: how `events -w` follows.
  [[nodiscard]] virtual std::vector<Event> since(std::uint64_t after, std::size_t most) const = 0;
};

}  // namespace coterie
