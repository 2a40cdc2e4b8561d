// The contract on the fake and on real cgroups of this machine; the kernel's texts; the order in which a quota is written.
#include "linux/cgroup_meter.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "linux/cgroup_figures.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/foreign_controller.h"
#include "linux/foreign_journal.h"
#include "linux/own_cgroup.h"
#include "ports/container_meter_contract.h"
#include "testing/child_process.h"
#include "testing/fake_container_meter.h"

namespace coterie {
namespace {

using contract::ContainerMeterContract;
using contract::ContainerMeterFactory;
using contract::ContainerMeterHarness;
using contract::ContainerPlace;
using testing::ChildProcess;

std::string nameOf(int number) {
  std::string digits = std::to_string(::getpid()) + "11" + std::to_string(number);
  return "/docker-" + std::string(64 - digits.size(), 'b') + digits + ".scope";
}

ContainerMeterHarness makeFake() {
  ContainerMeterHarness harness;
  auto fake = std::make_unique<testing::FakeContainerMeter>();
  harness.begin = [raw = fake.get()](int number) {
    raw->cgroup(nameOf(number)) = {};
    return ContainerPlace{100 + number, nameOf(number)};
  };
  harness.beginWithout = [] { return ContainerPlace{7, ""}; };
  harness.work = [raw = fake.get()](int number) { raw->cgroup(nameOf(number)).cpu.used += Millis(5); };
  harness.end = [raw = fake.get()](int number) { raw->removeCgroup(nameOf(number)); };
  harness.throttle = [raw = fake.get()](int number) {
    raw->cgroup(nameOf(number)).quota.cpus = MilliCpu(500);
    raw->cgroup(nameOf(number)).cpu.throttledPeriods += 3;
    raw->cgroup(nameOf(number)).cpu.throttled += Millis(30);
  };
  harness.meter = std::move(fake);
  return harness;
}

// Containers as a runtime makes them: a directory in each hierarchy of this machine in which one can be made.
class RealContainers {
 public:
  RealContainers() {
    const linux::CgroupDirectories own = linux::ownCgroupDirectories();
    for (const char* controller : {"cpuacct", "cpu", "memory", "cpuset"}) {
      const auto found = own.v1.find(controller);
      if (found != own.v1.end()) parents_.push_back(found->second);
    }
    if (parents_.empty() && own.v2) parents_.push_back(*own.v2);
  }
  ~RealContainers() {
    while (!children_.empty()) end(children_.begin()->first);
  }
  std::string whyNot() {
    static_cast<void>(begin(0));
    const linux::CgroupDirectories own = linux::ownCgroups(children_.at(0)->pid(), nameOf(0));
    const bool counted = own.v1.count("cpuacct") > 0 || own.v2;
    end(0);
    return counted ? "" : "no cgroup that counts can be made here";
  }
  ContainerPlace begin(int number) {
    children_[number] = std::make_unique<ChildProcess>(1);
    for (const std::string& parent : parents_) {
      const std::string directory = parent + nameOf(number);
      if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) continue;
      for (const char* file : {"/cpuset.cpus", "/cpuset.mems"})
        static_cast<void>(linux::writeText(directory + file, linux::readText(parent + file).value_or("")));
      static_cast<void>(linux::writeText(directory + "/cgroup.procs", std::to_string(children_[number]->pid())));
    }
    return {children_[number]->pid(), nameOf(number)};
  }
  ContainerPlace beginWithout() {
    children_[-1] = std::make_unique<ChildProcess>(1);
    return {children_[-1]->pid(), ""};
  }
  // Until the kernel has counted some time.
  void work(int number) {
    linux::CgroupMeter meter;
    meter.open(InstanceId(1), children_.at(number)->pid(), nameOf(number));
    const Nanos before = meter.cpu(InstanceId(1))->used;
    children_.at(number)->spin(true);
    while (meter.cpu(InstanceId(1))->used < before + Millis(5)) ::usleep(1000);
    children_.at(number)->spin(false);
  }
  void end(int number) {
    children_.at(number)->end();
    for (const std::string& parent : parents_) {
      while (::rmdir((parent + nameOf(number)).c_str()) != 0 && errno == EBUSY) ::usleep(1000);
    }
    children_.erase(number);
  }
  [[nodiscard]] bool hasQuota() {
    static_cast<void>(begin(0));
    const auto limit = linux::readCpuLimit(quotaOf(0));
    end(0);
    return limit.has_value();
  }
  [[nodiscard]] linux::QuotaDirectory quotaOf(int number) {
    return linux::quotaDirectory(linux::ownCgroups(children_.at(number)->pid(), nameOf(number)));
  }
  void throttle(int number) {
    const linux::QuotaDirectory where = quotaOf(number);
    set(where, {20'000, 100'000, 0});
    linux::CgroupMeter meter;
    meter.open(InstanceId(1), children_.at(number)->pid(), nameOf(number));
    children_.at(number)->spin(true);
    while (meter.cpu(InstanceId(1))->throttledPeriods == 0 || meter.cpu(InstanceId(1))->throttled == Nanos{0}) ::usleep(1000);
    children_.at(number)->spin(false);
  }
  static void set(const linux::QuotaDirectory& where, const linux::CpuLimit& limit) {
    const auto files = linux::QuotaFiles::open(where);
    ASSERT_TRUE(files);
    for (const PreparedWrite& write : files->writes(*files->read(), limit)) ASSERT_EQ(linux::executeWrite(write), 0) << write.payload;
  }

 private:
  std::vector<std::string> parents_;
  std::map<int, std::unique_ptr<ChildProcess>> children_;
};

ContainerMeterHarness makeReal() {
  ContainerMeterHarness harness;
  const auto containers = std::make_shared<RealContainers>();
  harness.keep = containers;
  harness.whyNot = containers->whyNot();
  harness.meter = std::make_unique<linux::CgroupMeter>();
  if (!harness.whyNot.empty()) return harness;
  harness.begin = [raw = containers.get()](int number) { return raw->begin(number); };
  harness.beginWithout = [raw = containers.get()] { return raw->beginWithout(); };
  harness.work = [raw = containers.get()](int number) { raw->work(number); };
  harness.end = [raw = containers.get()](int number) { raw->end(number); };
  if (containers->hasQuota()) harness.throttle = [raw = containers.get()](int number) { raw->throttle(number); };
  return harness;
}

INSTANTIATE_TEST_SUITE_P(All, ContainerMeterContract,
                         ::testing::Values(ContainerMeterFactory{"Fake", makeFake}, ContainerMeterFactory{"Cgroup", makeReal}),
                         contract::containerMeterName);

TEST(CgroupFigures, TheKernelsTexts) {
  using namespace linux;
  const auto v2 = cpuFigures("usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 9\nnr_throttled 4\nthrottled_usec 77\n");
  ASSERT_TRUE(v2);
  EXPECT_EQ(*v2, (ContainerCpu{Micros(1500), 4, Micros(77)}));
  EXPECT_EQ(*cpuFigures("usage_usec 3\n"), (ContainerCpu{Micros(3), 0, {}})) << "no cpu controller";
  EXPECT_EQ(*cpuFigures("95413\n", "nr_periods 2\nnr_throttled 1\nthrottled_time 50\n"), (ContainerCpu{Nanos(95413), 1, Nanos(50)}));
  EXPECT_FALSE(cpuFigures(""));
  EXPECT_FALSE(cpuFigures("nr_periods 2\n", ""));
  const auto pressure = pressureFigures("some avg10=12.34 avg60=0.00 avg300=0.00 total=998\nfull avg10=99.00 avg60=0 avg300=0 total=5\n");
  ASSERT_TRUE(pressure);
  EXPECT_EQ(*pressure, (ContainerPressure{123, Micros(998)}));
  EXPECT_FALSE(pressureFigures("")) << "psi=0";
  EXPECT_EQ(memoryFigures("anon 10\nfile 20\nkernel 5\n"), (ContainerResident{Bytes(10), Bytes(20)}));
  EXPECT_EQ(memoryFigures("cache 1\nrss 2\ntotal_cache 30\ntotal_rss 40\n"), (ContainerResident{Bytes(40), Bytes(30)}));
  EXPECT_EQ(nodeFigures("anon N0=8 N4=1\nfile N0=2 N4=0\nkernel_stack N0=99 N4=99\n", Bytes(4096)),
            (std::vector<NodeResident>{{0, Bytes(10)}, {4, Bytes(1)}}));
  EXPECT_EQ(nodeFigures("total=3 N0=2 N1=1\nfile=1 N0=1 N1=0\nhierarchical_total=9 N0=5 N1=4\n", Bytes(4096)),
            (std::vector<NodeResident>{{0, Bytes(5 * 4096)}, {1, Bytes(4 * 4096)}}));
  EXPECT_EQ(nodeFigures("total=3 N0=2 N1=1\n", Bytes(4096)), (std::vector<NodeResident>{{0, Bytes(8192)}, {1, Bytes(4096)}}));
  EXPECT_EQ(*cpuMaxFigures("max 100000\n"), (CpuLimit{-1, 100'000, 0}));
  EXPECT_EQ(*cpuMaxFigures("50000 100000\n"), (CpuLimit{50'000, 100'000, 0}));
  EXPECT_EQ(cpuMaxFigures("50000 100000\n")->cpus(), MilliCpu(500));
  for (const char* nonsense : {"", "max", "a b\n", "5\n"}) EXPECT_FALSE(cpuMaxFigures(nonsense)) << nonsense;
}

// Containers as the hierarchies of one machine or another show them, as files.
class FileContainer {
 public:
  FileContainer() { std::filesystem::create_directories(root_); }
  ~FileContainer() { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::trunc) << text;
  }
  linux::CgroupMeter meter(const std::vector<std::string>& v1, bool v2) {
    linux::CgroupDirectories own;
    for (const std::string& controller : v1) own.v1[controller] = root_ + "/" + controller;
    if (v2) own.v2 = root_ + "/v2";
    return linux::CgroupMeter([own](int, const std::string&) { return own; });
  }

 private:
  std::string root_ = ::testing::TempDir() + "coterie_meter_" + std::to_string(::getpid());
};

constexpr const char* kV1Stat = "nr_periods 9\nnr_throttled 4\nthrottled_time 5000\n";
constexpr const char* kV2Stat = "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 8\nnr_throttled 3\nthrottled_usec 7\n";

// Throttling is counted by cpu, CPU time by cpuacct or version 2: each wherever it is, whether or not the other is there.
TEST(CgroupMeter, ThrottlingIsReadWhereCpuIsWhereverCpuTimeIsCounted) {
  struct Row {
    const char* name;
    std::vector<std::string> v1;
    bool v2;
    std::optional<ContainerCpu> seen;
  };
  const Row rows[] = {
      {"cpu and cpuacct of version 1", {"cpu", "cpuacct"}, false, ContainerCpu{Nanos(95413), 4, Nanos(5000)}},
      {"cpu without cpuacct", {"cpu"}, false, ContainerCpu{Nanos(0), 4, Nanos(5000), false}},
      {"cpu without cpuacct, and a cgroup of version 2", {"cpu"}, true, ContainerCpu{Micros(1500), 4, Nanos(5000)}},
      {"cpuacct alone", {"cpuacct"}, false, ContainerCpu{Nanos(95413), 0, Nanos(0)}},
      {"cpuacct alone, cpu of version 2", {"cpuacct"}, true, ContainerCpu{Nanos(95413), 3, Micros(7)}},
      {"version 2", {}, true, ContainerCpu{Micros(1500), 3, Micros(7)}},
      {"neither", {"memory"}, false, std::nullopt},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    FileContainer files;
    files.write("/cpu/cpu.stat", kV1Stat);
    files.write("/cpuacct/cpuacct.usage", "95413\n");
    files.write("/v2/cpu.stat", kV2Stat);
    linux::CgroupMeter meter = files.meter(row.v1, row.v2);
    meter.open(InstanceId(1), 7, "/docker/x");
    EXPECT_EQ(meter.cpu(InstanceId(1)), row.seen);
    EXPECT_EQ(meter.cpu(InstanceId(1)), row.seen) << "again";
  }
}

TEST(CgroupMeter, ThrottlingAloneIsFollowed) {
  FileContainer files;
  files.write("/cpu/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n");
  linux::CgroupMeter meter = files.meter({"cpu"}, false);
  meter.open(InstanceId(1), 7, "/docker/x");
  EXPECT_EQ(meter.cpu(InstanceId(1)), (ContainerCpu{{}, 0, {}, false}));
  files.write("/cpu/cpu.stat", kV1Stat);
  EXPECT_EQ(meter.cpu(InstanceId(1)), (ContainerCpu{{}, 4, Nanos(5000), false}));
}

// The kernel refuses a quota below the burst (in-node facts: "lower burst first"): each row is tried on it.
TEST(CgroupQuota, BurstIsLoweredBeforeTheQuota) {
  RealContainers containers;
  if (!containers.hasQuota()) GTEST_SKIP() << "no quota can be set here";
  static_cast<void>(containers.begin(1));
  const linux::QuotaDirectory where = containers.quotaOf(1);
  const std::vector<linux::CpuLimit> limits = {
      {200'000, 100'000, 200'000}, {50'000, 100'000, 50'000}, {50'000, 100'000, 10'000}, {300'000, 100'000, 10'000},
      {-1, 100'000, 10'000},       {20'000, 100'000, 0},      {-1, 100'000, 0}};
  for (const linux::CpuLimit& limit : limits) {
    RealContainers::set(where, limit);
    const auto now = linux::readCpuLimit(where);
    ASSERT_TRUE(now);
    EXPECT_EQ(now->quotaMicros, limit.quotaMicros);
    if (limit.quotaMicros >= 0) {
      EXPECT_EQ(now->burstMicros, limit.burstMicros);
    }
  }
}

TEST(CgroupQuota, AJournalGivesItBack) {
  RealContainers containers;
  if (!containers.hasQuota()) GTEST_SKIP() << "no quota can be set here";
  static_cast<void>(containers.begin(1));
  const linux::QuotaDirectory where = containers.quotaOf(1);
  RealContainers::set(where, {50'000, 100'000, 20'000});
  const linux::Originals found{{}, {}, {{where, *linux::readCpuLimit(where)}}};
  EXPECT_EQ(linux::parseOriginals(linux::originalsText(found)), found);
  RealContainers::set(where, {200'000, 100'000, 20'000});
  linux::giveBack(found);
  EXPECT_EQ(*linux::readCpuLimit(where), (linux::CpuLimit{50'000, 100'000, 20'000}));
}

// A container on CPUs of its own is not to be throttled by a quota that was meant for a shared machine; leaving, and a kill, give the quota back.
TEST(ForeignControllerQuota, IsRaisedFollowsAndIsGivenBack) {
  RealContainers containers;
  if (!containers.hasQuota()) GTEST_SKIP() << "no quota can be set here";
  const ContainerPlace place = containers.begin(1);
  const linux::QuotaDirectory where = containers.quotaOf(1);
  const linux::CpuLimit found{50'000, 100'000, 20'000};
  RealContainers::set(where, found);
  const CpuSet machine = linux::affinityOf(0).value_or(CpuSet{0});
  const std::string journal = ::testing::TempDir() + "coterie_quota_" + std::to_string(::getpid());
  const auto make = [&] {
    return std::make_unique<linux::ForeignController>(machine, [&](InstanceId) { return linux::ForeignPlace{{place.pid}, place.cgroup}; }, journal);
  };
  const auto raise = [](linux::ForeignController& controller, std::int64_t least) {
    const auto prepared = controller.prepareQuota(InstanceId(1), MilliCpu(least));
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    ASSERT_EQ(linux::executeChange(*prepared), 0);
  };
  auto controller = make();
  ASSERT_TRUE(controller->add({InstanceId(1), place.pid, {}, {}, {}}).ok());
  ASSERT_EQ(linux::executeChange(*controller->prepare({CpuChangeKind::HomeCpus, InstanceId(1), CpuSet{machine.first()}, 0})), 0);
  raise(*controller, 400);
  EXPECT_EQ(linux::readCpuLimit(where), found) << "it has as much";
  raise(*controller, 3000);
  EXPECT_EQ(linux::readCpuLimit(where)->cpus(), MilliCpu(3000));
  raise(*controller, 1000);
  EXPECT_EQ(linux::readCpuLimit(where)->cpus(), MilliCpu(1000)) << "it follows the set";
  raise(*controller, 100);
  EXPECT_EQ(linux::readCpuLimit(where)->cpus(), MilliCpu(500)) << "never less than was found";
  raise(*controller, 2000);
  controller.reset();  // killed
  ASSERT_EQ(linux::readCpuLimit(where)->cpus(), MilliCpu(2000));
  controller = make();
  EXPECT_EQ(linux::readCpuLimit(where), found);
  ASSERT_TRUE(controller->add({InstanceId(1), place.pid, {}, {}, {}}).ok());
  ASSERT_EQ(linux::executeChange(*controller->prepare({CpuChangeKind::HomeCpus, InstanceId(1), CpuSet{machine.first()}, 0})), 0);
  raise(*controller, 2000);
  controller->restore();
  EXPECT_EQ(linux::readCpuLimit(where), found);
  EXPECT_EQ(controller->prepareQuota(InstanceId(9), MilliCpu(1)).error().reason, "UnknownContainer");
}

}  // namespace
}  // namespace coterie
