// What is given back, and what is kept for later because the kernel refuses it.
#include "linux/foreign_journal.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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

// A disk that was full, a crash of the machine, an editor: what is understood is given back, the rest is kept and counted.
TEST_F(ForeignJournalFile, OneThatIsNotWhollyUnderstoodIsKeptAside) {
  const std::string journal = folder_ + "/agent-found";
  const std::string cgroup = folder_ + "/docker/one";
  fs::create_directories(cgroup);
  std::ofstream(cgroup + "/cpuset.cpus") << "0";
  const std::string good = "cpuset-v1 0-1 " + cgroup + "\n";
  struct Row {
    std::string text;
    std::size_t found, unread;
  };
  const std::vector<Row> rows{{"garbage\n", 0, 1},
                              {good + "cpuset-v1 0-", 1, 1},
                              {good + std::string(40, '\0'), 1, 1},
                              {"cpuset-v3 0 /x\nthread 1\nthread 1 2 3 x\ncpuset-v1 - /x\nquota-v2 a\nquota-v1 1 2 3\n\n", 0, 6},
                              {good, 1, 0},
                              {"", 0, 0}};
  std::size_t kept = 0;
  for (const Row& row : rows) {
    std::ofstream(journal, std::ios::binary) << row.text;
    const Undone undone = undoJournal(journal);
    EXPECT_EQ(undone.found, row.found) << row.text;
    EXPECT_EQ(undone.unread, row.unread) << row.text;
    EXPECT_FALSE(fs::exists(journal)) << row.text;
    EXPECT_EQ(undone.aside.empty(), row.unread == 0) << row.text;
    if (undone.aside.empty()) continue;
    EXPECT_EQ(readText(undone.aside), row.text);
    ++kept;
  }
  EXPECT_EQ(static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {})), kept + 1) << "none in the place of another";
  EXPECT_EQ(readText(cgroup + "/cpuset.cpus"), "0-1");
}

// Somebody cleaned up the state folder under an agent: its journal could not be written any more, and nobody new was placed.
TEST_F(ForeignJournalFile, AFolderThatWasRemovedIsMadeAnew) {
  const std::string folder = folder_ + "/state/of/it";
  const std::string journal = folder + "/agent-found";
  const Originals originals{{}, {{folder_ + "/docker/one", false, CpuSet{0}}}, {}};
  ASSERT_TRUE(writeJournal(journal, originals).ok());
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  fs::remove_all(folder_ + "/state");
  ASSERT_TRUE(writeJournal(journal, originals).ok());
  EXPECT_EQ(readText(journal), originalsText(originals));
  fs::remove_all(folder_ + "/state");
  std::ofstream(folder_ + "/state") << "no folder";
  const Status refused = writeJournal(journal, originals);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find(journal), std::string::npos) << refused.error().message;
}

// What could not be given back then is in a file of its own again.
TEST_F(ForeignJournalFile, WhatIsLeftOfOneThatIsKeptAsideIsWrittenAnew) {
  const std::string journal = folder_ + "/agent-found";
  const std::string cgroup = folder_ + "/docker/one";
  fs::create_directories(cgroup + "/cpuset.cpus");  // what takes no write
  const std::string good = "cpuset-v1 0-1 " + cgroup + "\n";
  std::ofstream(journal) << "garbage\n" << good;
  const Undone undone = undoJournal(journal);
  EXPECT_EQ(readText(undone.aside), "garbage\n" + good);
  EXPECT_EQ(readText(journal), good);
}

}  // namespace
}  // namespace coterie::linux
