#include "memory/watch_hub.h"

#include <algorithm>
#include <utility>

namespace coterie::memory {

struct WatchHub::State : std::enable_shared_from_this<State> {
  struct Watcher {
    std::string kind;
    std::uint64_t cursor{0};  // version of the last change that was delivered or passed over
    std::function<void(const Change&)> callback;
    bool stopped{false};
  };

  explicit State(EventLoop& l) : loop(l) {}

  void schedule() {
    if (scheduled || closed) return;
    scheduled = true;
    loop.post([self = shared_from_this()] { self->deliver(); });
  }

  // A callback may write, watch or stop watches: so by index over a copy of the list, and each change is copied out before the call.
  void deliver() {
    scheduled = false;
    const std::vector<std::shared_ptr<Watcher>> present = watchers;
    for (const auto& watcher : present) {
      while (!closed && !watcher->stopped) {
        const auto next = std::upper_bound(history.begin(), history.end(), watcher->cursor,
                                           [](std::uint64_t cursor, const Change& change) { return cursor < change.object.resourceVersion; });
        if (next == history.end()) break;
        watcher->cursor = next->object.resourceVersion;
        if (next->object.key.kind != watcher->kind) continue;
        const Change change = *next;
        const auto callback = watcher->callback;  // outlives the watch, should the callback stop it
        callback(change);
      }
    }
    trim();
  }

  void trim() {
    std::uint64_t seenByAll = version;
    for (const auto& watcher : watchers) seenByAll = std::min(seenByAll, watcher->cursor);
    while (history.size() > kHistory && history.front().object.resourceVersion <= seenByAll) {
      oldest = history.front().object.resourceVersion;
      history.pop_front();
    }
  }

  EventLoop& loop;
  std::deque<Change> history;  // ascending version
  std::uint64_t oldest{0};     // changes after this version are all in the history
  std::uint64_t version{0};
  std::vector<std::shared_ptr<Watcher>> watchers;  // shared with a delivery in progress
  bool scheduled{false};
  bool closed{false};
};

WatchHub::WatchHub(EventLoop& loop, std::uint64_t startVersion) : state_(std::make_shared<State>(loop)) {
  state_->oldest = startVersion;
  state_->version = startVersion;
}

WatchHub::~WatchHub() { state_->closed = true; }

void WatchHub::publish(const Change& change) {
  state_->version = change.object.resourceVersion;
  state_->history.push_back(change);
  if (state_->watchers.empty()) {
    state_->trim();
  } else {
    state_->schedule();
  }
}

Result<std::unique_ptr<Watch>> WatchHub::watch(const std::string& kind, std::uint64_t afterVersion, std::function<void(const Change&)> callback) {
  if (afterVersion < state_->oldest || afterVersion > state_->version) {
    return Error{Code::Conflict, "ResourceVersionTooOld",
                 "version " + std::to_string(afterVersion) + " is not known any more: list again and watch from that list's version"};
  }
  class Handle final : public Watch {
   public:
    Handle(std::shared_ptr<State> state, std::shared_ptr<State::Watcher> watcher) : state_(std::move(state)), watcher_(std::move(watcher)) {}
    ~Handle() override {
      watcher_->stopped = true;
      std::erase(state_->watchers, watcher_);
    }

   private:
    std::shared_ptr<State> state_;
    std::shared_ptr<State::Watcher> watcher_;
  };
  auto watcher = std::make_shared<State::Watcher>(State::Watcher{kind, afterVersion, std::move(callback), false});
  state_->watchers.push_back(watcher);
  if (afterVersion < state_->version) state_->schedule();
  return std::unique_ptr<Watch>(std::make_unique<Handle>(state_, std::move(watcher)));
}

}  // namespace coterie::memory
