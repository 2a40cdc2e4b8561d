// What a set is said to be by what its files say, on plain files in which a test writes what a kernel would.
#include "linux/own_set.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "testing/kernel_calls.h"

namespace coterie::linux {
namespace {

namespace fs = std::filesystem;

// Cgroups below one another: the root and some of version 2.
class Tree {
 public:
  explicit Tree(int below) {
    std::string name = ::testing::TempDir() + "coterie_sets_XXXXXX";
    root_ = ::mkdtemp(name.data()) == nullptr ? std::string() : name;
    inForce("", "0-3");
    for (int i = 0; i < below; ++i) {
      fs::create_directories(root_ + leaf(i));
      ask(i, "0-1");
      inForce(leaf(i), "0-1");
      sets.emplace_back(root_ + leaf(i), OwnSet::Of::Cpus, true, above);
    }
  }
  ~Tree() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  static std::string leaf(int number) { return "/c" + std::to_string(number); }
  void ask(int number, const std::string& set) const { std::ofstream(root_ + leaf(number) + "/cpuset.cpus") << set << "\n"; }
  void inForce(const std::string& where, const std::string& set) const { std::ofstream(root_ + where + "/cpuset.cpus.effective") << set << "\n"; }
  // A second later.
  const OwnSet::Sets& look(int number = 0) {
    above.beginSweep();
    above.beginRound();
    return sets[static_cast<std::size_t>(number)].read(above);
  }
  void rest(int sweeps) {
    for (; sweeps > 0; --sweeps) look();
  }

  SetsAbove above;
  std::vector<OwnSet> sets;

 private:
  std::string root_;
};

const CpuSet kFirst{0}, kBoth{0, 1};

TEST(OwnSet, WhatIsAskedForIsSeenAtOnce) {
  Tree tree(1);
  EXPECT_EQ(tree.look().asked, kBoth);
  EXPECT_EQ(tree.look().inForce, kBoth);
  tree.rest(20);
  tree.ask(0, "0");
  tree.inForce("/c0", "0");
  EXPECT_EQ(tree.look().asked, kFirst);
  EXPECT_EQ(tree.look().inForce, kFirst);
}

TEST(OwnSet, WhatIsTakenFromAboveIsSeenAtOnce) {
  Tree tree(1);
  tree.rest(20);
  tree.inForce("", "0,2-3");
  tree.inForce("/c0", "0");
  EXPECT_EQ(tree.look().inForce, kFirst);
  EXPECT_EQ(tree.look().asked, kBoth);
}

// The kernel was between the cgroup above and this one.
TEST(OwnSet, AKernelThatFollowsLateIsAwaited) {
  Tree tree(1);
  tree.rest(20);
  tree.inForce("", "0,2-3");
  EXPECT_EQ(tree.look().inForce, kBoth) << "not yet";
  tree.inForce("/c0", "0");
  EXPECT_EQ(tree.look().inForce, kFirst);
}

TEST(OwnSet, WhatNoSignShowsIsSeenInTheEighthSweep) {
  Tree tree(1);
  tree.rest(20);
  tree.inForce("/c0", "0");
  bool seen = false;
  for (int sweep = 0; sweep < 8; ++sweep) seen = tree.look().inForce == kFirst || seen;
  EXPECT_TRUE(seen);
}

TEST(OwnSet, WithoutACgroupAboveItIsReadEachTime) {
  Tree tree(0);
  SetsAbove& above = tree.above;
  const std::string name = ::testing::TempDir() + "coterie_alone_" + std::to_string(::getpid());
  fs::create_directories(name);
  std::ofstream(name + "/cpuset.cpus") << "0-1\n";
  std::ofstream(name + "/cpuset.cpus.effective") << "0-1\n";
  OwnSet set(name, OwnSet::Of::Cpus, true, above);
  for (int sweep = 0; sweep < 20; ++sweep) {
    above.beginSweep();
    above.beginRound();
    static_cast<void>(set.read(above));
  }
  std::ofstream(name + "/cpuset.cpus.effective") << "0\n";
  above.beginSweep();
  EXPECT_EQ(set.read(above).inForce, kFirst);
  fs::remove_all(name);
}

TEST(OwnSet, WhatLiesAboveManyIsReadOnceARound) {
  constexpr int kMany = 50, kSweeps = 8;
  Tree tree(kMany);
  const auto round = [&] {
    tree.above.beginSweep();
    tree.above.beginRound();
    for (OwnSet& set : tree.sets) static_cast<void>(set.read(tree.above));
  };
  for (int sweep = 0; sweep < 4; ++sweep) round();
  auto calls = testing::kernelCalls([] {},
                                    [&] {
                                      for (int sweep = 0; sweep < kSweeps; ++sweep) round();
                                    });
  if (!calls) GTEST_SKIP() << "no tracing here";
  EXPECT_EQ((*calls)[SYS_pread64], kMany * (kSweeps + 1) + kSweeps) << "each as it was asked for, in force once in eight, and the one above";
  EXPECT_EQ((*calls)[SYS_openat], 0);
}

}  // namespace
}  // namespace coterie::linux
