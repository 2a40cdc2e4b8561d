// Which adapter enforces CPU sets: the one that was asked for, else the first that can be had.
//
// The order of `auto` is the order of the list; its last entry can always be had. One that was asked for and cannot be had is an error, never
// something weaker. O(adapters). Thread rule: control loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"
#include "base/result.h"
#include "ports/cpu_controller.h"
#include "serve/options.h"

namespace coterie::serve {

enum class Wanted : std::uint8_t { IfFitting, ByName };

struct ActuatorEntry {
  Actuator actuator{Actuator::Affinity};
  std::string name;
  std::function<Result<std::unique_ptr<CpuController>>(Wanted)> create;
};

struct ChosenActuator {
  std::unique_ptr<CpuController> controller;
  std::string message;  // what was chosen, and why what stands before it was not
};

// cgroup v2 (under systemd only where it was delegated, unless it is asked for), cgroup v1, affinity.
[[nodiscard]] std::vector<ActuatorEntry> actuatorsOfThisMachine(const CpuSet& allowed);
[[nodiscard]] std::string_view actuatorName(Actuator actuator);
[[nodiscard]] Result<ChosenActuator> chooseActuator(Actuator wanted, const std::vector<ActuatorEntry>& entries);

}  // namespace coterie::serve
