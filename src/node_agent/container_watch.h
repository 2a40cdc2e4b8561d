// What the agent reads of each container, and how often: often where something happens, seldom where nothing does.
//
// CPU time and throttling: every 100 ms of a container that ran for more than a fiftieth of a CPU, or is watched closely (it lends, or is lent to);
// of others the pause doubles up to a second, so who wakes is noticed within that. Pressure and sets in force: each second; memory
// every 5 s; of one at rest four times more seldom; memory by node every 30 s. Readings of different containers are spread over time. Sets are left
// out where somebody else reads them (the controller does, each second, while it enforces). A container was throttled, or has begun to wait (some of
// its threads, for more than a tenth of the last 10 s): events of look(), each told once until it is so again. Cost per look: O(containers)
// comparisons and one small read for each figure that is due. Pure but for the meter. Thread rule: control loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/ids.h"
#include "ports/container_meter.h"

namespace coterie::node_agent {

class ContainerWatch {
 public:
  struct Seen {
    std::optional<ContainerCpu> cpu;  // last reading; none: it is not counted
    Nanos ran{};                      // since rested() or its begin
    std::int64_t throttledLately{0};  // periods, in the last 10 s
    std::optional<ContainerPressure> pressure;
    std::optional<ContainerSets> sets;
    std::optional<ContainerResident> memory;
    std::vector<NodeResident> nodes;
  };
  struct Events {
    std::vector<InstanceId> throttled, pressed;
  };
  enum class Sets : std::uint8_t { Read, KnownOtherwise };

  ContainerWatch(ContainerMeter& meter, Sets sets) : meter_(meter), readsSets_(sets == Sets::Read) {}

  void open(InstanceId id, int pid, const std::string& cgroup, Instant now);
  void close(InstanceId id);
  void readSets(Sets sets) { readsSets_ = sets == Sets::Read; }
  [[nodiscard]] Events look(Instant now, const std::set<InstanceId>& closely);
  // When look() has something to read next; nullopt: nobody is watched.
  [[nodiscard]] std::optional<Instant> nextDue() const;
  [[nodiscard]] const Seen* seen(InstanceId id) const;
  // What it ran since this was asked last, for who looks at threads only where something ran; nullopt: not counted.
  [[nodiscard]] std::optional<Nanos> takeRan(InstanceId id);

 private:
  struct Watched {
    Seen seen;
    Instant lastCpu{}, cpuDue{}, pressureDue{}, memoryDue{}, nodesDue{};
    Nanos pause{};
    bool atRest{false}, pressed{false};
    std::deque<std::pair<Instant, std::int64_t>> throttles;  // of the last 10 s
  };
  void readCpu(InstanceId id, Watched& watched, Instant now, bool closely, Events& events);
  void readPressure(InstanceId id, Watched& watched, Instant now, Events& events);

  ContainerMeter& meter_;
  bool readsSets_;
  std::map<InstanceId, Watched> watched_;
};

}  // namespace coterie::node_agent
