// What the agent is told to do and cannot yet, for a reason that passes: another agent enforces here, the kubelet owns the CPU sets, or it is not
// decided who of several does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "node_agent/node_agent_rig.h"

namespace coterie::node_agent {
namespace {

using namespace std::chrono_literals;
using Names = std::vector<std::string>;

const std::string kObserved = "mode: observe\n" + kGroups;

Error running(int pid) { return {Code::Unavailable, "AgentRunning", "another agent enforces: process " + std::to_string(pid)}; }

// An agent that observes red, told to enforce red and blue where somebody else enforces.
struct Refused : AgentRig {
  Refused() {
    start(kObserved + kRed, Mode::Observe);
    refusal = running(7);
    reload(kEnforced + kRed + kBlue);
  }
  const int red = begin("red");
  const int blue = begin("blue");
};

// Time passes; how often a line of the log said this.
int said(AgentRig& rig, Nanos duration, const std::string& what) {
  ::testing::internal::CaptureStderr();
  rig.loop.advance(duration);
  const std::string log = ::testing::internal::GetCapturedStderr();
  int times = 0;
  for (std::size_t at = log.find(what); at != std::string::npos; at = log.find(what, at + 1)) ++times;
  return times;
}

TEST(NodeAgentRetryTest, AFileIsRefusedAsAWholeWhileAnotherAgentEnforces) {
  const Refused rig;
  const AgentReport report = rig.node->report();
  EXPECT_EQ(report.mode, Mode::Observe);
  EXPECT_EQ(report.groups.size() + report.absent.size(), 1U) << "nor is the other group there";
  EXPECT_EQ(report.configuration.faults, Names{"another agent enforces: process 7 (tried again every 10 s)"});
  EXPECT_EQ(report.configuration.refused, 1);
  EXPECT_EQ(report.configuration.reloads, 0);
}

TEST(NodeAgentRetryTest, ItIsPutInForceByItselfOnceTheOtherAgentHasEnded) {
  Refused rig;
  rig.loop.advance(35s);
  ASSERT_EQ(rig.node->mode(), Mode::Observe);
  rig.refusal.reset();
  rig.loop.advance(kTriesAgain);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
  EXPECT_EQ(rig.held("red").count(), 2);
  EXPECT_EQ(rig.held("blue").count(), 2);
  EXPECT_EQ(rig.threads.at(rig.blue), 2);
  const ConfigReport configuration = rig.node->report().configuration;
  EXPECT_TRUE(configuration.faults.empty());
  EXPECT_EQ(configuration.reloads, 1);
  EXPECT_EQ(configuration.refused, 1);
}

TEST(NodeAgentRetryTest, ItIsTriedCalmlyAndSaidOnceForEachReason) {
  Refused rig;
  rig.tries = 0;
  const int changes = rig.node->changes();
  EXPECT_EQ(said(rig, 60s, "another agent"), 0) << "it has been said";
  EXPECT_EQ(rig.tries, 6);
  EXPECT_EQ(rig.node->changes(), changes) << "nor does it make a report";
  EXPECT_FALSE(rig.node->report().configuration.faults.empty()) << "shown meanwhile";
  rig.refusal = running(8);
  EXPECT_EQ(said(rig, 60s, "process 8"), 1);
  EXPECT_EQ(rig.node->report().configuration.refused, 2);
  EXPECT_NE(rig.node->report().configuration.faults.at(0).find("process 8"), std::string::npos);
}

TEST(NodeAgentRetryTest, WhoHasItReadAgainIsAnsweredAnew) {
  Refused rig;
  rig.node->reconfigure(readAgentFile(kEnforced + kRed + kBlue).file);
  EXPECT_EQ(rig.node->report().configuration.refused, 2);
  rig.refusal.reset();
  rig.reload(kEnforced + kRed + kBlue);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce) << "at once";
  EXPECT_TRUE(rig.node->report().configuration.faults.empty());
}

TEST(NodeAgentRetryTest, OnceTheFileSaysSomethingElseTheOldWishIsForgotten) {
  for (const bool faulty : {false, true}) {
    Refused rig;
    if (faulty) {
      rig.node->refuseConfiguration({"agent.yaml:1: mode: observe or enforce is wanted"});
    } else {
      rig.reload(kObserved + kBlue);
    }
    rig.refusal.reset();
    rig.tries = 0;
    rig.loop.advance(60s);
    EXPECT_EQ(rig.node->mode(), Mode::Observe);
    EXPECT_EQ(rig.tries, 0);
    EXPECT_EQ(rig.node->report().configuration.faults.empty(), !faulty);
    EXPECT_EQ(rig.node->configuration().groups.at(0).name, faulty ? "red/s" : "blue/s");
  }
}

TEST(NodeAgentRetryTest, WhoLosesTheFieldWhileItBeginsAnewTriesAgain) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kEnforced + kRed, Mode::Enforce);
  rig.loop.advance(1s);
  rig.refusal = running(7);
  rig.reload("memoryNodes: keep\n" + kEnforced + kRed);
  EXPECT_EQ(rig.node->mode(), Mode::Observe);
  EXPECT_EQ(rig.node->report().why, rig.refusal->message);
  EXPECT_EQ(rig.log.back(), "close") << "others may enforce here";
  EXPECT_TRUE(rig.node->report().configuration.faults.empty()) << "the file is in force";
  rig.refusal.reset();
  rig.loop.advance(kTriesAgain + 1s);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
  EXPECT_EQ(rig.node->report().why, "");
  EXPECT_EQ(rig.held("red").count(), 4);
}

// ---- The kubelet ----
// Two owners of cpusets on one node must never coexist.
TEST(NodeAgentRetryTest, BesideAStaticKubeletItOnlyObserves) {
  AgentRig rig;
  rig.kubelet = true;
  rig.begin("red");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(2s);
  EXPECT_EQ(rig.node->mode(), Mode::Observe);
  EXPECT_NE(rig.node->report().why.find("static policy"), std::string::npos);
  EXPECT_EQ(rig.homes().at("red").count(), 4) << "what it would do";
  EXPECT_TRUE(rig.kernel.takeOperations().empty());
}

TEST(NodeAgentRetryTest, AKubeletThatBecomesStaticIsLeftTheField) {
  AgentRig rig;
  const int red = rig.begin("red");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  const InstanceId id = rig.node->report().groups[0].containers[0].id;
  rig.kubelet = true;
  rig.loop.advance(1s);
  EXPECT_EQ(rig.node->mode(), Mode::Observe);
  EXPECT_FALSE(rig.kernel.observe(id).ok()) << "given back";
  EXPECT_EQ(rig.threads.at(red), 0);
  rig.begin("blue");
  static_cast<void>(rig.kernel.takeOperations());
  rig.loop.advance(2s);
  EXPECT_EQ(rig.homes().size(), 2U);
  EXPECT_TRUE(rig.kernel.takeOperations().empty());
}

TEST(NodeAgentRetryTest, TheKubeletsStateIsLookedForWhereTheFileSays) {
  AgentRig rig;
  rig.kubelet = true;
  rig.begin("red");
  rig.start(kEnforced + kRed, Mode::Enforce);
  EXPECT_EQ(rig.node->mode(), Mode::Observe);
  rig.reload("kubeletState: /none\n" + kEnforced + kRed);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
  EXPECT_EQ(rig.held("red").count(), 4);
  EXPECT_EQ(rig.node->report().why, "");
  rig.reload(kEnforced + kRed);
  EXPECT_EQ(rig.node->mode(), Mode::Observe);
  EXPECT_NE(rig.node->report().why.find("static policy"), std::string::npos);
}

TEST(NodeAgentRetryTest, AKubeletThatIsStaticNoLongerLeavesTheFieldToIt) {
  AgentRig rig;
  rig.kubelet = true;
  const int red = rig.begin("red");
  rig.start(kTwo, Mode::Enforce);
  for (int time = 0; time < 2; ++time) {
    const int changes = rig.node->changes();
    EXPECT_EQ(said(rig, 60s, "static policy"), 0) << "it has been said";
    ASSERT_EQ(rig.node->mode(), Mode::Observe);
    EXPECT_EQ(rig.node->changes(), changes);
    rig.kubelet = false;
    rig.loop.advance(kTriesAgain);
    EXPECT_EQ(rig.node->mode(), Mode::Enforce);
    EXPECT_EQ(rig.node->report().why, "");
    EXPECT_EQ(rig.held("red").count(), 4);
    EXPECT_EQ(rig.threads.at(red), 4);
    EXPECT_GT(rig.node->changes(), changes);
    EXPECT_EQ(rig.node->report().configuration.reloads, 0) << "the file is the same";
    rig.kubelet = true;
    EXPECT_EQ(said(rig, 1s, "static policy"), 1);
    EXPECT_EQ(rig.threads.at(red), 0);
  }
}

TEST(NodeAgentRetryTest, TheKubeletGoesAndAnotherAgentHasTheMachine) {
  AgentRig rig;
  rig.kubelet = true;
  rig.begin("red");
  rig.start(kTwo, Mode::Enforce);
  rig.kubelet = false;
  rig.refusal = running(7);
  EXPECT_EQ(said(rig, 60s, "process 7"), 1);
  EXPECT_EQ(rig.node->report().why, rig.refusal->message);
  rig.refusal.reset();
  rig.loop.advance(kTriesAgain);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
}

TEST(NodeAgentRetryTest, WhatIsBeingWrittenDoesNotLandAfterTheFieldWasLeft) {
  for (const bool ends : {true, false}) {
    AgentRig rig;
    rig.begin("red");
    rig.start(kEnforced + kRed, Mode::Enforce);
    rig.loop.advance(1s);
    rig.kernel.hang(idOf(rig, "red"), CpuChangeKind::HomeCpus);
    rig.begin("red 2");
    rig.loop.advance(500ms);  // a write is under way
    rig.kubelet = true;
    rig.loop.advance(500ms);
    EXPECT_EQ(rig.node->mode(), Mode::Enforce);
    if (ends) {
      rig.kernel.heal();
      rig.applier.release();
    }
    rig.loop.advance(600ms);
    EXPECT_EQ(rig.node->mode(), ends ? Mode::Observe : Mode::Enforce);
    rig.loop.advance(500ms);
    EXPECT_EQ(rig.node->mode(), Mode::Observe) << "one that hangs is not waited for longer than a second";
    if (!ends) rig.applier.release(EINTR);
    rig.loop.runUntilIdle();
  }
}

// ---- Who of several enforces ----
// It takes so many looks until that is decided for this one.
struct Claiming : AgentRig {
  explicit Claiming(int looks) : left(looks) {
    claim = [this]() -> Result<std::optional<Millis>> {
      ++asked;
      if (rival) return *rival;
      return left-- > 0 ? std::optional(Millis(20)) : std::nullopt;
    };
    start(kObserved + kRed, Mode::Observe);
    EXPECT_EQ(asked, 0) << "who observes is in nobody's way";
  }
  int left;
  int asked{0};
  std::optional<Error> rival;
  const int red = begin("red");
};

TEST(NodeAgentRetryTest, UntilItIsDecidedWhoEnforcesTheAgentGoesOnWithItsWork) {
  Claiming rig(100);
  rig.reload(kEnforced + kRed);
  rig.begin("red 2");
  rig.loop.advance(1s);
  EXPECT_EQ(rig.homes().size(), 2U) << "who comes is seen";
  EXPECT_EQ(rig.node->mode(), Mode::Observe);
  EXPECT_TRUE(rig.log.empty());
  EXPECT_EQ(rig.node->report().configuration.refused, 0);
  rig.loop.advance(1s);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
  EXPECT_EQ(rig.log.front(), "open");
  EXPECT_EQ(std::count(rig.log.begin(), rig.log.end(), "close"), 0) << "the machine is its own";
  EXPECT_EQ(rig.asked, 101);
  EXPECT_EQ(rig.held("red 2").count(), 2);
  rig.reload("memoryNodes: keep\n" + kEnforced + kRed + kBlue);
  rig.loop.advance(20s);
  EXPECT_EQ(rig.asked, 101) << "nor is it asked for again";
  EXPECT_EQ(std::count(rig.log.begin(), rig.log.end(), "close"), 0);
}

TEST(NodeAgentRetryTest, TheEndDoesNotWaitUntilThatIsDecided) {
  Claiming rig(1'000'000);
  rig.reload(kEnforced + kRed);
  bool done = false;
  rig.node->stop([&] { done = true; });
  rig.loop.runUntilIdle();
  EXPECT_TRUE(done);
  EXPECT_EQ(rig.log, Names{"close"}) << "it is claimed no more";
  const int asked = rig.asked;
  rig.loop.advance(30s);
  EXPECT_EQ(rig.asked, asked);
}

TEST(NodeAgentRetryTest, AFileThatNoLongerEnforcesGivesTheClaimUp) {
  for (const bool faulty : {false, true}) {
    Claiming rig(1'000'000);
    rig.reload(kEnforced + kRed);
    if (faulty) {
      rig.node->refuseConfiguration({"agent.yaml:1: mode: observe or enforce is wanted"});
    } else {
      rig.reload(kObserved + kRed);
      rig.loop.advance(20ms);
    }
    EXPECT_EQ(rig.log, Names{"close"});
    const int asked = rig.asked;
    rig.loop.advance(30s);
    EXPECT_EQ(rig.asked, asked);
    EXPECT_EQ(rig.node->report().configuration.faults.empty(), !faulty);
  }
}

TEST(NodeAgentRetryTest, OneThatStillEnforcesGoesOnClaiming) {
  Claiming rig(10);
  rig.reload(kEnforced + kRed);
  rig.reload(kEnforced + kRed + kBlue);
  EXPECT_TRUE(rig.log.empty());
  rig.loop.advance(300ms);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
  EXPECT_EQ(rig.node->configuration().groups.size(), 2U);
  EXPECT_EQ(rig.node->report().configuration.reloads, 1);
}

TEST(NodeAgentRetryTest, WhoWasNotTheOneHoldsNothing) {
  Claiming rig(2);
  rig.reload(kEnforced + kRed);
  rig.rival = running(7);
  rig.loop.advance(100ms);
  EXPECT_EQ(rig.log, Names{"close"});
  EXPECT_EQ(rig.tries, 0);
  EXPECT_NE(rig.node->report().configuration.faults.at(0).find("process 7"), std::string::npos);
  rig.rival.reset();
  rig.refusal = Error{Code::PermissionDenied, "StateUnwritable", "cannot open the state folder"};
  rig.loop.advance(kTriesAgain + 1s);
  EXPECT_EQ(rig.log, (Names{"close", "close"})) << "the machine is not kept by one that cannot use it";
  rig.refusal.reset();
  rig.loop.advance(kTriesAgain + 1s);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
  EXPECT_TRUE(rig.node->report().configuration.faults.empty());
}

TEST(NodeAgentRetryTest, WhileItClaimsTheKubeletTakesTheField) {
  Claiming rig(1'000'000);
  rig.reload(kEnforced + kRed);
  rig.kubelet = true;
  rig.loop.advance(20ms);
  EXPECT_EQ(rig.log, Names{"close"});
  EXPECT_NE(rig.node->report().why.find("static policy"), std::string::npos);
  rig.kubelet = false;
  rig.left = 3;
  rig.loop.advance(kTriesAgain + 1s);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
}

}  // namespace
}  // namespace coterie::node_agent
