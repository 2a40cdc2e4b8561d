// Folds refusals (401, 403) into few lines: one for each who and reason within kWindow, with a count, so that whoever knocks at the door all day
// fills no disk.
//
// A line is handed on when its window is over, counted from its first refusal, and at the end. It tells of the first refusal (verb, kind, object),
// how many there were and since when. At most kMostRows are open at a time; beyond that refusals of a reason are counted in one line of "others". A
// kill loses what is open. add() is O(1), without allocation where the row is there. Nothing is armed while nothing is open. Thread rule: the loop's
// thread.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "audit/line.h"
#include "base/units.h"
#include "ports/clock.h"

namespace coterie::audit {

class Refusals {
 public:
  static constexpr Nanos kWindow = Seconds(10);
  static constexpr std::size_t kMostRows = 64;
  static constexpr std::size_t kMostOthers = 16;  // reasons that have a line of "others"; all further ones share the last

  using Sink = std::function<void(std::vector<Entry>)>;
  Refusals(EventLoop& loop, Through through, Sink sink);
  ~Refusals();
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  // first() is asked for the line where there is none yet: actor, verb, kind, object and tenant are read.
  void add(std::string_view who, std::string_view reason, const std::function<Entry()>& first);
  // Hands on what is open.
  void flush();

 private:
  struct Row {
    Instant began;
    Entry entry;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  Row* find(std::string_view who, std::string_view reason);
  Row& open(std::string_view who, std::string_view reason, Entry entry);
  void arm();
  void endOver();

  EventLoop& loop_;
  Through through_;
  Sink sink_;
  std::unordered_map<std::string, Row, Hash, std::equal_to<>> rows_;
  std::deque<std::string> order_;  // of their beginning
  std::size_t others_{0};
  std::string key_;  // reused
  TimerHandle timer_;
};

}  // namespace coterie::audit
