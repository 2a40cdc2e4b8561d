// Snapshots in a few words, for tests, benches and examples. Ids ascend in the order of calls. At most 2,048 groups (references stay valid).
// Pure. Thread-compatible.
#pragma once

#include "allocation/decide.h"

namespace coterie::allocation {

class SnapshotBuilder {
 public:
  explicit SnapshotBuilder(const Machine& machine) {
    snapshot.machine = &machine;
    snapshot.now = Instant(Seconds(1000));
    snapshot.groups.reserve(2048);
  }

  GroupState& group(int tenant, int containers = 1) {
    GroupState& made = snapshot.groups.emplace_back();
    made.id = GroupId(nextGroup_++);
    made.tenant = TenantId(tenant);
    made.ceiling = MilliCpu(1'000'000'000);
    made.joined = snapshot.now + Seconds(made.id.value);
    for (int c = 0; c < containers; ++c) addContainer(made);
    return made;
  }
  // A group that already holds `home`, in one container.
  GroupState& group(int tenant, const CpuSet& home) {
    GroupState& made = group(tenant);
    made.containers.front().home = home;
    return made;
  }
  ContainerState& addContainer(GroupState& group) {
    ContainerState& made = group.containers.emplace_back();
    made.id = InstanceId(nextInstance_++);
    return made;
  }

  Snapshot snapshot;

 private:
  int nextGroup_{1};
  int nextInstance_{1};
};

}  // namespace coterie::allocation
