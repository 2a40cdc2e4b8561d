#include "files/disk_log_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "ports/log_folder_contract.h"
#include "testing/fake_log_folder.h"

namespace coterie::contract {
namespace {

namespace fs = std::filesystem;

LogFolderHarness disk() {
  std::string pattern = (fs::temp_directory_path() / "coterie-log-XXXXXX").string();
  const std::string root = ::mkdtemp(pattern.data());
  const std::shared_ptr<void> keep(nullptr, [root](void*) { fs::remove_all(root); });
  auto opened = files::DiskLogFolder::open(root + "/log");
  EXPECT_TRUE(opened.ok());
  return {std::move(*opened), keep};
}
LogFolderHarness fake() { return {std::make_unique<testing::FakeLogFolder>(), nullptr}; }

INSTANTIATE_TEST_SUITE_P(Folders, LogFolderContract, ::testing::Values(LogFolderUnderTest{"disk", disk}, LogFolderUnderTest{"fake", fake}),
                         logFolderName);

}  // namespace
}  // namespace coterie::contract

namespace coterie::files {
namespace {

namespace fs = std::filesystem;

class DiskLog : public ::testing::Test {
 protected:
  DiskLog() {
    std::string pattern = (fs::temp_directory_path() / "coterie-log-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~DiskLog() override { fs::remove_all(root_); }
  std::unique_ptr<DiskLogFolder> open() {
    auto opened = DiskLogFolder::open(root_ / "log");
    EXPECT_TRUE(opened.ok());
    return opened.ok() ? std::move(*opened) : nullptr;
  }
  fs::path root_;
};

TEST_F(DiskLog, NobodyElseReadsIt) {
  const auto folder = open();
  ASSERT_TRUE(folder->create("a").ok());
  EXPECT_EQ(fs::status(root_ / "log").permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(root_ / "log/a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::permissions(root_ / "log", fs::perms::owner_all | fs::perms::others_read);
  const auto again = DiskLogFolder::open(root_ / "log");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().reason, "InsecurePermissions");
}

TEST_F(DiskLog, LinksAreNotFollowed) {
  const auto folder = open();
  std::ofstream(root_ / "other") << "another's\n";
  fs::create_symlink(root_ / "other", root_ / "log/a");
  EXPECT_FALSE(folder->append("a", "x", Durable::Yes).ok());
  EXPECT_FALSE(folder->read("a", 0, 10).ok());
  EXPECT_TRUE(folder->list()->empty());
  EXPECT_EQ(fs::file_size(root_ / "other"), 10U);
  fs::create_symlink(root_ / "log", root_ / "link");
  EXPECT_FALSE(DiskLogFolder::open(root_ / "link").ok());
}

// Written to a file without a name it would be as good as lost.
TEST_F(DiskLog, AFileThatSomebodyRemovedIsNotWrittenOn) {
  const auto folder = open();
  ASSERT_TRUE(folder->create("a").ok());
  ASSERT_TRUE(folder->append("a", "one\n", Durable::Yes).ok());
  fs::remove(root_ / "log/a");
  EXPECT_EQ(folder->append("a", "two\n", Durable::Yes).error().reason, "NoSuchFile");
}

TEST_F(DiskLog, AFullDiskIsSaidInWordsThatHelp) {
  const auto folder = open();
  ASSERT_TRUE(folder->create("a").ok());
  // More than this process may write to a file, which the kernel answers as a full disk does.
  ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  struct rlimit small = before;
  small.rlim_cur = 4;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Status refused = folder->append("a", "0123456789", Durable::Yes);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, "NoRoom");
  EXPECT_NE(refused.error().message.find("free some space"), std::string::npos);
  EXPECT_EQ(folder->list()->front().size, 4U) << "half of it is there";
  ASSERT_TRUE(folder->cut("a", 0).ok());
  EXPECT_TRUE(folder->append("a", "0123456789", Durable::Yes).ok());
}

}  // namespace
}  // namespace coterie::files
