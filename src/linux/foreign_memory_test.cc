// Memory nodes of somebody else's container: what is read and written, on files as the kernel shows them and on real cgroups (of several nodes in the
// guests).
#include "linux/foreign_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "linux/cgroup_paths.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/foreign_controller.h"
#include "testing/child_process.h"

namespace coterie::linux {
namespace {

namespace fs = std::filesystem;

// A container's directory below another one, as plain files. What is written is what was asked; what is in force is said by the test.
class Directory {
 public:
  Directory(bool v2, const std::string& above, const std::string& own) : v2_(v2) {
    std::string name = ::testing::TempDir() + "coterie_memory_XXXXXX";
    root_ = ::mkdtemp(name.data()) == nullptr ? std::string() : name;
    fs::create_directories(root_ + "/pod");
    inForce("", above);
    file("/pod/cpuset.mems", own);
    inForce("/pod", own.empty() ? above : own);
  }
  ~Directory() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  void inForce(const std::string& where, const std::string& nodes) const {
    file(where + (v2_ ? "/cpuset.mems.effective" : "/cpuset.effective_mems"), nodes);
  }
  [[nodiscard]] std::string pod() const { return root_ + "/pod"; }
  // In a plain file a write leaves what is behind it: each begins anew.
  bool write(ForeignMemory& memory, const CpuSet& nodes) const {
    const auto writes = memory.writes(nodes);
    if (!writes.empty()) std::ofstream(pod() + "/cpuset.mems", std::ios::trunc).close();
    for (const PreparedWrite& one : writes) {
      if (executeWrite(one) != 0) return false;
    }
    return !writes.empty();
  }
  [[nodiscard]] std::string asked() const { return readText(pod() + "/cpuset.mems").value_or(""); }

 private:
  void file(const std::string& name, const std::string& text) const { std::ofstream(root_ + name) << text << "\n"; }
  bool v2_;
  std::string root_;
};

TEST(ForeignMemory, NodesThatNobodyChoseFollowAndChosenOnesStay) {
  struct Row {
    const char* what;
    bool v2;
    std::string above, own;
    bool ours;
  };
  const std::vector<Row> rows{{"v2, inherited", true, "0-3", "", true},
                              {"v2, all that there are", true, "0-3", "0-3", true},
                              {"v2, more than is there", true, "0-1", "0-3", true},
                              {"v2, chosen", true, "0-3", "1", false},
                              {"v1, as above", false, "0-3", "0-3", true},
                              {"v1, chosen", false, "0-3", "0,2", false},
                              {"nothing known above", true, "", "", false}};
  SetsAbove sets;
  for (const Row& row : rows) {
    const Directory directory(row.v2, row.above, row.own);
    EXPECT_EQ(ForeignMemory::open(directory.pod(), row.v2, sets) != nullptr, row.ours) << row.what;
  }
  EXPECT_EQ(ForeignMemory::open("/nowhere/pod", true, sets), nullptr);
}

TEST(ForeignMemory, WhatIsAskedIsWrittenAsFarAsItIsThereAndReadBack) {
  const Directory directory(true, "0-1,4", "");
  SetsAbove sets;
  const auto memory = ForeignMemory::open(directory.pod(), true, sets);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->observe(sets), (CpuSet{0, 1, 4})) << "all, until something is asked";
  EXPECT_FALSE(memory->changed());
  ASSERT_TRUE(directory.write(*memory, CpuSet{1, 2}));
  EXPECT_TRUE(memory->changed());
  EXPECT_EQ(directory.asked(), "1");
  directory.inForce("/pod", "1");
  EXPECT_EQ(memory->observe(sets), (CpuSet{1, 2})) << "as far as it can be: no drift";
  directory.inForce("/pod", "0");
  EXPECT_EQ(memory->observe(sets), CpuSet{0}) << "cut or overwritten by somebody";
  EXPECT_FALSE(directory.write(*memory, CpuSet{2, 3})) << "none of them is there";
  EXPECT_EQ(directory.asked(), "1");
}

TEST(ForeignMemory, BelowASingleNodeThereIsNothingToReadButTheNode) {
  const Directory directory(true, "0-1", "");
  SetsAbove sets;
  const auto memory = ForeignMemory::open(directory.pod(), true, sets);
  ASSERT_NE(memory, nullptr);
  directory.inForce("", "1");
  sets.beginRound();
  EXPECT_EQ(memory->observe(sets), CpuSet{1}) << "its own file still says two";
  ASSERT_TRUE(directory.write(*memory, CpuSet{0, 1}));
  EXPECT_EQ(memory->observe(sets), (CpuSet{0, 1})) << "as far as it can be";
  directory.inForce("", "0-1");
  sets.beginRound();
  EXPECT_EQ(memory->observe(sets), (CpuSet{0, 1}));
  directory.inForce("/pod", "1");
  EXPECT_EQ(memory->observe(sets), (CpuSet{0, 1})) << "what was asked is in force";
}

TEST(ForeignMemory, TheJournalGivesBackWhatWasFound) {
  for (const bool v2 : {true, false}) {
    const Directory directory(v2, "0-3", "0-3");
    SetsAbove sets;
    const auto memory = ForeignMemory::open(directory.pod(), v2, sets);
    ASSERT_NE(memory, nullptr);
    ASSERT_TRUE(directory.write(*memory, CpuSet{2}));
    const std::string path = directory.pod() + "/journal";
    Originals found;
    found.memories.push_back(memory->original());
    ASSERT_TRUE(writeJournal(path, found).ok());
    EXPECT_EQ(undoJournal(path).found, 1U);
    EXPECT_EQ(directory.asked(), "0-3") << v2;
    EXPECT_FALSE(fs::exists(path));
  }
}

// A real container, in whichever hierarchy has cpusets here.
class ForeignControllerMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    const CgroupDirectories own = ownCgroupDirectories();
    const auto v1 = own.v1.find("cpuset");
    if (v1 == own.v1.end() && !own.v2) GTEST_SKIP() << "no cpusets here";
    const bool v2 = v1 == own.v1.end();
    const std::string parent = v2 ? *own.v2 : v1->second;
    directory_ = parent + name_;
    const std::string given = v2 ? parent + "/cgroup.subtree_control" : std::string();
    if (v2 && readText(given).value_or("").find("cpuset") == std::string::npos && writeText(given, "+cpuset") == 0) given_ = given;
    const auto above = readText(parent + (v2 ? "/cpuset.mems.effective" : "/cpuset.effective_mems"));
    if (!above || ::mkdir(directory_.c_str(), 0755) != 0) GTEST_SKIP() << "no cpuset can be made here";
    made_ = true;
    nodes_ = *CpuSet::parse(*above);
    if (!v2) {
      for (const char* file : {"/cpuset.cpus", "/cpuset.mems"}) ASSERT_EQ(writeText(directory_ + file, readText(parent + file).value_or("")), 0);
    }
    if (!fs::exists(directory_ + "/cpuset.mems")) GTEST_SKIP() << "the controller is not given to children here";
    child_.emplace(1);
    ASSERT_EQ(writeText(directory_ + "/cgroup.procs", std::to_string(child_->pid())), 0);
    found_ = asked();
  }
  void TearDown() override {
    if (child_) child_->end();
    while (made_ && ::rmdir(directory_.c_str()) != 0 && errno == EBUSY) ::usleep(1000);
    if (!given_.empty()) static_cast<void>(writeText(given_, "-cpuset"));
    ::unlink(journal_.c_str());
  }
  std::unique_ptr<ForeignController> make(ForeignNodes nodes = ForeignNodes::Follow) {
    return std::make_unique<ForeignController>(machine_, [this](InstanceId) { return ForeignPlace{{child_->pid()}, name_}; }, journal_, nodes);
  }
  static bool set(ForeignController& controller, CpuChangeKind kind, const CpuSet& set) {
    const auto prepared = controller.prepare({kind, InstanceId(1), set, 0});
    return prepared.ok() && !prepared->writes.empty() && executeChange(*prepared) == 0;
  }
  [[nodiscard]] std::string asked() const { return readText(directory_ + "/cpuset.mems").value_or(""); }
  // The kernel takes no empty set where there are tasks: who inherited asks for all that there can be then, and has all that is above.
  [[nodiscard]] bool asFound() const { return asked() == found_ || (found_ == "\n" && nodes_.isSubsetOf(CpuSet::parse(asked()).value())); }

  const CpuSet machine_{affinityOf(0).value_or(CpuSet{0})};
  const std::string name_{"/coterie-test-memory-" + std::to_string(::getpid())};
  const std::string journal_{::testing::TempDir() + "coterie_foreign_memory_" + std::to_string(::getpid())};
  std::string directory_, found_;
  std::string given_;  // the file by which this test gave the controller to children
  bool made_{false};
  CpuSet nodes_;
  std::optional<testing::ChildProcess> child_;
};

TEST_F(ForeignControllerMemory, FollowsAndIsGivenBackAtTheEndAndAfterAKill) {
  const CpuSet last{nodes_.last()};
  auto controller = make();
  ASSERT_TRUE(controller->add({InstanceId(1), child_->pid(), {}, {}, {}}).ok());
  EXPECT_TRUE(controller->observe(InstanceId(1))->memoryHeld);
  EXPECT_EQ(controller->observe(InstanceId(1))->memoryNodes, nodes_);
  ASSERT_TRUE(set(*controller, CpuChangeKind::MemoryNodes, last));  // before it is placed
  ASSERT_TRUE(set(*controller, CpuChangeKind::HomeCpus, CpuSet{machine_.first()}));
  EXPECT_EQ(CpuSet::parse(asked()).value(), last);
  EXPECT_EQ(controller->observe(InstanceId(1))->memoryNodes, last);
  controller.reset();  // killed
  ASSERT_EQ(CpuSet::parse(asked()).value(), last);
  controller = make();
  EXPECT_TRUE(asFound()) << asked();
  ASSERT_TRUE(controller->add({InstanceId(1), child_->pid(), {}, {}, {}}).ok());
  ASSERT_TRUE(set(*controller, CpuChangeKind::MemoryNodes, last));
  controller->restore();
  EXPECT_TRUE(asFound()) << "although it was never placed: " << asked();
}

TEST_F(ForeignControllerMemory, IsKeptWhereThatIsAskedOrTheNodesWereChosenOrAreNotThere) {
  auto controller = make(ForeignNodes::Keep);
  EXPECT_FALSE(controller->traits().memoryNodes);
  ASSERT_TRUE(controller->add({InstanceId(1), child_->pid(), {}, {}, {}}).ok());
  EXPECT_FALSE(controller->observe(InstanceId(1))->memoryHeld);
  EXPECT_FALSE(set(*controller, CpuChangeKind::MemoryNodes, nodes_));
  EXPECT_EQ(asked(), found_);
  controller = make();
  ASSERT_TRUE(controller->add({InstanceId(1), child_->pid(), {}, {}, {}}).ok());
  EXPECT_FALSE(set(*controller, CpuChangeKind::MemoryNodes, CpuSet{nodes_.last() + 1}));
  EXPECT_FALSE(controller->observe(InstanceId(1))->memoryHeld) << "from then on it stays where it is";
  controller->restore();
  if (nodes_.count() < 2) return;
  ASSERT_EQ(writeText(directory_ + "/cpuset.mems", std::to_string(nodes_.first())), 0);
  controller = make();
  ASSERT_TRUE(controller->add({InstanceId(1), child_->pid(), {}, {}, {}}).ok());
  EXPECT_FALSE(set(*controller, CpuChangeKind::MemoryNodes, nodes_)) << "chosen";
}

}  // namespace
}  // namespace coterie::linux
