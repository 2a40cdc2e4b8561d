// What the stories of others' failures stand on: right under drc, and wrong under the rule of a peer, so that a test is known to bite. Sources: the
// issue numbers (k = kubernetes/kubernetes). Tests only.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "allocation/decide.h"
#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"

namespace coterie::allocation {

inline CpuSet set(const std::string& list) { return CpuSet::parse(list).value(); }

inline Config under(PolicyName policy) {
  Config config;
  config.policy = policy;
  return config;
}

inline CpuSet homeOf(const Plan& plan, std::size_t group) {
  CpuSet home;
  for (const ContainerTarget& container : plan.groups[group].containers) home |= container.home;
  return home;
}

// A group that asks for exactly so many CPUs.
inline GroupState& asking(SnapshotBuilder& builder, int tenant, int cpus) {
  GroupState& group = builder.group(tenant);
  group.floor = group.ceiling = MilliCpu(1000 * cpus);
  return group;
}
inline GroupState& holding(SnapshotBuilder& builder, int tenant, const CpuSet& home) {
  GroupState& group = asking(builder, tenant, home.count());
  group.containers.front().home = home;
  return group;
}

// What is wrong with the outcome under a policy; empty: nothing.
using Story = std::function<std::string(PolicyName)>;
inline void rightUnderDrcAndWrongUnder(PolicyName peer, const Story& story) {
  EXPECT_EQ(story(PolicyName::Drc), "");
  EXPECT_NE(story(peer), "") << "the story does not tell the peer's rule from ours";
}

}  // namespace coterie::allocation
