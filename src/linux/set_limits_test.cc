// Who keeps CPUs from a container, on plain files in which a test writes what a kernel would.
#include "linux/set_limits.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "linux/files.h"

namespace coterie::linux {
namespace {

class SetLimits : public ::testing::TestWithParam<bool> {
 protected:
  SetLimits() {
    std::string name = ::testing::TempDir() + "coterie_limits_XXXXXX";
    root_ = ::mkdtemp(name.data());
    set("", "0-3");
    set("/outer", "1-2");
    set("/outer/docker", "1-2");
  }
  ~SetLimits() override { std::filesystem::remove_all(root_); }
  void set(const std::string& where, const std::string& cpus) const {
    std::filesystem::create_directories(root_ + where);
    std::ofstream(root_ + where + (GetParam() ? "/cpuset.cpus.effective" : "/cpuset.cpus")) << cpus << "\n";
  }
  [[nodiscard]] std::string below(const std::string& where, const CpuSet& wanted) const { return limitBy(root_ + where, GetParam(), wanted); }
  std::string root_;
};

TEST_P(SetLimits, TheTopmostThatAllowsTooLittleIsNamed) {
  EXPECT_EQ(below("/outer/docker", {1}), "");
  EXPECT_EQ(below("/outer/docker", {0}), "cgroup " + root_ + "/outer allows only CPUs 1-2");
  EXPECT_EQ(below("/outer/docker", {0, 1}), "cgroup " + root_ + "/outer allows only CPUs 1-2");
  set("/outer/docker", "1");
  EXPECT_EQ(below("/outer/docker", {2}), "cgroup " + root_ + "/outer/docker allows only CPU 1");
  set("/outer", "0-3");
  set("/outer/docker", "0-3");
  EXPECT_EQ(below("/outer/docker", {0}), "");
}

TEST_P(SetLimits, WhatTheWholeMachineLacksIsNoCgroupsDoing) {
  EXPECT_EQ(below("", {7}), "");
  EXPECT_EQ(below("/nowhere", {0}), "");
  EXPECT_EQ(limitAbove(::getpid(), "/no/such-container", {0}), "");
}

// The kernel's own files of version 2, where a set above is narrowed under a container's. In guests (tests/guest), which run what is named Foreign.
class ForeignSetAbove : public ::testing::Test {
 protected:
  void SetUp() override {
    if (readText(kRoot + "/cgroup.controllers").value_or("").find("cpuset") == std::string::npos)
      GTEST_SKIP() << "skipped: cpuset is not a controller of cgroup version 2 here";
    if (!write(kRoot + "/cgroup.subtree_control", "+cpuset")) GTEST_SKIP() << "skipped: this cgroup is not ours to divide";
    for (const std::string& made : {outer_, kRoot + container_}) std::filesystem::create_directory(made);
    ASSERT_TRUE(write(outer_ + "/cpuset.cpus", "0-1"));
    ASSERT_TRUE(write(outer_ + "/cgroup.subtree_control", "+cpuset"));
    process_ = ::fork();
    if (process_ == 0) {
      while (true) ::pause();
    }
    ASSERT_TRUE(write(kRoot + container_ + "/cgroup.procs", std::to_string(process_)));
  }
  void TearDown() override {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    for (const std::string& made : {kRoot + container_, outer_}) {
      for (int tries = 0; ::rmdir(made.c_str()) != 0 && errno == EBUSY && tries < 1'000'000; ++tries) ::sched_yield();
    }
  }
  static bool write(const std::string& path, const std::string& text) { return writeText(path, text) == 0; }

  const std::string kRoot{"/sys/fs/cgroup"};
  const std::string outer_{kRoot + "/coterie-limits-" + std::to_string(::getpid())};
  const std::string container_{outer_.substr(kRoot.size()) + "/container"};
  pid_t process_{-1};
};

TEST_F(ForeignSetAbove, IsNamedWhileItIsTooNarrow) {
  if (IsSkipped()) return;
  EXPECT_EQ(limitAbove(process_, container_, {0, 1}), "");
  ASSERT_TRUE(write(outer_ + "/cpuset.cpus", "1"));
  EXPECT_EQ(limitAbove(process_, container_, {0}), "cgroup " + outer_ + " allows only CPU 1");
  EXPECT_EQ(limitAbove(process_, container_, {1}), "");
  // A container without a set of its own asks its own cgroup, which has what the one above allows.
  EXPECT_EQ(limitAbove(process_, "", {0}), "cgroup " + outer_ + " allows only CPU 1");
  ASSERT_TRUE(write(outer_ + "/cpuset.cpus", "0-1"));
  EXPECT_EQ(limitAbove(process_, container_, {0}), "");
}

INSTANTIATE_TEST_SUITE_P(Versions, SetLimits, ::testing::Bool());

}  // namespace
}  // namespace coterie::linux
