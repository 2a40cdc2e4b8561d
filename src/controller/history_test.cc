// Random histories of a whole controller.
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "controller/controller_fixture.h"

namespace coterie::controller {
namespace {

// Random histories of objects, workers and capacity; after each step no call was out of order and no memory and no CPU is promised twice, and at the
// end, left alone, all is served that fits.
RC_GTEST_PROP(ControllerHistory, KeepsItsPromisesAndConverges, ()) {
  ControllerFixture c(Bytes(2LL << 30), MilliCpu(4000));
  for (const char* name : {"a", "b", "c"}) c.files.put(std::string(name) + ".onnx", std::string("sum-") + name, Bytes(50'000'000));
  c.putTenant("team", {"n"});
  c.start();
  const std::vector<std::string> names = {"a", "b", "c"};
  for (int step = *rc::gen::inRange(1, 60); step > 0; --step) {
    const std::string name = *rc::gen::elementOf(names);
    const std::vector<InstanceId> ids = c.instancesOf(name);
    switch (*rc::gen::inRange(0, 9)) {
      case 0:
      case 1: {
        const int instances = *rc::gen::inRange(0, 4);
        const std::string model = *rc::gen::elementOf(names);
        const std::int64_t floor = *rc::gen::inRange(0, 3000);
        const Isolation isolation = *rc::gen::element(Isolation::None, Isolation::None, Isolation::Core, Isolation::Node);
        c.putService(name, [&](ModelServiceSpec& s) {
          s.instances = instances;
          s.modelUri = "file:" + model + ".onnx";
          s.minCpus = MilliCpu(floor);
          s.isolation = isolation;
        });
        break;
      }
      case 2: c.remove(name); break;
      case 3:
      case 4:
        if (!ids.empty()) c.runtime.ready(ids.back());
        break;
      case 5:
        if (!ids.empty()) c.runtime.end(ids.front(), EndReason::Crashed, "crash");
        break;
      case 6:
        if (!c.gateway.draining.empty()) c.gateway.drained(c.gateway.draining.begin()->first);
        break;
      case 7:
        for (const InstanceId id : std::exchange(c.runtime.stops, {})) {
          if (c.runtime.running.contains(id)) c.runtime.end(id);
        }
        break;
      default: c.loop.advance(Millis(*rc::gen::inRange(1, 5000))); break;
    }
    c.loop.runUntilIdle();
    Bytes promised = c.config.systemMemory;
    for (const auto& [id, spec] : c.runtime.running) promised += spec.memoryLimit;
    RC_ASSERT(promised <= c.config.machineMemory);
    MilliCpu owned;
    for (const auto& [id, group] : c.allocation.groups) owned += c.allocation.owned(group);
    RC_ASSERT(owned <= c.allocation.capacity);
    RC_ASSERT(c.gateway.errors == 0 && c.allocation.errors == 0 && c.gateway.removed < 100);
  }
  for (int i = 0; i < 20; ++i) {
    c.settle();
    c.loop.advance(Seconds(61));
  }
  c.settle();
  for (const ServiceSummary& summary : c.services->summaries()) {
    const bool refused = !summary.obstacles.empty();
    if (!refused) RC_ASSERT(summary.serving == summary.desired);
    for (const InstanceSummary& instance : summary.instances) RC_ASSERT(instance.state == InstanceState::Serving);
  }
}

}  // namespace
}  // namespace coterie::controller
