// What crosses between the two loops, when, and on whose turn. Both loops are turned by hand; the gateway, the resource controller and the reconciler
// are real, on fakes.
#include "serve/bridge.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "agent/drc_rig.h"
#include "controller/controller_fixture.h"
#include "gateway/gateway_fixture.h"
#include "serve/hand_worker.h"

namespace coterie::serve {
namespace {

using gateway::has;
using gateway::identity;
using gateway::Sent;

const ServiceName kService{"na", "m"};

class BridgeTest : public gateway::GatewayTest {
 protected:
  BridgeTest() { bridge.connect(drc, reconciler); }
  void SetUp() override {
    ASSERT_TRUE(drc.start().ok());
    controller::GatewayService service;
    service.service.metadata = {"m", "na", {}};
    service.tenant = TenantName("a");
    bridge.setService(service);
    controller::ServiceGroup group;
    group.id = GroupId(0);
    group.service = kService;
    group.tenant = TenantName("a");
    bridge.setGroup(group);
    turn();
  }
  // The gateway holds on to backends, which are the bridge's and go first here.
  void TearDown() override {
    bridge.removeService(kService);
    hands.clear();
    turn();
    loop.advance(Seconds(120));  // past all deadlines
  }
  WorkerSide workers() {
    WorkerSide side;
    side.setRequestArena = [this](const ServiceName& name, int fd, std::uint64_t size) -> Status {
      arenas[name] = {UniqueFd(::dup(fd)), size};
      return {};
    };
    side.takeEndpoint = [this](InstanceId id) -> Result<channel::InstanceEndpoint> {
      if (!hands.contains(id)) return Error{Code::NotFound, "NoEndpoint", "it has gone"};
      return hands.at(id)->endpoint();
    };
    side.violated = [this](InstanceId id, EndReason reason, const std::string&) {
      told.push_back(std::to_string(id.value) + " violated as " + std::string(endReasonName(reason)));
    };
    side.heard = [this](InstanceId id, const std::string& silence) {
      told.push_back(std::to_string(id.value) + (silence.empty() ? " answers" : " silent: " + silence));
    };
    return side;
  }
  // As the process runtime and the reconciler do it.
  HandWorker& addWorker(int id, int lanes) {
    const InstanceId instance(id);
    hands[instance] = std::make_unique<HandWorker>(id, identity(), arenas.at(kService).first.get(), arenas.at(kService).second, lanes);
    const ContainerRegistration container = kernel.spawn(instance, lanes, 0);
    InstanceReady ready;
    ready.pid = container.pid;
    ready.ownLaneThreads = container.ownLaneThreads;
    ready.serviceThreads = container.serviceThreads;
    ready.speeds = {{1, Millis(1), Millis(1), Millis(1)}};
    bridge.instanceStarting(GroupId(0), instance, Bytes(0));
    bridge.instanceReady(GroupId(0), instance, ready);
    bridge.addInstance(kService, "v1", instance, ready);
    turn();
    return *hands[instance];
  }
  void turn() {
    for (int i = 0; i < 4; ++i) {
      control.runUntilIdle();
      loop.runUntilIdle();
      while (loop.pollDescriptors()) continue;
    }
  }
  int taken(HandWorker& worker, int lanes) {
    int count = 0;
    for (int lane = 0; lane < lanes; ++lane) count += worker.take(lane) ? 1 : 0;
    return count;
  }

  testing::ManualLoop control;  // the other one, `loop`, is the gateway's
  std::map<ServiceName, std::pair<UniqueFd, std::uint64_t>> arenas;
  std::map<InstanceId, std::unique_ptr<HandWorker>> hands;
  std::vector<std::string> told;
  memory::MemoryObjectStore store{control};
  memory::MemoryEventLog events{control.clock()};
  Bridge bridge{control, loop, gateway, workers(), events, channel::ArenaOptions{Bytes(1 << 20), Bytes(1 << 16)}};
  agent::MachineStub machine{agent::flatMachine(2)};
  testing::FakeCpuController kernel{agent::flatMachine(2).online};
  agent::ManualApplier applier{control};
  agent::MemoryHomeJournal journal;
  agent::Drc drc{agent::Drc::Ports{control, kernel, machine, applier, journal, bridge, [this](GroupId group) { return bridge.sampleDemand(group); }},
                 [] {
                   agent::DrcConfig config;
                   config.reserved = CpuSet{};
                   config.burstQuiet = Nanos{0};  // the clock stands still between events
                   return config;
                 }()};
  controller::FakeRuntime runtime;
  controller::FakeFiles files{control};
  controller::TenantDirectory directory;
  controller::InstanceReconciler reconciler{controller::InstanceReconciler::Ports{control, store, events, runtime, files, bridge, bridge},
                                            {},
                                            [this]() -> const controller::TenantDirectory& { return directory; }};
};

TEST_F(BridgeTest, IsolationReachesThePlanAndItsTermsComeBack) {
  addWorker(1, 2);
  controller::ServiceGroup group;
  group.id = GroupId(0);
  group.service = kService;
  group.tenant = TenantName("a");
  group.isolation = Isolation::Core;
  bridge.setGroup(group);
  turn();
  EXPECT_EQ(drc.explainGroup(GroupId(0))->spec.isolation, Isolation::Core);
  EXPECT_EQ(bridge.isolationTerms(Isolation::Core).units, 2);
  EXPECT_EQ(bridge.isolationTerms(Isolation::Node).unitCpus, 2);
  controller::ServiceGroup other = group;
  other.id = GroupId(1);
  other.tenant = TenantName("b");
  other.isolation = Isolation::Node;
  EXPECT_EQ(bridge.missingForFloor(other), MilliCpu(1000)) << "the only node, beside a core";
  const auto shortage = bridge.unitShortage(other);
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->units, 1);
  ASSERT_EQ(shortage->holders.size(), 1U);
  EXPECT_EQ(shortage->holders[0].group, GroupId(0));
  EXPECT_EQ(shortage->fits, Isolation::Core);
}

TEST_F(BridgeTest, ARequestRunsOnAsManyLanesAsTheControllerGives) {
  HandWorker& worker = addWorker(1, 2);
  const Sent one = infer();
  const Sent two = infer();
  turn();
  EXPECT_EQ(taken(worker, 2), 2) << "both CPUs are the group's, so both lanes are open";
  const auto noted = events.last({std::string(kModelServiceKind), "na", "m"}, 10);
  ASSERT_EQ(noted.size(), 1U);
  EXPECT_EQ(noted[0].reason, "CpusChanged");
  EXPECT_TRUE(has(noted[0].message, "instance 1 runs on CPUs 0-1")) << noted[0].message;
}

TEST_F(BridgeTest, LoadIsSampledOnTheControlLoopAndEndsWithTheService) {
  EXPECT_EQ(bridge.sampleDemand(GroupId(7)).queued, 0) << "an unknown group has no load";
  addWorker(1, 1);
  for (int i = 0; i < 3; ++i) infer();  // one is given to the worker, two wait
  turn();
  EXPECT_EQ(bridge.sampleDemand(GroupId(0)).queued, 2);
  EXPECT_TRUE(bridge.sampleDemand(GroupId(0)).queuedBeyondOwnLanes);
  EXPECT_GT(bridge.sampleDemand(GroupId(0)).arrivals.value, 0);
  EXPECT_EQ(bridge.groupOf(kService), GroupId(0));
  ASSERT_TRUE(bridge.loadOf(GroupId(0)));
  EXPECT_EQ(bridge.loadOf(GroupId(0))->cpus, 2);
  EXPECT_EQ(bridge.loadOf(GroupId(0))->nodes, 1);
  EXPECT_EQ(bridge.loadOf(GroupId(0))->waiting, 2);
  EXPECT_EQ(bridge.loadOf(GroupId(0))->running, 1);
  EXPECT_FALSE(bridge.loadOf(GroupId(7)));
  bridge.removeService(kService);
  EXPECT_EQ(bridge.sampleDemand(GroupId(0)).queued, 0);
  EXPECT_FALSE(bridge.loadOf(GroupId(0)));
  turn();
  EXPECT_EQ(infer()->status, 404);
  bridge.removeGroup(GroupId(0));
  EXPECT_EQ(bridge.groupOf(kService), std::nullopt);
}

TEST_F(BridgeTest, WhatTheGatewayFindsReachesTheControlLoopOnATurnOfItsOwn) {
  bridge.misbehaved(InstanceId(4), EndReason::ProtocolViolation, "it lied");
  bridge.silent(InstanceId(5), "it sleeps");
  bridge.answers(InstanceId(5));
  EXPECT_TRUE(told.empty()) << "it is called from the gateway's thread";
  control.runUntilIdle();
  EXPECT_EQ(told, (std::vector<std::string>{"4 violated as ProtocolViolation", "5 silent: it sleeps", "5 answers"}));
}

TEST_F(BridgeTest, ADrainIsToldOnTheControlLoop) {
  HandWorker& worker = addWorker(1, 1);
  const Sent running = infer();
  turn();
  ASSERT_EQ(taken(worker, 1), 1);
  bool drained = false;
  bridge.drainInstance(InstanceId(1), [&] { drained = true; });
  turn();
  EXPECT_FALSE(drained);
  worker.answer();
  loop.runUntilIdle();
  while (loop.pollDescriptors()) continue;
  EXPECT_EQ(running->status, 200);
  EXPECT_FALSE(drained) << "not on the gateway's turn";
  control.runUntilIdle();
  EXPECT_TRUE(drained);
}

// The gateway forgets a suspended instance's lanes; what the controller said last, also meanwhile, holds when it is back.
TEST_F(BridgeTest, AnInstanceThatComesBackHasTheLanesItIsAllowed) {
  HandWorker& worker = addWorker(1, 2);
  bridge.suspendInstance(InstanceId(1));
  bridge.lanesChanged(GroupId(0), {{InstanceId(1), 2, 0}});
  turn();
  const Sent one = infer();
  const Sent two = infer();
  turn();
  EXPECT_EQ(taken(worker, 2), 0);
  bridge.resumeInstance(InstanceId(1));
  turn();
  EXPECT_EQ(taken(worker, 2), 2);
  bridge.instanceGone(InstanceId(1));
  turn();
  EXPECT_EQ(one->answers + two->answers, 2) << "both were running there, and hear of its end";
}

TEST_F(BridgeTest, AnInstanceThatWentBeforeItWasAddedIsNoHarm) {
  InstanceReady ready;
  bridge.addInstance(kService, "v1", InstanceId(9), ready);
  bridge.instanceGone(InstanceId(9));
  turn();
  EXPECT_EQ(figures().queued, 0);
}

TEST_F(BridgeTest, FiguresWaitForOneTurnOfTheGateway) {
  std::atomic<bool> stop{false};
  std::thread turner([&] {
    while (!stop) loop.runUntilIdle();
  });
  const GatewayFigures seen = bridge.figures();
  stop = true;
  turner.join();
  ASSERT_EQ(seen.gateway.services.size(), 1U);
  EXPECT_EQ(seen.gateway.services[0].name, kService);
}

}  // namespace
}  // namespace coterie::serve
