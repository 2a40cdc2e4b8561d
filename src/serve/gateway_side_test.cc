// Which backend is current, who still drains, and when one may go; by requests to a real gateway and workers that are played by hand.
#include "serve/gateway_side.h"

#include <gtest/gtest.h>

#include "gateway/gateway_fixture.h"
#include "serve/hand_worker.h"

namespace coterie::serve {
namespace {

using gateway::has;
using gateway::identity;
using gateway::Sent;

const ServiceName kService{"na", "m"};

struct Complaints final : channel::Supervision {
  std::vector<std::pair<InstanceId, EndReason>> told;
  void misbehaved(InstanceId id, EndReason reason, const std::string&) override { told.emplace_back(id, reason); }
};

std::shared_ptr<channel::RequestArena> newArena() { return channel::RequestArena::create({Bytes(1 << 20), Bytes(1 << 16)}).value(); }

class GatewaySideTest : public gateway::GatewayTest {
 protected:
  void SetUp() override { publishService(); }
  // The gateway holds on to backends, which go first here. The workers have gone with the test's body.
  void TearDown() override {
    side.removeService(kService);
    turn();
    loop.advance(Seconds(120));  // past all deadlines
  }
  void publishService() {
    gateway::ServiceSettings settings;
    settings.tenant = TenantName("a");
    settings.waitForInstance = Seconds(5);
    side.setService(kService, settings, arena);
  }
  std::unique_ptr<HandWorker> add(int id, const std::string& version, float factor = 1, int lanes = 1) {
    auto worker = std::make_unique<HandWorker>(id, identity(), *arena, lanes, factor);
    gateway.setLanes(kService, InstanceId(id), {lanes, 0});
    side.addInstance(kService, version, worker->endpoint());
    return worker;
  }
  void turn() {
    loop.runUntilIdle();
    while (loop.pollDescriptors()) continue;
  }
  std::string answered(const Sent& sent, HandWorker& worker) {
    turn();
    EXPECT_TRUE(worker.take());
    worker.answer();
    turn();
    return std::to_string(sent->status) + " " + sent->text;
  }

  Complaints complaints;
  std::shared_ptr<channel::RequestArena> arena = newArena();
  std::map<ServiceName, std::shared_ptr<const gateway::ServiceLoad>> cells;
  int cellsTold{0};
  GatewaySide side{loop, gateway, complaints, [this](const ServiceName& name, std::shared_ptr<const gateway::ServiceLoad> load) {
                     cells[name] = std::move(load);
                     ++cellsTold;
                   }};
};

TEST_F(GatewaySideTest, AnInstanceServesAndTheLoadCellIsTold) {
  EXPECT_EQ(infer()->status, 503) << "known, but nothing is loaded";
  ASSERT_TRUE(cells.contains(kService));
  const auto worker = add(1, "v1", 2);
  const std::string answer = answered(infer(), *worker);
  EXPECT_TRUE(has(answer, "[3,-4]")) << answer;
  EXPECT_GT(cells[kService]->arrivalsMilliPerSecond.load(), 0);
}

TEST_F(GatewaySideTest, TheFirstInstanceOfANewVersionTakesAllNewRequestsAndTheOldOneFinishesWhatItHas) {
  const auto old = add(1, "v1", 2);
  const Sent before = infer();
  turn();
  ASSERT_TRUE(old->take());
  const Sent queued = infer();  // at the old version, behind the one that runs
  const auto fresh = add(2, "v2", 10);
  const Sent after = infer();
  turn();
  ASSERT_TRUE(fresh->take());
  bool drained = false;
  side.drainInstance(InstanceId(1), [&] { drained = true; });
  turn();
  EXPECT_FALSE(drained);
  fresh->answer();
  turn();
  EXPECT_TRUE(has(after->text, "[15,-20]")) << after->text;
  old->answer();
  turn();
  EXPECT_TRUE(has(before->text, "[3,-4]")) << before->text;
  EXPECT_FALSE(drained) << "what was queued for the old version is answered by it first";
  EXPECT_TRUE(has(answered(queued, *old), "[3,-4]"));
  turn();
  EXPECT_TRUE(drained);
  side.instanceGone(InstanceId(1));
  turn();
  EXPECT_TRUE(has(answered(infer(), *fresh), "200"));
}

TEST_F(GatewaySideTest, ARemovedServiceAnswersWhatRunsAndIsUnknownToTheNext) {
  const auto worker = add(1, "v1");
  const Sent running = infer();
  turn();
  ASSERT_TRUE(worker->take());
  side.removeService(kService);
  EXPECT_EQ(infer()->status, 404);
  worker->answer();
  turn();
  EXPECT_EQ(running->status, 200);
  bool drained = false;
  side.drainInstance(InstanceId(1), [&] { drained = true; });
  turn();
  EXPECT_TRUE(drained);
  side.instanceGone(InstanceId(1));
  turn();
}

// Its memory is another one: inputs written there must not be looked for in the old arena, though version and name are the same.
TEST_F(GatewaySideTest, AServiceMadeAnewUnderTheSameNameServesFromItsNewArena) {
  const auto old = add(1, "v1", 2);
  const Sent running = infer();
  turn();
  ASSERT_TRUE(old->take());
  side.removeService(kService);
  arena = newArena();
  publishService();
  const auto fresh = add(2, "v1", 10);
  EXPECT_TRUE(has(answered(infer(), *fresh), "[15,-20]"));
  old->answer();
  turn();
  EXPECT_TRUE(has(running->text, "[3,-4]")) << "the old one's request is not lost";
}

TEST_F(GatewaySideTest, AnInstanceThatDiesWhileItsDrainWaitsLeavesNobodyWaiting) {
  const auto old = add(1, "v1");
  const Sent running = infer();
  turn();
  ASSERT_TRUE(old->take());
  const auto fresh = add(2, "v2");
  bool drained = false;
  side.drainInstance(InstanceId(1), [&] { drained = true; });
  old->die();
  side.instanceGone(InstanceId(1));
  turn();
  EXPECT_TRUE(drained);
  EXPECT_EQ(running->status, 503);
  EXPECT_TRUE(has(answered(infer(), *fresh), "200"));
}

TEST_F(GatewaySideTest, AnInstanceWithAnotherSignatureIsReported) {
  const auto worker = add(1, "v1");
  ModelSignature other = identity();
  other.outputs[0].name = "z";
  HandWorker stranger(2, other, *arena);
  side.addInstance(kService, "v1", stranger.endpoint());
  ASSERT_EQ(complaints.told.size(), 1U);
  EXPECT_EQ(complaints.told[0], std::pair(InstanceId(2), EndReason::ProtocolViolation));
  EXPECT_TRUE(has(answered(infer(), *worker), "200"));
}

TEST_F(GatewaySideTest, WhatASuspendedInstanceHasNotTakenGoesToAnotherAndItsLanesComeBack) {
  const auto first = add(1, "v1", 2);
  const Sent lost = infer();  // sent to the first, which does not take it
  turn();
  const auto second = add(2, "v1", 10);
  side.suspendInstance(InstanceId(1));
  EXPECT_TRUE(has(answered(lost, *second), "[15,-20]")) << lost->text;
  // It comes to itself and answers what nobody waits for any more.
  ASSERT_TRUE(first->take());
  first->answer();
  turn();
  EXPECT_TRUE(complaints.told.empty());
  EXPECT_EQ(lost->answers, 1);
  gateway.setLanes(kService, InstanceId(1), {1, 0});
  side.resumeInstance(InstanceId(1));
  const Sent one = infer();
  const Sent two = infer();
  turn();
  ASSERT_TRUE(first->take());
  ASSERT_TRUE(second->take());
  first->answer();
  second->answer();
  turn();
  EXPECT_EQ(one->status + two->status, 400);
}

TEST_F(GatewaySideTest, UnknownInstancesAreNobodysBusiness) {
  bool drained = false;
  side.drainInstance(InstanceId(9), [&] { drained = true; });
  EXPECT_TRUE(drained) << "nothing of it runs";
  side.instanceGone(InstanceId(9));
  side.suspendInstance(InstanceId(9));
  side.resumeInstance(InstanceId(9));
  side.removeService({"na", "unknown"});
  HandWorker late(3, identity(), *arena);
  side.addInstance({"na", "unknown"}, "v1", late.endpoint());  // its service went meanwhile
  turn();
  EXPECT_TRUE(complaints.told.empty());
}

TEST_F(GatewaySideTest, SettingsOfARunningServiceChangeWithoutLosingItsBackend) {
  const auto worker = add(1, "v1");
  const int told = cellsTold;
  const auto cell = cells[kService];
  publishService();
  EXPECT_EQ(cellsTold, told + 1);
  EXPECT_EQ(cells[kService], cell) << "the figures go on";
  EXPECT_TRUE(has(answered(infer(), *worker), "200"));
}

}  // namespace
}  // namespace coterie::serve
