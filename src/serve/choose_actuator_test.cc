#include "serve/choose_actuator.h"

#include <gtest/gtest.h>

#include "testing/fake_cpu_controller.h"

namespace coterie::serve {
namespace {

ActuatorEntry entry(Actuator actuator, std::string refusal, std::vector<Wanted>* asked = nullptr) {
  return {actuator, std::string(actuatorName(actuator)),
          [refusal = std::move(refusal), asked](Wanted wanted) -> Result<std::unique_ptr<CpuController>> {
            if (asked != nullptr) asked->push_back(wanted);
            if (!refusal.empty()) return Error{Code::Unavailable, "No", refusal};
            return std::unique_ptr<CpuController>(std::make_unique<testing::FakeCpuController>(CpuSet{0}));
          }};
}

TEST(ChooseActuator, AutoTakesTheFirstThatCanBeHadAndSaysWhyNotTheOthers) {
  const auto chosen = chooseActuator(
      Actuator::Auto, {entry(Actuator::CgroupV2, "not delegated"), entry(Actuator::CgroupV1, "not mounted"), entry(Actuator::Affinity, "")});
  ASSERT_TRUE(chosen.ok());
  EXPECT_NE(chosen->controller, nullptr);
  EXPECT_EQ(chosen->message, "CPU sets are enforced by affinity. Not by cgroup-v2: not delegated; nor by cgroup-v1: not mounted");
  EXPECT_EQ(chooseActuator(Actuator::Auto, {entry(Actuator::CgroupV2, ""), entry(Actuator::Affinity, "")})->message,
            "CPU sets are enforced by cgroup-v2");
}

TEST(ChooseActuator, WhatIsAskedForIsTakenOrRefusedNeverReplaced) {
  std::vector<Wanted> asked;
  const auto refused = chooseActuator(Actuator::CgroupV1, {entry(Actuator::CgroupV2, "", &asked), entry(Actuator::CgroupV1, "not mounted", &asked),
                                                           entry(Actuator::Affinity, "", &asked)});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "not mounted");
  EXPECT_EQ(asked, std::vector<Wanted>{Wanted::ByName}) << "nobody else was touched";
}

TEST(ChooseActuator, ThisMachineHasOneAtLeast) {
  const std::vector<ActuatorEntry> entries = actuatorsOfThisMachine(CpuSet{0});
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_TRUE(entries.back().create(Wanted::ByName).ok());
}

}  // namespace
}  // namespace coterie::serve
