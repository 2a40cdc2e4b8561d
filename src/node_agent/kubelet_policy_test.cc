// What the kubelet's state file says, and how seldom it is read for that.
#include "node_agent/kubelet_policy.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/unique_fd.h"
#include "testing/no_descriptors.h"

namespace coterie::node_agent {
namespace {

constexpr const char* kStatic = R"({"policyName":"static","defaultCpuSet":"0-3","entries":{},"checksum":1})";
constexpr const char* kNone = R"({"policyName":"none","defaultCpuSet":"","checksum":1})";

class KubeletPolicyTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return folder_ + "/cpu_manager_state"; }
  void write(const std::string& text) const { std::ofstream(path(), std::ios::binary | std::ios::trunc) << text; }

  std::string folder_ = (std::filesystem::temp_directory_path() / "coterie-kubelet-XXXXXX").string();
  KubeletPolicy policy_;
};

TEST(KubeletPolicy, OnlyStaticIsAClaim) {
  EXPECT_TRUE(saysStatic(kStatic));
  for (const char* text : {kNone, "{}", "", "static", R"({"policyName":7})", R"({"policyName":"static")"}) EXPECT_FALSE(saysStatic(text)) << text;
}

TEST_F(KubeletPolicyTest, ItComesAndGoes) {
  EXPECT_FALSE(policy_.isStatic(path())) << "there is no kubelet";
  for (int time = 0; time < 3; ++time) {
    write(kStatic);
    EXPECT_TRUE(policy_.isStatic(path()));
    write(kNone);
    EXPECT_FALSE(policy_.isStatic(path()));
    write(kStatic);
    EXPECT_TRUE(policy_.isStatic(path()));
    std::filesystem::remove(path());
    EXPECT_FALSE(policy_.isStatic(path()));
  }
}

// As long and, by a coarse clock, as old as what was there: only what is read tells.
TEST_F(KubeletPolicyTest, AWriteRightAfterALookIsSeen) {
  const std::string other = R"({"policyName":"static"})";
  for (int time = 0; time < 200; ++time) {
    write(R"({"policyName":"sloppy"})");
    EXPECT_FALSE(policy_.isStatic(path()));
    write(other);
    EXPECT_TRUE(policy_.isStatic(path())) << time;
  }
}

TEST_F(KubeletPolicyTest, AnotherFileIsAnotherQuestion) {
  write(kStatic);
  for (int time = 0; time < 3; ++time) EXPECT_TRUE(policy_.isStatic(path()));
  EXPECT_FALSE(policy_.isStatic(folder_ + "/other"));
  EXPECT_TRUE(policy_.isStatic(path()));
}

TEST_F(KubeletPolicyTest, WhatHasNotChangedIsNotReadAgain) {
  write(kStatic);
  const UniqueFd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(::inotify_add_watch(watch.get(), path().c_str(), IN_OPEN), 0);
  const auto opened = [&] {
    char events[4096];
    return ::read(watch.get(), events, sizeof events) > 0;
  };
  for (int look = 0; look < 2; ++look) {
    EXPECT_TRUE(policy_.isStatic(path()));
    EXPECT_TRUE(opened());
  }
  for (int look = 0; look < 5; ++look) EXPECT_TRUE(policy_.isStatic(path()));
  EXPECT_FALSE(opened());
}

TEST_F(KubeletPolicyTest, OneThatCannotBeReadSaysWhatItSaidLast) {
  write(kStatic);
  EXPECT_TRUE(policy_.isStatic(path()));
  write(kNone);
  {
    const testing::NoDescriptors none;
    EXPECT_TRUE(policy_.isStatic(path())) << "two owners of CPU sets would be worse than none";
  }
  EXPECT_FALSE(policy_.isStatic(path()));
}

}  // namespace
}  // namespace coterie::node_agent
