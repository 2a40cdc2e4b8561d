#include "foreign/roster.h"

#include <utility>

namespace coterie::foreign {

Roster::Change Roster::update(std::vector<FoundContainer> found) {
  Change change;
  std::map<std::string, InstanceId> ids;
  std::map<InstanceId, FoundContainer> members;
  for (FoundContainer& container : found) {
    // One that is of another group now is another one: its place in the plan is.
    const auto known = ids_.find(container.key);
    const bool same = known != ids_.end() && members_.at(known->second).group == container.group;
    const InstanceId id = same ? known->second : InstanceId(next_++);
    if (!same) {
      change.joined.push_back(id);
    } else {
      const FoundContainer& before = members_.at(id);
      if (before.processes != container.processes) change.changed.push_back(id);
      if (before.role != container.role || before.floor != container.floor) change.recast.push_back(id);
    }
    ids.emplace(container.key, id);
    members.emplace(id, std::move(container));
  }
  for (auto& [id, container] : members_) {
    if (members.count(id) == 0) change.left.emplace(id, std::move(container));
  }
  members_ = std::move(members);
  ids_ = std::move(ids);
  return change;
}

std::vector<int> Roster::processesOf(InstanceId id) const {
  std::vector<int> pids;
  const auto found = members_.find(id);
  if (found == members_.end()) return pids;
  for (const SeenProcess& process : found->second.processes) pids.push_back(process.pid);
  return pids;
}

}  // namespace coterie::foreign
