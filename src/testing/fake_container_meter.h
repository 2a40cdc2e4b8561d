// Counters of containers that are not there: tests say what they show. Passes container_meter_contract.h.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ports/container_meter.h"

namespace coterie::testing {

class FakeContainerMeter final : public ContainerMeter {
 public:
  // What the kernel shows of a cgroup.
  struct Figures {
    ContainerCpu cpu;
    ContainerQuota quota;
    std::optional<ContainerPressure> pressure{ContainerPressure{}};
    ContainerSets sets{CpuSet{0}, CpuSet{0}};
    ContainerResident memory;
    std::vector<NodeResident> nodes;
  };

  void open(InstanceId id, int /*pid*/, const std::string& cgroup) override { places_[id] = cgroup; }
  void close(InstanceId id) override { places_.erase(id); }
  [[nodiscard]] std::optional<ContainerCpu> cpu(InstanceId id) override {
    ++cpuReadings;
    const Figures* found = of(id);
    return found == nullptr ? std::nullopt : std::optional(found->cpu);
  }
  [[nodiscard]] std::optional<ContainerQuota> quota(InstanceId id) override {
    const Figures* found = of(id);
    return found == nullptr ? std::nullopt : std::optional(found->quota);
  }
  [[nodiscard]] std::optional<ContainerPressure> pressure(InstanceId id) override {
    ++pressureReadings;
    const Figures* found = of(id);
    return found == nullptr ? std::nullopt : found->pressure;
  }
  [[nodiscard]] std::optional<ContainerSets> sets(InstanceId id) override {
    const Figures* found = of(id);
    return found == nullptr ? std::nullopt : std::optional(found->sets);
  }
  [[nodiscard]] std::optional<ContainerResident> memory(InstanceId id) override {
    ++memoryReadings;
    const Figures* found = of(id);
    return found == nullptr ? std::nullopt : std::optional(found->memory);
  }
  [[nodiscard]] std::vector<NodeResident> memoryNodes(InstanceId id) override {
    ++nodeReadings;
    const Figures* found = of(id);
    return found == nullptr ? std::vector<NodeResident>{} : found->nodes;
  }

  // By the cgroup's path: made, looked at, changed.
  Figures& cgroup(const std::string& path) { return cgroups_[path]; }
  void removeCgroup(const std::string& path) { cgroups_.erase(path); }

  int cpuReadings{0}, pressureReadings{0}, memoryReadings{0}, nodeReadings{0};

 private:
  [[nodiscard]] const Figures* of(InstanceId id) const {
    const auto place = places_.find(id);
    if (place == places_.end() || place->second.empty()) return nullptr;
    const auto found = cgroups_.find(place->second);
    return found == cgroups_.end() ? nullptr : &found->second;
  }
  std::map<InstanceId, std::string> places_;
  std::map<std::string, Figures> cgroups_;
};

}  // namespace coterie::testing
