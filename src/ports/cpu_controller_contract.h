// What every CpuController must do, whatever is behind it. A test file of the adapter instantiates the suite with a harness that makes the controller
// and processes for it (real ones for real kernels):
//   INSTANTIATE_TEST_SUITE_P(Fake, CpuControllerContract, ::testing::Values(CpuControllerHarnessFactory{"v1", makeFake}), ...);
// A factory that answers no controller says why; its tests are skipped with that reason. Include gtest before this header.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ports/cpu_controller.h"

namespace coterie {

struct CpuControllerHarness {
  std::unique_ptr<CpuController> controller;  // null: not possible here
  std::string whyNot;
  CpuSet machine;                                                    // at least one CPU; cases that need two skip with fewer
  std::function<ContainerRegistration(InstanceId, int, int)> spawn;  // id, own lanes, loan lanes
  std::function<void(int)> endProcess;                               // returns when it has gone
  std::function<void(int)> addThread;                                // a new thread, born from the process's first one; may be null
  std::function<int(const PreparedChange&)> execute;                 // 0 or an errno
  std::function<CpuSet(int)> whereMayRun;                            // the kernel's own word for a thread; may be null
  std::shared_ptr<void> keep;
};

struct CpuControllerHarnessFactory {
  std::string name;
  std::function<CpuControllerHarness()> make;
  friend void PrintTo(const CpuControllerHarnessFactory& factory, std::ostream* out) { *out << factory.name; }
};

class CpuControllerContract : public ::testing::TestWithParam<CpuControllerHarnessFactory> {
 protected:
  void SetUp() override {
    harness_ = GetParam().make();
    if (harness_.controller == nullptr) GTEST_SKIP() << harness_.whyNot;
    first_ = CpuSet{harness_.machine.first()};
    second_ = harness_.machine.count() > 1 ? CpuSet{harness_.machine.next(harness_.machine.first())} : first_;
    both_ = first_ | second_;
  }
  void TearDown() override {
    if (harness_.controller != nullptr) harness_.controller->restore();
  }
  CpuController& controller() { return *harness_.controller; }
  ContainerRegistration added(int id, int own = 1, int loans = 0) {
    const ContainerRegistration container = harness_.spawn(InstanceId(id), own, loans);
    const Status status = controller().add(container);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return container;
  }
  // Prepares and executes; the errno, or -2 if it could not be prepared.
  int change(const CpuChange& wanted) {
    const auto prepared = controller().prepare(wanted);
    EXPECT_TRUE(prepared.ok()) << (prepared.ok() ? "" : prepared.error().message);
    return prepared.ok() ? harness_.execute(*prepared) : -2;
  }
  int home(int id, const CpuSet& cpus) { return change({CpuChangeKind::HomeCpus, InstanceId(id), cpus, 0}); }
  int loans(int id, const CpuSet& cpus) { return change({CpuChangeKind::LoanCpus, InstanceId(id), cpus, 0}); }
  ObservedContainer seen(int id) {
    const auto observed = controller().observe(InstanceId(id));
    EXPECT_TRUE(observed.ok());
    return observed.ok() ? *observed : ObservedContainer{};
  }

  CpuControllerHarness harness_;
  CpuSet first_, second_, both_;
};

TEST_P(CpuControllerContract, FloatsUntilItsFirstHome) {
  added(1);
  EXPECT_TRUE(seen(1).home.empty());
  EXPECT_FALSE(seen(1).vanished);
  EXPECT_EQ(home(1, first_), 0);
  EXPECT_EQ(seen(1).home, first_);
  EXPECT_EQ(seen(1).effective, first_);
  EXPECT_TRUE(seen(1).uniform);
}

TEST_P(CpuControllerContract, HomesWidenNarrowAndMove) {
  added(1, 2);
  for (const CpuSet& cpus : {first_, both_, second_, first_, harness_.machine}) {
    EXPECT_EQ(home(1, cpus), 0);
    EXPECT_EQ(seen(1).home, cpus);
    EXPECT_TRUE(seen(1).uniform);
  }
}

TEST_P(CpuControllerContract, TheKernelAgrees) {
  if (harness_.whereMayRun == nullptr) return;  // a fake has no kernel
  if (!controller().traits().lanes) {
    const ContainerRegistration container = added(1, 2);
    EXPECT_EQ(home(1, first_), 0);
    for (const int tid : container.ownLaneThreads) EXPECT_EQ(harness_.whereMayRun(tid), first_);
    EXPECT_EQ(loans(1, second_), 0);
    for (const int tid : container.ownLaneThreads) EXPECT_EQ(harness_.whereMayRun(tid), both_) << "all of it is widened";
    EXPECT_EQ(seen(1).home, first_);
    EXPECT_EQ(seen(1).loans, second_);
    EXPECT_EQ(home(1, second_), 0);
    EXPECT_EQ(loans(1, {}), 0);
    EXPECT_EQ(harness_.whereMayRun(container.pid), second_);
    EXPECT_EQ(seen(1).loans, second_) << "none: the home";
    return;
  }
  const ContainerRegistration container = added(1, 1, 1);
  EXPECT_EQ(home(1, first_), 0);
  EXPECT_EQ(loans(1, second_), 0);
  EXPECT_EQ(harness_.whereMayRun(container.pid), first_);
  EXPECT_EQ(harness_.whereMayRun(container.ownLaneThreads[0]), first_);
  EXPECT_EQ(harness_.whereMayRun(container.loanLaneThreads[0]), second_);
  EXPECT_EQ(home(1, both_), 0);
  EXPECT_EQ(harness_.whereMayRun(container.ownLaneThreads[0]), both_);
  EXPECT_EQ(harness_.whereMayRun(container.loanLaneThreads[0]), second_);
}

TEST_P(CpuControllerContract, AContainersMemoryIsToldUntilItEnds) {
  const ContainerRegistration container = added(1, 2);
  for (const CpuSet& cpus : {CpuSet{}, first_}) {  // floating, and placed
    if (!cpus.empty()) {
      EXPECT_EQ(home(1, cpus), 0);
    }
    const ContainerMemory memory = controller().memoryOf(InstanceId(1));
    EXPECT_GT(memory.resident, Bytes(0));
    EXPECT_GE(memory.pressure.value_or(0), 0);
    EXPECT_LE(memory.pressure.value_or(0), 1000);
  }
  EXPECT_EQ(controller().memoryOf(InstanceId(2)).resident, Bytes(0)) << "nobody of that id";
  harness_.endProcess(container.pid);
  EXPECT_EQ(controller().memoryOf(InstanceId(1)).resident, Bytes(0)) << "it has gone";
}

TEST_P(CpuControllerContract, OwnLanesSpreadOverTheHomeAndFloatAgain) {
  if (!controller().traits().lanes) return;
  const ContainerRegistration container = added(1, 3, 1);
  const auto mayRun = [&](std::size_t lane) { return harness_.whereMayRun(container.ownLaneThreads[lane]); };
  const auto spread = [&](const CpuSet& cpus) { return change({CpuChangeKind::LaneCpus, InstanceId(1), cpus, 0}); };
  ASSERT_EQ(home(1, both_), 0);
  EXPECT_EQ(spread(both_), 0);
  EXPECT_EQ(seen(1).home, both_);
  EXPECT_TRUE(seen(1).uniform);
  if (harness_.whereMayRun != nullptr && second_ != first_) {
    EXPECT_EQ(mayRun(0), first_);
    EXPECT_EQ(mayRun(1), second_);
    EXPECT_EQ(mayRun(2), both_) << "more lanes than CPUs";
    EXPECT_EQ(harness_.whereMayRun(container.pid), both_) << "only lanes are spread";
  }
  ASSERT_EQ(home(1, second_), 0);
  EXPECT_EQ(seen(1).home, second_);
  EXPECT_TRUE(seen(1).uniform);
  ASSERT_EQ(home(1, both_), 0);
  EXPECT_EQ(spread({}), 0);
  if (harness_.whereMayRun == nullptr) return;
  for (std::size_t lane = 0; lane < 3; ++lane) EXPECT_EQ(mayRun(lane), both_);
  ASSERT_EQ(home(1, harness_.machine), 0);
  EXPECT_EQ(mayRun(0), harness_.machine) << "a lane that floats is held by the home alone";
}

TEST_P(CpuControllerContract, AnEmptySetIsNeverWritten) {  // "" means inherit on v2: the container would cover everyone's CPUs
  added(1);
  ASSERT_EQ(home(1, first_), 0);
  for (const CpuChangeKind kind : {CpuChangeKind::HomeCpus, CpuChangeKind::AncestorCpus, CpuChangeKind::MemoryNodes}) {
    const auto prepared = controller().prepare({kind, InstanceId(1), {}, 0});
    ASSERT_FALSE(prepared.ok());
    EXPECT_EQ(prepared.error().reason, "EmptySet");
  }
  EXPECT_EQ(seen(1).home, first_);
}

TEST_P(CpuControllerContract, CpusThatTheMachineLacksAreRefusedAndChangeNothing) {
  added(1);
  ASSERT_EQ(home(1, first_), 0);
  CpuSet beyond = first_;
  beyond.add(4000);
  const auto prepared = controller().prepare({CpuChangeKind::HomeCpus, InstanceId(1), beyond, 0});
  EXPECT_TRUE(!prepared.ok() || harness_.execute(*prepared) != 0);
  EXPECT_EQ(seen(1).home, first_);
}

TEST_P(CpuControllerContract, LoansAreApartAndParkedOnTheHome) {
  if (!controller().traits().lanes) return;  // TheKernelAgrees has what such a one does
  added(1, 1, 2);
  ASSERT_EQ(home(1, first_), 0);
  EXPECT_EQ(seen(1).loans, first_) << "parked at first";
  EXPECT_EQ(loans(1, second_), 0);
  EXPECT_EQ(seen(1).loans, second_);
  EXPECT_EQ(seen(1).home, first_);
  EXPECT_EQ(home(1, both_), 0);
  EXPECT_EQ(seen(1).loans, second_) << "a change of the home moves no loan";
  EXPECT_EQ(loans(1, {}), 0);
  EXPECT_EQ(seen(1).loans, both_) << "parked: on the own home";
  EXPECT_EQ(home(1, first_), 0);
  EXPECT_EQ(seen(1).loans, first_) << "parked lanes follow the home";
}

TEST_P(CpuControllerContract, ALoanLaneMovesHomeAndBack) {
  if (!controller().traits().lanes) return;
  const ContainerRegistration container = added(1, 1, 1);
  ASSERT_EQ(home(1, first_), 0);
  ASSERT_EQ(loans(1, second_), 0);
  for (const LanePlace place : {LanePlace::Home, LanePlace::Loans}) {
    const auto move = controller().prepareLaneMove(InstanceId(1), 0, place);
    ASSERT_TRUE(move.ok());
    EXPECT_EQ(harness_.execute(*move), 0);
    if (harness_.whereMayRun == nullptr) continue;
    EXPECT_EQ(harness_.whereMayRun(container.loanLaneThreads[0]), place == LanePlace::Home ? first_ : second_);
  }
  EXPECT_FALSE(controller().prepareLaneMove(InstanceId(1), 1, LanePlace::Home).ok());
}

TEST_P(CpuControllerContract, ThreadsBornLaterSitInTheHomeAfterASecondScan) {
  if (harness_.addThread == nullptr) return;  // a fake's processes grow no threads
  const ContainerRegistration container = added(1);
  const auto prepared = controller().prepare({CpuChangeKind::HomeCpus, InstanceId(1), first_, 0});
  ASSERT_TRUE(prepared.ok());
  harness_.addThread(container.pid);  // after the scan, before the write
  EXPECT_EQ(harness_.execute(*prepared), 0);
  for (int scan = 0; scan < 3 && !seen(1).uniform; ++scan) EXPECT_EQ(home(1, first_), 0);
  EXPECT_TRUE(seen(1).uniform);
  harness_.addThread(container.pid);
  EXPECT_TRUE(seen(1).uniform) << "a placed process's new threads inherit";
}

TEST_P(CpuControllerContract, WeightsAndMemoryNodesReadBackWhereEnforced) {
  added(1);
  ASSERT_EQ(home(1, first_), 0);
  for (const std::int64_t weight : {1, 33, 100, 1000}) {
    EXPECT_EQ(change({CpuChangeKind::Weight, InstanceId(1), {}, weight}), 0);
    if (!controller().traits().weights) continue;
    EXPECT_NEAR(static_cast<double>(seen(1).weight), static_cast<double>(weight), 0.01 * static_cast<double>(weight) + 0.5);
  }
  const CpuSet nodes = seen(1).memoryNodes;
  EXPECT_EQ(nodes.empty(), !controller().traits().memoryNodes || !seen(1).memoryHeld);
  if (nodes.empty()) return;
  EXPECT_EQ(change({CpuChangeKind::MemoryNodes, InstanceId(1), CpuSet{nodes.first()}, 0}), 0);
  EXPECT_EQ(seen(1).memoryNodes, CpuSet{nodes.first()});
}

// A look at the place alone knows what this controller has asked for since the look before; what it asked for and nobody wrote, it does not take as
// written.
TEST_P(CpuControllerContract, APlaceIsSeenWithWhatWasWrittenSince) {
  added(1);
  const auto place = [&] {
    const auto observed = controller().observePlace(InstanceId(1));
    EXPECT_TRUE(observed.ok());
    return observed.ok() ? *observed : ObservedContainer{};
  };
  ASSERT_EQ(home(1, first_), 0);
  EXPECT_EQ(place(), seen(1));
  for (const std::int64_t weight : {33, 100}) {
    const ObservedContainer before = place();
    const auto prepared = controller().prepare({CpuChangeKind::Weight, InstanceId(1), {}, weight});
    ASSERT_TRUE(prepared.ok());
    EXPECT_EQ(place(), before) << "not written yet";
    ASSERT_EQ(harness_.execute(*prepared), 0);
    EXPECT_EQ(place(), seen(1)) << weight;
    EXPECT_EQ(place(), seen(1)) << weight << ", again";
  }
  ASSERT_EQ(home(1, second_), 0);
  EXPECT_EQ(place().home, second_);
  const CpuSet nodes = seen(1).memoryNodes;
  if (nodes.empty()) return;
  ASSERT_EQ(change({CpuChangeKind::MemoryNodes, InstanceId(1), CpuSet{nodes.first()}, 0}), 0);
  EXPECT_EQ(place().memoryNodes, CpuSet{nodes.first()});
  EXPECT_EQ(controller().observePlace(InstanceId(9)).error().reason, "UnknownContainer");
}

TEST_P(CpuControllerContract, StrangersAndDoublesAreErrors) {
  const ContainerRegistration container = added(1);
  EXPECT_EQ(controller().add(container).error().reason, "AlreadyRegistered");
  EXPECT_EQ(controller().observe(InstanceId(9)).error().reason, "UnknownContainer");
  EXPECT_EQ(controller().prepare({CpuChangeKind::HomeCpus, InstanceId(9), first_, 0}).error().reason, "UnknownContainer");
  controller().remove(InstanceId(9));
  EXPECT_TRUE(controller().threadUse(InstanceId(9), 1).vanished);
}

TEST_P(CpuControllerContract, AllTogetherAreSeenAsEachAlone) {
  const std::vector<InstanceId> ids{InstanceId(1), InstanceId(2), InstanceId(3), InstanceId(9)};
  const auto alike = [&](const std::string& when) {
    const auto all = controller().observeAll(ids);
    EXPECT_EQ(all.size(), 3U) << when << ": the ninth is unknown";
    for (const auto& [id, together] : all) EXPECT_EQ(together, seen(id.value)) << when << ": " << id.value;
    const auto places = controller().observePlaces(ids);
    EXPECT_EQ(places.size(), 3U) << when;
    for (const auto& [id, place] : places) EXPECT_EQ(place, seen(id.value)) << when << ": " << id.value;
  };
  EXPECT_TRUE(controller().observeAll({}).empty());
  added(1);
  added(2, 1, 1);
  const ContainerRegistration third = added(3);
  alike("floating");
  EXPECT_EQ(home(1, first_), 0);
  EXPECT_EQ(home(2, second_), 0);
  alike("two placed");
  EXPECT_EQ(loans(2, first_), 0);
  EXPECT_EQ(home(3, both_), 0);
  alike("one with loans");
  for (int sweep = 0; sweep < 10; ++sweep) {
    controller().sweep();
    alike("at rest");
  }
  EXPECT_EQ(home(1, both_), 0);
  EXPECT_EQ(loans(2, {}), 0);
  alike("changed");
  harness_.endProcess(third.pid);
  alike("one has gone");
}

TEST_P(CpuControllerContract, AVanishedProcessIsAValue) {
  const ContainerRegistration container = added(1, 1, 1);
  ASSERT_EQ(home(1, first_), 0);
  const auto late = controller().prepare({CpuChangeKind::HomeCpus, InstanceId(1), both_, 0});
  ASSERT_TRUE(late.ok());
  harness_.endProcess(container.pid);
  EXPECT_TRUE(seen(1).vanished);
  EXPECT_EQ(harness_.execute(*late), 0);
  controller().remove(InstanceId(1));
  EXPECT_FALSE(controller().observe(InstanceId(1)).ok());
  EXPECT_EQ(harness_.execute(*late), 0) << "prepared before the removal: targets are still open";
  controller().sweep();
  EXPECT_EQ(controller().add(container).error().reason, "ProcessGone");
}

TEST_P(CpuControllerContract, CpuTimeIsThatOfThreadUseAndNothingForWhoHasGone) {
  const ContainerRegistration container = added(1);
  const int lane = container.ownLaneThreads[0];
  const Nanos before = controller().cpuTime(InstanceId(1), lane);
  EXPECT_LE(before, controller().threadUse(InstanceId(1), lane).cpu);
  EXPECT_LE(before, controller().cpuTime(InstanceId(1), lane));
  EXPECT_EQ(controller().cpuTime(InstanceId(9), lane), Nanos{0});
  harness_.endProcess(container.pid);
  EXPECT_EQ(controller().cpuTime(InstanceId(1), lane), Nanos{0});
}

TEST_P(CpuControllerContract, ContainersDoNotTouchEachOther) {
  added(1);
  added(2);
  ASSERT_EQ(home(1, first_), 0);
  ASSERT_EQ(home(2, second_), 0);
  EXPECT_EQ(home(1, both_), 0);
  EXPECT_EQ(seen(2).home, second_);
}

TEST_P(CpuControllerContract, RestoreGivesBackWhatWasThere) {
  if (harness_.whereMayRun == nullptr) return;  // a fake has no kernel
  const ContainerRegistration container = harness_.spawn(InstanceId(1), 2, 1);
  const CpuSet before = harness_.whereMayRun(container.ownLaneThreads[0]);
  ASSERT_TRUE(controller().add(container).ok());
  ASSERT_EQ(home(1, both_), 0);
  EXPECT_EQ(change({CpuChangeKind::LaneCpus, InstanceId(1), both_, 0}), 0);
  ASSERT_EQ(home(1, first_), 0);
  controller().restore();
  EXPECT_EQ(harness_.whereMayRun(container.ownLaneThreads[0]), before);
  EXPECT_EQ(harness_.whereMayRun(container.loanLaneThreads[0]), before);
}

}  // namespace coterie
