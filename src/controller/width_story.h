// A service whose requests take longer by one thread than its objective allows, and two CPUs: what stories about the width of runs begin with. For
// tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "controller/controller_fixture.h"

namespace coterie::controller {

class WidthStory : public ControllerStory {
 protected:
  void SetUp() override {
    ControllerStory::SetUp();
    runtime.runTimes = {{1, Millis(80)}, {2, Millis(45)}};
    allocation.load = GroupLoad{2, {}, 1, MilliRps(0), 0, 0};
  }
  void serveA(Nanos objective, const std::function<void(ModelServiceSpec&)>& edit = {}) {
    putService("a", [&](ModelServiceSpec& spec) {
      if (objective.count() > 0) spec.objective = Objective{objective, 99};
      if (edit) edit(spec);
    });
    settle();
  }
  // So many clients, each sending the next request when it has its answer.
  void busy(int clients, double perSecond) {
    allocation.load->running = std::min(clients, 2);
    allocation.load->waiting = clients - allocation.load->running;
    allocation.load->arrivals = MilliRps(static_cast<std::int64_t>(perSecond * 1000));
  }
  void idle() { busy(0, 0); }
  // The worker that measures, if one does.
  [[nodiscard]] InstanceId measuring() const {
    for (const auto& [id, spec] : runtime.running) {
      if (!spec.measureWidths.empty()) return id;
    }
    return {};
  }
  void endStopped() {
    for (const InstanceId id : std::exchange(runtime.stops, {})) {
      if (runtime.running.contains(id)) runtime.end(id);
    }
    loop.runUntilIdle();
  }
  // While it is idle, until its run times are known.
  void measure() {
    idle();
    loop.advance(Seconds(4));
    ASSERT_TRUE(measuring().valid());
    runtime.ready(measuring());
    loop.runUntilIdle();
    endStopped();
    ASSERT_FALSE(measuring().valid());
  }
  [[nodiscard]] const InstanceSpec& newest() const { return runtime.starts.back(); }
  [[nodiscard]] WidthSummary width() const { return services->summary({"n", "a"})->width; }
};

}  // namespace coterie::controller
