// Where a newcomer is better off among places that are the same for J (objective.h): where its memory has room, and near the device that it names.
//
// A rank for every domain, which selection.h looks at only among wholly free domains that are alike; so nothing but the device tells them apart for
// J. Memory goes first: a node is full if what the present containers leave of the nodes nearest to it (memory_fit.h) is less than what the group
// needs, a larger domain if all its nodes are. A device is as far as the domain above both reaches: 0 where it is, else what J calls the span.
// Newcomers that are placed count for those that follow. O(fitMemory) once, then O(domains above the cores * (nodes + n/64)) for a group that needs
// memory or names a device, and nothing for others. Pure. Thread-compatible.
#pragma once

#include <optional>
#include <vector>

#include "allocation/memory_fit.h"
#include "allocation/policy.h"

namespace coterie::allocation {

class Newcomers {
 public:
  explicit Newcomers(const Problem& problem) : problem_(problem) {}

  // Per branch of the layout: the lower the better. Empty: all are the same to it.
  [[nodiscard]] std::vector<int> ranks(const GroupState& group);
  void placed(const GroupState& group, const CpuSet& cpus);

 private:
  void addMemory(const GroupState& group, Bytes need, std::vector<int>& ranks);
  void addDevice(const CpuSet& device, std::vector<int>& ranks) const;

  const Problem& problem_;
  std::optional<MemoryRoom> room_;
};

// The CPUs nearest to the device that the group names; empty: it names none, there is no such device, or nobody knows where it is.
[[nodiscard]] CpuSet deviceCpus(const Machine& machine, const GroupState& group);
// The level of the smallest domain that holds one of these CPUs and one of the device's; Machine if there is none.
[[nodiscard]] DomainLevel levelTo(const Layout& layout, const CpuSet& cpus, const CpuSet& device);

}  // namespace coterie::allocation
