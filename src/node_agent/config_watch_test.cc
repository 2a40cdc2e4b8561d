// The configuration file as people, editors and tools change it.
#include "node_agent/config_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "testing/no_descriptors.h"

namespace coterie::node_agent {
namespace {

class ConfigWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    write("first");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return folder_ + "/agent.yaml"; }
  void write(const std::string& text) const { std::ofstream(path(), std::ios::binary | std::ios::trunc) << text; }
  void append(const std::string& text) const { std::ofstream(path(), std::ios::binary | std::ios::app) << text; }
  void replace(const std::string& text) const {
    std::ofstream(path() + "~", std::ios::binary) << text;
    ASSERT_EQ(::rename((path() + "~").c_str(), path().c_str()), 0);
  }
  // What so many looks in a row said to act upon, with ", " between; "!": it cannot be read.
  static std::string said(ConfigWatch& watch, int looks = 4) {
    std::string all;
    for (int i = 0; i < looks; ++i) {
      if (const auto text = watch.look()) all += (all.empty() ? "" : ", ") + (text->ok() ? **text : std::string("!"));
    }
    return all;
  }

  std::string folder_ = (std::filesystem::temp_directory_path() / "coterie-config-XXXXXX").string();
};

TEST_F(ConfigWatchTest, WhatIsInForceIsNotActedUpon) {
  ConfigWatch watch(path(), "first");
  EXPECT_EQ(said(watch), "");
  write("first");  // saved anew, as it was
  EXPECT_EQ(said(watch), "");
}

TEST_F(ConfigWatchTest, AChangeIsActedUponOnceAtTheSecondLook) {
  ConfigWatch watch(path(), "first");
  write("second");
  EXPECT_EQ(said(watch, 1), "");
  EXPECT_EQ(said(watch, 1), "second");
  EXPECT_EQ(said(watch), "");
  replace("third");
  EXPECT_EQ(said(watch), "third") << "another file by the same name";
  write("first");
  EXPECT_EQ(said(watch), "first") << "back to what it was";
}

TEST_F(ConfigWatchTest, AChangeBeforeTheFirstLookIsNoticed) {
  write("second");  // between reading and watching
  ConfigWatch watch(path(), "first");
  EXPECT_EQ(said(watch), "second");
}

TEST_F(ConfigWatchTest, AHalfWrittenFileIsNobodysWish) {
  ConfigWatch watch(path(), "first");
  write("");
  EXPECT_EQ(said(watch, 1), "");
  append("sec");
  EXPECT_EQ(said(watch, 1), "");
  append("ond");
  EXPECT_EQ(said(watch, 1), "");
  EXPECT_EQ(said(watch, 1), "second");
}

TEST_F(ConfigWatchTest, TwoChangesWithinOneLookAreOne) {
  ConfigWatch watch(path(), "first");
  replace("second");
  replace("third");
  EXPECT_EQ(said(watch), "third");
}

TEST_F(ConfigWatchTest, AFileThatIsMovedAwayForAMomentIsMissedByNobody) {
  ConfigWatch watch(path(), "first");
  ASSERT_EQ(::rename(path().c_str(), (path() + ".bak").c_str()), 0);
  EXPECT_EQ(said(watch, 1), "");
  write("second");
  EXPECT_EQ(said(watch), "second");
}

TEST_F(ConfigWatchTest, OneThatStaysAwayIsSaidOnceAndSoIsItsReturn) {
  ConfigWatch watch(path(), "first");
  ASSERT_EQ(::rename(path().c_str(), (path() + ".bak").c_str()), 0);
  EXPECT_EQ(said(watch), "!");
  ASSERT_EQ(::rename((path() + ".bak").c_str(), path().c_str()), 0);
  EXPECT_EQ(said(watch), "first") << "in force all the time, and again what the file says";
  ASSERT_EQ(::unlink(path().c_str()), 0);
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(said(watch), "!") << "a pipe is not waited for";
}

TEST_F(ConfigWatchTest, AFolderOfLinksAsMountedConfigurationsAre) {
  for (const char* version : {"v1", "v2"}) {
    std::filesystem::create_directory(folder_ + "/" + version);
    std::ofstream(folder_ + "/" + version + "/agent.yaml") << version;
  }
  std::filesystem::create_symlink("v1", folder_ + "/data");
  ConfigWatch watch(folder_ + "/data/agent.yaml", "v1");
  EXPECT_EQ(said(watch), "");
  std::filesystem::create_symlink("v2", folder_ + "/next");
  ASSERT_EQ(::rename((folder_ + "/next").c_str(), (folder_ + "/data").c_str()), 0);
  EXPECT_EQ(said(watch), "v2");
}

TEST_F(ConfigWatchTest, WhoAsksGetsWhatIsThereNowAndTheLooksSayNoMoreOfIt) {
  ConfigWatch watch(path(), "first");
  EXPECT_EQ(*watch.readAgain(), "first") << "also what is in force";
  write("second");
  EXPECT_EQ(*watch.readAgain(), "second");
  EXPECT_EQ(said(watch), "");
  write("thi");
  EXPECT_EQ(*watch.readAgain(), "thi");
  append("rd");
  EXPECT_EQ(said(watch), "third") << "it was asked too soon";
  ASSERT_EQ(::unlink(path().c_str()), 0);
  const auto gone = watch.readAgain();
  ASSERT_FALSE(gone.ok());
  EXPECT_NE(gone.error().message.find(path()), std::string::npos) << gone.error().message;
}

// A terabyte, of which nothing is on the disk: whoever read it whole would not come back.
TEST_F(ConfigWatchTest, OneThatIsTooLargeIsRefusedOnceAndNotReadWhole) {
  ConfigWatch watch(path(), "first");
  std::filesystem::resize_file(path(), std::uintmax_t{1} << 40);
  EXPECT_EQ(said(watch), "!");
  const auto large = watch.readAgain();
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().message, path() + ": more than 16777216 bytes in one text");
  std::filesystem::resize_file(path(), (std::uintmax_t{16} << 20) + 1);
  EXPECT_EQ(said(watch), "") << "the same fault";
  std::filesystem::resize_file(path(), std::uintmax_t{16} << 20);
  const auto largest = watch.readAgain();
  ASSERT_TRUE(largest.ok()) << largest.error().message;
  EXPECT_EQ(largest->size(), std::size_t{16} << 20);
  write("first");
  EXPECT_EQ(said(watch), "first");
}

// The file is not at fault, and will not change.
TEST_F(ConfigWatchTest, OneThatCannotBeOpenedForAWhileIsReadOnceItCan) {
  ConfigWatch watch(path(), "first");
  write("second");
  {
    const testing::NoDescriptors none;
    EXPECT_EQ(said(watch, 8), "!") << "said once";
  }
  EXPECT_EQ(said(watch), "second");
}

TEST_F(ConfigWatchTest, OnlyRegularFilesCanBeReadAgain) {
  EXPECT_TRUE(ConfigWatch::canBeReadAgain(path()));
  EXPECT_FALSE(ConfigWatch::canBeReadAgain("-"));
  EXPECT_FALSE(ConfigWatch::canBeReadAgain(folder_));
  EXPECT_FALSE(ConfigWatch::canBeReadAgain(folder_ + "/nothing"));
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(ConfigWatch::canBeReadAgain(folder_ + "/pipe"));
}

}  // namespace
}  // namespace coterie::node_agent
