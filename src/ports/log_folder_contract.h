// The contract of LogFolder as tests: each adapter and fake instantiates them with a way to make an empty one.
//
//   INSTANTIATE_TEST_SUITE_P(Disk, LogFolderContract, ::testing::Values(LogFolderUnderTest{"disk", makeDisk}), logFolderName);
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ports/log_folder.h"

namespace coterie::contract {

struct LogFolderHarness {
  std::unique_ptr<LogFolder> folder;
  std::shared_ptr<void> keep;  // what it stands on; outlives it
};
struct LogFolderUnderTest {
  std::string name;
  std::function<LogFolderHarness()> make;
  friend void PrintTo(const LogFolderUnderTest& folder, std::ostream* out) { *out << folder.name; }
};
inline std::string logFolderName(const ::testing::TestParamInfo<LogFolderUnderTest>& info) { return info.param.name; }

class LogFolderContract : public ::testing::TestWithParam<LogFolderUnderTest> {
 protected:
  LogFolderContract() : harness_(GetParam().make()) {}
  ~LogFolderContract() override { harness_.folder.reset(); }
  LogFolder& folder() { return *harness_.folder; }
  std::vector<std::string> listed() {
    std::vector<std::string> names;
    const auto files = folder().list();
    EXPECT_TRUE(files.ok());
    if (files.ok()) {
      for (const auto& file : *files) names.push_back(file.name + ":" + std::to_string(file.size));
    }
    return names;
  }
  std::string content(const std::string& name) {
    const auto read = folder().read(name, 0, 1 << 20);
    return read.ok() ? *read : "error: " + read.error().reason;
  }

  LogFolderHarness harness_;
};

TEST_P(LogFolderContract, WhatIsAppendedIsThereInOrder) {
  EXPECT_EQ(listed(), std::vector<std::string>{});
  ASSERT_TRUE(folder().create("b").ok());
  ASSERT_TRUE(folder().create("a").ok());
  ASSERT_TRUE(folder().append("a", "one\n", Durable::No).ok());
  ASSERT_TRUE(folder().append("b", "other\n", Durable::Yes).ok());
  ASSERT_TRUE(folder().append("a", "two\n", Durable::Yes).ok());
  EXPECT_EQ(content("a"), "one\ntwo\n");
  EXPECT_EQ(listed(), (std::vector<std::string>{"a:8", "b:6"}));
}

TEST_P(LogFolderContract, APartIsReadFromWhereItIsAskedFor) {
  ASSERT_TRUE(folder().create("a").ok());
  ASSERT_TRUE(folder().append("a", "0123456789", Durable::Yes).ok());
  EXPECT_EQ(*folder().read("a", 3, 4), "3456");
  EXPECT_EQ(*folder().read("a", 8, 100), "89");
  EXPECT_EQ(*folder().read("a", 10, 1), "");
  EXPECT_EQ(*folder().read("a", 1000, 1), "");
}

TEST_P(LogFolderContract, AFileIsCutAndGrowsOn) {
  ASSERT_TRUE(folder().create("a").ok());
  ASSERT_TRUE(folder().append("a", "whole\nto", Durable::Yes).ok());
  ASSERT_TRUE(folder().cut("a", 6).ok());
  ASSERT_TRUE(folder().append("a", "next\n", Durable::Yes).ok());
  EXPECT_EQ(content("a"), "whole\nnext\n");
}

TEST_P(LogFolderContract, OneOfThatNameIsNotReplaced) {
  ASSERT_TRUE(folder().create("a").ok());
  ASSERT_TRUE(folder().append("a", "kept", Durable::Yes).ok());
  const Status again = folder().create("a");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().reason, "CannotWrite");
  EXPECT_EQ(content("a"), "kept");
}

TEST_P(LogFolderContract, WhatIsRemovedOrWasNeverThereIsSaidToBeMissing) {
  ASSERT_TRUE(folder().create("a").ok());
  ASSERT_TRUE(folder().append("a", "gone", Durable::Yes).ok());
  ASSERT_TRUE(folder().remove("a").ok());
  EXPECT_EQ(listed(), std::vector<std::string>{});
  for (const char* name : {"a", "never"}) {
    EXPECT_EQ(folder().append(name, "x", Durable::Yes).error().reason, "NoSuchFile");
    EXPECT_EQ(folder().cut(name, 0).error().reason, "NoSuchFile");
    EXPECT_EQ(folder().remove(name).error().reason, "NoSuchFile");
    EXPECT_EQ(folder().read(name, 0, 1).error().reason, "NoSuchFile");
  }
  EXPECT_EQ(listed(), std::vector<std::string>{}) << "an append makes no file";
}

}  // namespace coterie::contract
