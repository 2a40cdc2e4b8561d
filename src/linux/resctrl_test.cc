// The contract on the fake and on the adapter over a kernel's file system in memory; what it writes where; what it makes of hardware that can less.
#include "linux/resctrl.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "linux/cgroup_tree.h"
#include "linux/files.h"
#include "linux/resctrl_tree.h"
#include "ports/cache_classes_contract.h"
#include "testing/fake_cache_classes.h"

namespace coterie::linux {
namespace {

namespace fs = std::filesystem;
using contract::CacheClassesContract;
using contract::CacheClassesFactory;
using contract::CacheClassesHarness;

constexpr const char* kOthers = "analytics";

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "resctrl-XXXXXX").string();
    path_ = ::mkdtemp(name.data()) == nullptr ? std::string() : name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void file(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path_ + "/" + name).parent_path());
    std::ofstream(path_ + "/" + name) << text;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Eight CPUs under two last-level caches, CPU 5 offline.
std::shared_ptr<Folder> eightCpus() {
  auto folder = std::make_shared<Folder>();
  folder->file("devices/system/cpu/online", "0-4,6-7\n");
  for (const int cpu : {0, 1, 2, 3, 4, 6, 7}) {
    const std::string own = "devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/";
    folder->file(own + "index0/level", "1\n");
    folder->file(own + "index0/id", std::to_string(cpu) + "\n");
    folder->file(own + "index0/shared_cpu_list", std::to_string(cpu) + "\n");
    folder->file(own + "index1/level", "3\n");
    folder->file(own + "index1/id", cpu < 4 ? "0\n" : "1\n");
    folder->file(own + "index1/shared_cpu_list", cpu < 4 ? "0-3\n" : "4,6-7\n");
  }
  return folder;
}

// Threads that wait until they are let go.
class Threads {
 public:
  Threads() {
    for (int i = 0; i < 3; ++i) threads_.emplace_back([this] { stop_.wait(false); });
  }
  ~Threads() {
    stop_ = true;
    stop_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

int endedProcess() {
  const int pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

std::set<int> threadsNow() {
  const std::vector<int> threads = threadsOf(::getpid());
  return {threads.begin(), threads.end()};
}

struct Rig {
  std::shared_ptr<ResctrlState> state = std::make_shared<ResctrlState>();
  std::shared_ptr<Folder> sysfs = eightCpus();
  [[nodiscard]] std::unique_ptr<Resctrl> create() const { return Resctrl::create(std::make_unique<ResctrlTree>(state), sysfs->path()); }
  [[nodiscard]] static std::string own(const std::string& name) { return treeNameOfThisRun() + "." + name; }
};

CacheClassesHarness makeResctrl() {
  const Rig rig;
  CacheClassesHarness harness;
  const int gone = endedProcess();
  harness.keep =
      std::make_shared<std::pair<std::shared_ptr<Folder>, Threads>>(std::piecewise_construct, std::forward_as_tuple(rig.sysfs), std::tuple<>());
  rig.state->groups[""].tasks = threadsNow();
  harness.classes = rig.create();
  harness.process = ::getpid();
  harness.gone = gone;
  harness.threads = threadsNow;
  harness.within = [state = rig.state](const std::string& name) {
    const auto group = state->groups.find(name.empty() ? "" : Rig::own(name));
    return group == state->groups.end() ? std::set<int>{} : group->second.tasks;
  };
  harness.takenByOthers = [state = rig.state](int /*pid*/) {
    state->groups[""].tasks.clear();
    state->groups[kOthers].tasks = threadsNow();
  };
  harness.isOthers = [state = rig.state](int pid) { return state->groups[kOthers].tasks.count(pid) > 0; };
  return harness;
}

CacheClassesHarness makeFake() {
  constexpr int kProcess = 71;
  constexpr int kGone = 72;
  auto fake = std::make_unique<testing::FakeCacheClasses>(testing::twoCaches());
  testing::FakeCacheClasses* kernel = fake.get();
  kernel->gone = {kGone};
  CacheClassesHarness harness;
  harness.classes = std::move(fake);
  harness.process = kProcess;
  harness.gone = kGone;
  harness.threads = [] { return std::set<int>{kProcess}; };
  harness.within = [kernel](const std::string& name) { return kernel->classOf(kProcess) == name ? std::set<int>{kProcess} : std::set<int>{}; };
  harness.takenByOthers = [kernel](int pid) { kernel->takenByOthers(pid); };
  harness.isOthers = [kernel](int pid) { return kernel->isOthers(pid); };
  return harness;
}

INSTANTIATE_TEST_SUITE_P(All, CacheClassesContract,
                         ::testing::Values(CacheClassesFactory{"fake", makeFake}, CacheClassesFactory{"resctrl", makeResctrl}),
                         contract::cacheClassesName);

TEST(Resctrl, TheTextsOfTheKernelAreReadAndWritten) {
  const Schemata read = parseSchemata("    L3:0=fff;1=0003f\n  MB:0= 50;1=100\nL2:0=f\nL3CODE:0=3\nnothing\nL3:x=1;2=;3=g;4=30\n");
  EXPECT_EQ(read.ways, (std::map<int, CacheWays>{{0, 0xfff}, {1, 0x3f}, {4, 0x30}}));
  EXPECT_EQ(read.bandwidth, (std::map<int, std::int64_t>{{0, 50}, {1, 100}}));
  EXPECT_EQ(schemataText({{0, {0x3f, 50}}, {2, {0xfc0, 100}}}), "L3:0=3f;2=fc0\nMB:0=50;2=100\n");
  EXPECT_EQ(schemataText({{0, {0x3f, 0}}, {2, {0xfc0, 0}}}), "L3:0=3f;2=fc0\n");
  EXPECT_EQ(schemataText({{0, {0, 20}}}), "MB:0=20\n");
  EXPECT_EQ(schemataText({}), "");
}

TEST(Resctrl, ItWritesItsOwnGroupsAndNothingElse) {
  const Rig rig;
  rig.state->groups[kOthers].tasks = {1};
  const auto resctrl = rig.create();
  EXPECT_TRUE(rig.state->written.empty()) << "looking changes nothing";
  ASSERT_TRUE(resctrl->set({"t1", {{0, {0x03f, 100}}, {1, {0xc00, 50}}}}).ok());
  ASSERT_TRUE(resctrl->join("t1", {::getpid()}).ok());
  resctrl->restore();
  ASSERT_FALSE(rig.state->written.empty());
  EXPECT_EQ(rig.state->written.front(), Rig::own("t1") + "/schemata: L3:0=3f;1=c00\nMB:0=100;1=50\n");
  for (std::size_t i = 1; i < rig.state->written.size(); ++i) EXPECT_TRUE(rig.state->written[i].starts_with(Rig::own("t1") + "/tasks: ")) << i;
  EXPECT_EQ(rig.state->groups.size(), 2U) << "the default's and the other's";
  EXPECT_EQ(rig.state->groups[kOthers].tasks, std::set<int>{1});
}

TEST(Resctrl, AThreadThatIsInSomebodyElsesGroupStaysThereAlone) {
  const Threads threads;
  const Rig rig;
  const int apart = *threadsNow().rbegin();
  ASSERT_NE(apart, ::getpid());
  rig.state->groups[kOthers].tasks = {apart};
  const auto resctrl = rig.create();
  ASSERT_TRUE(resctrl->set({"t1", {{0, {0x00f, 100}}}}).ok());
  ASSERT_TRUE(resctrl->join("t1", {::getpid()}).ok());
  EXPECT_EQ(rig.state->groups[kOthers].tasks, std::set<int>{apart});
  std::set<int> expected = threadsNow();
  expected.erase(apart);
  EXPECT_EQ(rig.state->groups[Rig::own("t1")].tasks, expected);
}

TEST(Resctrl, GroupsOfRunsThatHaveGoneAreRemovedAndNoOthers) {
  const Rig rig;
  const std::string dead = "coterie-" + std::to_string(endedProcess()) + "-12345.t7";
  const std::string living = treeNameOfThisRun() + ".t8";
  for (const std::string& name : {dead, living, std::string("coterie-mine"), std::string("coterie.t1")}) rig.state->groups[name].tasks = {1};
  const auto resctrl = rig.create();
  EXPECT_EQ(rig.state->groups.count(dead), 0U);
  EXPECT_EQ(rig.state->groups.size(), 4U);
  EXPECT_EQ(rig.state->groups[""].tasks, std::set<int>{1}) << "its threads are the default's again";
}

TEST(Resctrl, WhyIsSaidInTheKernelsWords) {
  const Rig rig;
  const auto resctrl = rig.create();
  const Status refused = resctrl->set({"t1", {{0, {0x005, 100}}}});
  EXPECT_NE(refused.error().message.find("The mask has non-consecutive 1-bits"), std::string::npos) << refused.error().message;
  rig.state->closids = 1;
  const Status full = resctrl->set({"t1", {{0, {0x00f, 100}}}});
  EXPECT_NE(full.error().message.find("Out of CLOSIDs"), std::string::npos) << full.error().message;
  rig.state->refuseAll = EROFS;
  const Status closed = resctrl->set({"t1", {{0, {0x00f, 100}}}});
  EXPECT_EQ(closed.error().reason, "ClassesNotWritable");
  EXPECT_NE(closed.error().message.find("run as root"), std::string::npos);
}

TEST(Resctrl, WaysOfDevicesAndOfExclusiveGroupsAreLeftToThem) {
  struct Row {
    const char* what;
    std::string shareable, usage;
    std::vector<CacheWays> wanted;
  };
  const std::vector<Row> rows{
      {"devices use the upper two", "c00", "0=HHSSSSSSSSSS;1=HHSSSSSSSSSS", {0x3ff, 0x3ff}},
      {"devices use so many that two classes had no room", "ffe", "0=SSSSSSSSSSSS;1=SSSSSSSSSSSS", {0xfff, 0xfff}},
      {"an exclusive group in the first cache", "0", "0=EEEESSSSSSSS;1=SSSSSSSSSSSS", {0x0ff, 0xfff}},
      {"in the middle: the longest run that is left", "0", "0=SSSSSEESSSSS;1=PPPPPPPPPPPP", {0x01f, 0}},
      {"a kernel that does not say", "", "", {0xfff, 0xfff}},
  };
  for (const Row& row : rows) {
    const Rig rig;
    rig.state->info["info/L3/shareable_bits"] = row.shareable;
    rig.state->info["info/L3/bit_usage"] = row.usage;
    const auto control = rig.create()->read();
    ASSERT_TRUE(control.ok()) << row.what;
    EXPECT_EQ(control->caches[0].ways, row.wanted[0]) << row.what;
    EXPECT_EQ(control->caches[1].ways, row.wanted[1]) << row.what;
  }
}

TEST(Resctrl, CachesAreThoseOfTheOnlineCpus) {
  const auto control = Rig().create()->read();
  ASSERT_TRUE(control.ok());
  EXPECT_EQ(control->caches[0].cpus.toString(), "0-3");
  EXPECT_EQ(control->caches[1].cpus.toString(), "4,6-7");
}

TEST(Resctrl, HardwareThatCanLessIsSaidNotFailedOn) {
  const auto saying = [](const Result<CacheControl>& control, const char* words) {
    if (!control) return control.error().message.find(words) != std::string::npos;
    return std::any_of(control->lacks.begin(), control->lacks.end(), [&](const std::string& lack) { return lack.find(words) != std::string::npos; });
  };
  Rig none;
  none.state->mounted = false;
  const auto nothing = none.create()->read();
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().reason, "NoCacheClasses");
  EXPECT_TRUE(saying(nothing, "mount -t resctrl"));

  Rig waysOnly;
  waysOnly.state->info.erase("info/MB/min_bandwidth");
  const auto ways = waysOnly.create()->read();
  ASSERT_TRUE(ways.ok());
  EXPECT_EQ(ways->leastBandwidth, 0);
  EXPECT_TRUE(ways->dividesCaches());
  EXPECT_TRUE(saying(ways, "memory bandwidth cannot be held"));

  Rig absolute;  // AMD: eighths of a gigabyte a second
  absolute.state->groups[""].shares = {{0, {0xfff, 2048}}, {1, {0xfff, 2048}}};
  const auto units = absolute.create()->read();
  ASSERT_TRUE(units.ok());
  EXPECT_EQ(units->leastBandwidth, 0);
  EXPECT_TRUE(saying(units, "other units"));

  Rig cdp;
  cdp.state->info.erase("info/L3/cbm_mask");
  cdp.state->info["info/L3CODE/cbm_mask"] = "fff\n";
  const auto bandwidth = cdp.create()->read();
  ASSERT_TRUE(bandwidth.ok()) << "bandwidth is left";
  EXPECT_FALSE(bandwidth->dividesCaches());
  EXPECT_EQ(bandwidth->classes, 7) << "as many as bandwidth has";
  EXPECT_TRUE(saying(bandwidth, "cdp"));
  cdp.state->info.erase("info/MB/min_bandwidth");
  EXPECT_FALSE(cdp.create()->read().ok());
  EXPECT_TRUE(saying(cdp.create()->read(), "cdp"));
}

TEST(MountedResctrl, GroupsAreDirectoriesWithASchemata) {
  const Folder folder;
  folder.file("schemata", "L3:0=f\n");
  folder.file("info/L3/cbm_mask", "f\n");
  folder.file("mon_groups/one/tasks", "");
  folder.file("b/schemata", "");
  MountedResctrl files(folder.path());
  EXPECT_EQ(files.makeGroup("a"), 0);
  EXPECT_EQ(files.makeGroup("a"), EEXIST);
  folder.file("a/schemata", "");
  EXPECT_EQ(files.groups(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(files.write("a/schemata", "L3:0=3\n"), 0);
  EXPECT_EQ(files.read("a/schemata"), "L3:0=3\n");
  EXPECT_EQ(files.write("a/nothing/tasks", "1\n"), ENOENT);
  EXPECT_EQ(files.removeGroup("c"), ENOENT);
  EXPECT_FALSE(files.read("info/MB/min_bandwidth"));
  EXPECT_TRUE(MountedResctrl(folder.path() + "/nowhere").groups().empty());
}

}  // namespace
}  // namespace coterie::linux
