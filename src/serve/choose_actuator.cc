#include "serve/choose_actuator.h"

#include <utility>

#include "linux/affinity_controller.h"
#include "linux/cgroup_v1_controller.h"
#include "linux/cgroup_v2_controller.h"

namespace coterie::serve {

namespace {
template <typename Made>
Result<std::unique_ptr<CpuController>> asController(Result<std::unique_ptr<Made>> made) {
  if (!made) return made.error();
  return std::unique_ptr<CpuController>(std::move(made).value());
}

std::string named(Actuator actuator) { return std::string(actuatorName(actuator)); }
}  // namespace

std::string_view actuatorName(Actuator actuator) {
  switch (actuator) {
    case Actuator::Auto: return "auto";
    case Actuator::Affinity: return "affinity";
    case Actuator::CgroupV1: return "cgroup-v1";
    case Actuator::CgroupV2: return "cgroup-v2";
  }
  return "auto";
}

std::vector<ActuatorEntry> actuatorsOfThisMachine(const CpuSet& allowed) {
  return {{Actuator::CgroupV2, named(Actuator::CgroupV2),
           [](Wanted wanted) {
             linux::CgroupV2Options options;
             options.onlyIfDelegated = wanted == Wanted::IfFitting;
             return asController(linux::CgroupV2Controller::create(options));
           }},
          {Actuator::CgroupV1, named(Actuator::CgroupV1), [](Wanted) { return asController(linux::CgroupV1Controller::create()); }},
          {Actuator::Affinity, named(Actuator::Affinity), [allowed](Wanted) -> Result<std::unique_ptr<CpuController>> {
             return std::unique_ptr<CpuController>(std::make_unique<linux::AffinityController>(allowed));
           }}};
}

Result<ChosenActuator> chooseActuator(Actuator wanted, const std::vector<ActuatorEntry>& entries) {
  std::string passedOver;
  for (const ActuatorEntry& entry : entries) {
    if (wanted != Actuator::Auto && wanted != entry.actuator) continue;
    auto made = entry.create(wanted == Actuator::Auto ? Wanted::IfFitting : Wanted::ByName);
    if (made) {
      return ChosenActuator{std::move(made).value(),
                            "CPU sets are enforced by " + entry.name + (passedOver.empty() ? std::string() : ". Not by" + passedOver)};
    }
    if (wanted != Actuator::Auto) return made.error();
    passedOver += (passedOver.empty() ? " " : "; nor by ") + entry.name + ": " + made.error().message;
  }
  return Error{Code::Unavailable, "NoActuator", "nothing can enforce CPU sets here"};
}

}  // namespace coterie::serve
