// Groups for tests of plans: from YAML text, or made for a machine, so that a plan has everything that can be shown. Pure. Thread-compatible.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

#include "plan_node/groups_file.h"
#include "plan_node/node_plan.h"

namespace coterie::plan_node {

// Text that must be sound.
inline GroupsFile groupsFrom(const std::string& yaml) {
  const ReadGroups read = readGroups(yaml);
  for (const Fault& fault : read.faults) std::cerr << faultText(fault) << "\n";
  if (!read.faults.empty()) std::abort();
  return read.file;
}

// Three tenants: one group that owns much, one that borrows, one that lends nothing, two of the pool, and one that cannot be had.
inline GroupsFile groupsFor(const Machine& machine) {
  GroupsFile file;
  file.tenants = {{"audio", 100, MilliCpu(0), 1}, {"documents", 200, MilliCpu(0), 2}, {"video", 50, MilliCpu(2000), 3}};
  const std::int64_t cpus = machine.online.count();
  const auto add = [&](std::string name, std::size_t tenant, std::size_t containers) -> GroupEntry& {
    GroupEntry& group = file.groups.emplace_back();
    group.name = std::move(name);
    group.tenant = tenant;
    group.containers.resize(containers);
    return group;
  };
  add("audio/speech", 0, 2);
  GroupEntry& borrower = add("audio/notes", 0, 1);
  borrower.demand = MilliCpu(cpus * 1000);
  borrower.queued = true;
  add("documents/file-type", 1, 1).lend = allocation::Lend::Never;
  add("video/small", 2, 1).ceiling = MilliCpu(300);
  add("video/tiny", 2, 2).ceiling = MilliCpu(200);
  GroupEntry& greedy = add("video/greedy", 2, 1);
  greedy.floor = MilliCpu((cpus + 1) * 1000);
  greedy.ceiling = MilliCpu((cpus + 2) * 1000);
  return file;
}

// The file as it stands once the plan is in force; groups that wait stay unplaced.
inline GroupsFile after(const NodePlan& plan) {
  GroupsFile file = *plan.file;
  file.pool = plan.plan.pool;
  for (std::size_t g = 0; g < file.groups.size(); ++g) {
    for (std::size_t c = 0; c < file.groups[g].containers.size(); ++c) {
      const allocation::ContainerTarget& target = plan.plan.groups[g].containers[c];
      ContainerEntry& container = file.groups[g].containers[c];
      container.home = target.home;
      container.memoryNodes = target.memoryNodes;
      container.loans = target.loans;
    }
  }
  return file;
}

}  // namespace coterie::plan_node
