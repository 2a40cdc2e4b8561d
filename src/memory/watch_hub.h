// Delivers a store's changes to its watches, in order, on the event loop, never from inside a write.
//
// The last kHistory changes are kept, and more only until every watch has seen them (they do at the next turn of the loop). A watch that starts
// further back, or ahead of the store, is told to list again. O(changes of the kind and others since its cursor) per delivery. Thread rule: the
// loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ports/clock.h"
#include "ports/object_store.h"

namespace coterie::memory {

class WatchHub {
 public:
  static constexpr std::size_t kHistory = 1024;

  // startVersion: changes up to it are not known here.
  WatchHub(EventLoop& loop, std::uint64_t startVersion);
  ~WatchHub();
  WatchHub(const WatchHub&) = delete;
  WatchHub& operator=(const WatchHub&) = delete;

  void publish(const Change& change);
  [[nodiscard]] Result<std::unique_ptr<Watch>> watch(const std::string& kind, std::uint64_t afterVersion,
                                                     std::function<void(const Change&)> callback);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with watches and posted deliveries, which may outlive the store
};

}  // namespace coterie::memory
