// The contract of ContainerMeter as tests: each adapter instantiates them with a way to begin, work and end a container in a cgroup of its own.
//
//   INSTANTIATE_TEST_SUITE_P(V1, ContainerMeterContract, ::testing::Values(ContainerMeterFactory{"v1", makeV1}), containerMeterName);
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "ports/container_meter.h"

namespace coterie::contract {

struct ContainerPlace {
  int pid{0};
  std::string cgroup;
};

struct ContainerMeterHarness {
  std::unique_ptr<ContainerMeter> meter;
  std::string whyNot;                               // not empty: it cannot be tried here
  std::function<ContainerPlace(int number)> begin;  // in a cgroup made for that number
  std::function<ContainerPlace()> beginWithout;     // in no cgroup of its own
  std::function<void(int number)> work;             // it has used some CPU time when this returns
  std::function<void(int number)> end;              // it and its cgroup have gone when this returns
  std::function<void(int number)> throttle;         // a quota of half a CPU or less was used up; empty: not to be had here
  std::shared_ptr<void> keep;
};
struct ContainerMeterFactory {
  std::string name;
  std::function<ContainerMeterHarness()> make;
  friend void PrintTo(const ContainerMeterFactory& factory, std::ostream* out) { *out << factory.name; }
};
inline std::string containerMeterName(const ::testing::TestParamInfo<ContainerMeterFactory>& info) { return info.param.name; }

class ContainerMeterContract : public ::testing::TestWithParam<ContainerMeterFactory> {
 protected:
  void SetUp() override {
    if (!harness_.whyNot.empty()) GTEST_SKIP() << harness_.whyNot;
  }
  ContainerMeter& meter() { return *harness_.meter; }
  void open(int number) {
    const ContainerPlace place = harness_.begin(number);
    meter().open(InstanceId(number), place.pid, place.cgroup);
  }
  ContainerMeterHarness harness_{GetParam().make()};
};

TEST_P(ContainerMeterContract, CpuTimeGrowsWithWorkAndOnlyOfTheOneThatWorked) {
  open(1);
  open(2);
  const auto one = meter().cpu(InstanceId(1));
  const auto two = meter().cpu(InstanceId(2));
  ASSERT_TRUE(one && two);
  harness_.work(1);
  const auto after = meter().cpu(InstanceId(1));
  ASSERT_TRUE(after);
  EXPECT_GT(after->used, one->used);
  EXPECT_EQ(after->throttledPeriods, 0) << "it has no quota";
  EXPECT_LT(meter().cpu(InstanceId(2))->used - two->used, after->used - one->used);
}

TEST_P(ContainerMeterContract, SetsAndMemoryAreThoseOfTheContainer) {
  open(1);
  if (const auto sets = meter().sets(InstanceId(1))) {
    EXPECT_FALSE(sets->cpus.empty());
    EXPECT_FALSE(sets->memoryNodes.empty());
  }
  const auto memory = meter().memory(InstanceId(1));
  const auto nodes = meter().memoryNodes(InstanceId(1));
  for (std::size_t i = 1; i < nodes.size(); ++i) EXPECT_LT(nodes[i - 1].node, nodes[i].node);
  if (memory) {
    EXPECT_GE(memory->anonymous.value, 0);
  }
  if (const auto pressure = meter().pressure(InstanceId(1))) {
    EXPECT_GE(pressure->somePermille, 0);
    EXPECT_LE(pressure->somePermille, 1000);
  }
}

TEST_P(ContainerMeterContract, WhoHasNoCgroupOfItsOwnIsNotCounted) {
  const ContainerPlace place = harness_.beginWithout();
  meter().open(InstanceId(1), place.pid, place.cgroup);
  EXPECT_FALSE(meter().cpu(InstanceId(1)));
  EXPECT_FALSE(meter().sets(InstanceId(1)));
  EXPECT_FALSE(meter().quota(InstanceId(1)));
  EXPECT_TRUE(meter().memoryNodes(InstanceId(1)).empty());
}

TEST_P(ContainerMeterContract, WhoHasGoneOrWasNeverThereIsAValue) {
  EXPECT_FALSE(meter().cpu(InstanceId(7)));
  open(1);
  ASSERT_TRUE(meter().cpu(InstanceId(1)));
  harness_.end(1);
  EXPECT_FALSE(meter().cpu(InstanceId(1)));
  EXPECT_FALSE(meter().memory(InstanceId(1)));
  meter().close(InstanceId(1));
  meter().close(InstanceId(1));
  EXPECT_FALSE(meter().cpu(InstanceId(1)));
}

// A runtime that restarts a container in place: the descriptors that are held say ENODEV, the files are there again.
TEST_P(ContainerMeterContract, ACgroupThatWasMadeAnewIsReadAgain) {
  open(1);
  harness_.work(1);
  const auto before = meter().cpu(InstanceId(1));
  ASSERT_TRUE(before);
  harness_.end(1);
  static_cast<void>(harness_.begin(1));  // not opened again
  const auto after = meter().cpu(InstanceId(1));
  ASSERT_TRUE(after);
  EXPECT_LT(after->used, before->used) << "it began anew";
}

TEST_P(ContainerMeterContract, AQuotaIsSeenAndWhatItCosts) {
  if (!harness_.throttle) GTEST_SKIP() << "no quota can be set here";
  open(1);
  if (const auto none = meter().quota(InstanceId(1))) {
    EXPECT_EQ(none->cpus.value, 0);
  }
  harness_.throttle(1);
  const auto quota = meter().quota(InstanceId(1));
  ASSERT_TRUE(quota);
  EXPECT_GT(quota->cpus.value, 0);
  EXPECT_LE(quota->cpus.value, 500);
  EXPECT_GT(meter().cpu(InstanceId(1))->throttledPeriods, 0);
  EXPECT_GT(meter().cpu(InstanceId(1))->throttled, Nanos{0});
}

}  // namespace coterie::contract
