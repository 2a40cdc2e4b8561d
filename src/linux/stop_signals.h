// The signals by which people end a program, SIGINT, SIGTERM and (their terminal has gone, unless that is ignored) SIGHUP, as calls on the control
// loop.
//
// Made before any thread is started: the signals are blocked in this thread and in all that it starts, and stay blocked. Errors: without a descriptor
// nothing is told. Thread rule: control loop. Source: signalfd(2).
#pragma once

#include <functional>

#include "base/unique_fd.h"
#include "ports/clock.h"

namespace coterie::linux {

class StopSignals {
 public:
  // stop: called once for each signal.
  StopSignals(EventLoop& loop, std::function<void()> stop);

 private:
  UniqueFd signals_;
  TimerHandle watch_;
};

}  // namespace coterie::linux
