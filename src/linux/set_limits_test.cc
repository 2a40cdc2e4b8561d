// Who keeps CPUs from a container, on plain files in which a test writes what a kernel would.
#include "linux/set_limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

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

INSTANTIATE_TEST_SUITE_P(Versions, SetLimits, ::testing::Bool());

}  // namespace
}  // namespace coterie::linux
