// What is given back, and what is kept for later because the kernel refuses it.
#include "linux/foreign_journal.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "linux/files.h"

namespace coterie::linux {
namespace {

namespace fs = std::filesystem;

class ForeignJournalFile : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { fs::remove_all(folder_); }

  std::string folder_{::testing::TempDir() + "coterie_journal_XXXXXX"};
};

// An agent was ended while somebody had narrowed the cgroup above: the original was refused, and the journal that knew it was deleted all the same.
TEST_F(ForeignJournalFile, WhatCannotBeGivenBackNowStaysInTheJournal) {
  const std::string journal = folder_ + "/agent-found";
  const std::string cgroup = folder_ + "/docker/one";
  const std::string file = cgroup + "/cpuset.cpus";
  fs::create_directories(file);  // what takes no write
  ASSERT_TRUE(writeJournal(journal, {{}, {{cgroup, false, CpuSet{0, 1}}, {folder_ + "/gone", false, CpuSet{1}}}, {}}).ok());
  const Undone refused = undoJournal(journal);
  EXPECT_EQ(refused.found, 2U);
  ASSERT_EQ(refused.left.cpusets.size(), 1U) << "who has gone is nobody's business";
  EXPECT_EQ(refused.left.cpusets.front().directory, cgroup);
  EXPECT_EQ(leftText(refused.left), file);
  EXPECT_TRUE(fs::exists(journal));
  fs::remove(file);
  std::ofstream(file) << "0";
  const Undone given = undoJournal(journal);
  EXPECT_TRUE(leftText(given.left).empty());
  EXPECT_EQ(readText(file), "0-1");
  EXPECT_FALSE(fs::exists(journal));
}

}  // namespace
}  // namespace coterie::linux
