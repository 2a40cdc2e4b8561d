// Calls back, once per turn of the loop, when objects of one kind changed: the level trigger of a reconciler.
//
// The reconciler lists everything on each pass, so that a change is only a reason to look. Thread rule: control loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "ports/clock.h"
#include "ports/object_store.h"

namespace coterie::controller {

class ObjectFollower {
 public:
  ObjectFollower(ObjectStore& store, std::string kind, std::function<void()> changed)
      : store_(store), kind_(std::move(kind)), changed_(std::move(changed)) {}

  Status start() {
    const Result<ObjectList> list = store_.list(kind_, std::nullopt);
    if (!list.ok()) return list.error();
    Result<std::unique_ptr<Watch>> watch = store_.watch(kind_, list->resourceVersion, [this](const Change&) { changed_(); });
    if (!watch.ok()) return watch.error();
    watch_ = std::move(*watch);
    return {};
  }

 private:
  ObjectStore& store_;
  std::string kind_;
  std::function<void()> changed_;
  std::unique_ptr<Watch> watch_;
};

// Runs a function at the next turn of the loop, once however often it is asked. Nothing runs after destruction.
class Coalesced {
 public:
  Coalesced(EventLoop& loop, std::function<void()> run) : loop_(loop), state_(std::make_shared<State>(State{std::move(run), false})) {}
  ~Coalesced() { state_->run = nullptr; }
  Coalesced(const Coalesced&) = delete;
  Coalesced& operator=(const Coalesced&) = delete;
  void trigger() {
    if (state_->posted) return;
    state_->posted = true;
    loop_.post([state = state_] {
      state->posted = false;
      if (const auto run = state->run) run();
    });
  }

 private:
  struct State {
    std::function<void()> run;
    bool posted{false};
  };
  EventLoop& loop_;
  std::shared_ptr<State> state_;  // shared with the posted call, which may outlive this
};

}  // namespace coterie::controller
