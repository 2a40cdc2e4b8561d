// The signals by which people end a program, SIGINT, SIGTERM and (their terminal has gone, unless that is ignored) SIGHUP, as calls on the control
// loop. A program that lives on without a terminal may take SIGHUP for "read your configuration again" instead, where a process sent it (kill -HUP,
// systemctl reload); the kernel's own, which says that the terminal has gone, still ends it.
//
// Made before any thread is started: the signals are blocked in this thread and in all that it starts, and stay blocked. Errors: without a descriptor
// nothing is told. Thread rule: control loop. Source: signalfd(2).
#pragma once

#include <functional>

#include "base/unique_fd.h"
#include "ports/clock.h"

namespace coterie::linux {

// SIGHUP waits from now on for a StopSignals, in this thread and those that it starts; for a program that takes long until it has one, and that
// somebody may ask meanwhile to read its configuration.
void holdHangUps();

class StopSignals {
 public:
  // Each called once for each signal. hangUp: for a SIGHUP that a process sent, also under nohup; empty: that stops, too.
  StopSignals(EventLoop& loop, std::function<void()> stop, std::function<void()> hangUp = {});

 private:
  UniqueFd signals_;
  TimerHandle watch_;
};

}  // namespace coterie::linux
