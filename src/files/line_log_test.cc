// LineLog: whole lines in order, a loop that never waits, and a disk that is full, slow or gone.
#include "files/line_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <vector>

namespace coterie::files {
namespace {

std::string contentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class LineLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("line-log-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return folder_ / "access.log"; }
  std::unique_ptr<LineLog> make(LineLog::Options options = {}) {
    options.said = [this](const std::string& what) {
      const std::lock_guard lock(mutex_);
      said_.push_back(what);
    };
    auto made = LineLog::create(path(), std::move(options));
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(LineLogTest, LinesAreThereInOrderAndAppended) {
  std::ofstream(path()) << "before\n";
  {
    const auto log = make();
    log->append("one");
    log->append("two");
    log->flush();
    EXPECT_EQ(contentOf(path()), "before\none\ntwo\n");
    log->append("three");
  }
  EXPECT_EQ(contentOf(path()), "before\none\ntwo\nthree\n");
  EXPECT_TRUE(said().empty());
}

TEST_F(LineLogTest, AFileThatWasMovedAwayIsMadeAnew) {
  const auto log = make();
  log->append("one");
  log->flush();
  std::filesystem::rename(path(), path() + ".1");
  log->append("two");
  log->flush();
  EXPECT_EQ(contentOf(path() + ".1"), "one\n");
  EXPECT_EQ(contentOf(path()), "two\n");
  EXPECT_EQ(std::filesystem::status(path()).permissions(), std::filesystem::perms(0600));
  std::filesystem::remove(path());
  log->append("three");
  log->flush();
  EXPECT_EQ(contentOf(path()), "three\n");
  EXPECT_EQ(log->dropped(), 0);
}

// The disk takes `room` bytes, then is full until it gets more.
struct SmallDisk {
  std::atomic<std::int64_t> room{0};
  ssize_t operator()(int file, std::string_view bytes) {
    const auto most = std::min<std::int64_t>(room, static_cast<std::int64_t>(bytes.size()));
    if (most == 0) {
      errno = ENOSPC;
      return -1;
    }
    room -= most;
    return ::write(file, bytes.data(), static_cast<std::size_t>(most));
  }
};

TEST_F(LineLogTest, AFullDiskDropsWholeLinesSaysSoOnceAndGoesOnWhereItStopped) {
  SmallDisk disk;
  disk.room = 6;
  LineLog::Options options;
  options.buffer = Bytes(12);
  options.write = [&](int file, std::string_view bytes) { return disk(file, bytes); };
  const auto log = make(std::move(options));
  log->append("aaa");
  log->append("bbb");
  log->flush();  // "aaa\nbb" is there, "b\n" is not
  EXPECT_EQ(contentOf(path()), "aaa\nbb");
  log->append("ccc");
  log->append("ddd");
  for (int i = 0; i < 3; ++i) {
    log->append("lost" + std::to_string(i));
    log->flush();
  }
  EXPECT_EQ(log->dropped(), 3);
  ASSERT_EQ(said().size(), 1U);
  EXPECT_TRUE(said()[0].find("No space left on device; lines are dropped") != std::string::npos) << said()[0];
  disk.room = 1000;
  log->flush();
  EXPECT_EQ(contentOf(path()), "aaa\nbbb\nccc\nddd\n");
  log->append("eee");
  log->flush();
  EXPECT_EQ(contentOf(path()), "aaa\nbbb\nccc\nddd\neee\n");
  ASSERT_EQ(said().size(), 2U);
  EXPECT_TRUE(said()[1].find("is written again; 3 lines were dropped") != std::string::npos) << said()[1];
}

TEST_F(LineLogTest, ALineThatTheMovedFileHasHalfOfIsNotContinuedInTheNew) {
  SmallDisk disk;
  disk.room = 6;
  LineLog::Options options;
  options.write = [&](int file, std::string_view bytes) { return disk(file, bytes); };
  const auto log = make(std::move(options));
  log->append("aaa");
  log->append("bbb");
  log->append("ccc");
  log->flush();
  std::filesystem::rename(path(), path() + ".1");
  disk.room = 1000;
  log->flush();
  EXPECT_EQ(contentOf(path()), "ccc\n");
  EXPECT_EQ(log->dropped(), 1);
}

// The disk holds the writing thread until it is let go; who appends goes on, and loses what is beyond the buffer.
TEST_F(LineLogTest, ASlowDiskHoldsNobodyUp) {
  std::promise<void> arrived;
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  std::atomic<bool> first{true};
  LineLog::Options options;
  options.buffer = Bytes(100);
  options.write = [&](int file, std::string_view bytes) {
    if (first.exchange(false)) arrived.set_value();
    gone.wait();
    return ::write(file, bytes.data(), bytes.size());
  };
  const auto log = make(std::move(options));
  log->append("aaaa");
  arrived.get_future().wait();
  for (int i = 0; i < 1000; ++i) log->append("bbbb");  // would never end if it waited
  EXPECT_EQ(log->dropped(), 981);                      // 19 more lines of 5 bytes fit beside the one under way
  go.set_value();
  log->flush();
  log->flush();
  const std::string text = contentOf(path());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 20);
  ASSERT_FALSE(said().empty());
  EXPECT_TRUE(said()[0].find("is not written as fast as it grows") != std::string::npos) << said()[0];
}

TEST_F(LineLogTest, WhatCannotBeOpenedIsSaidAtTheStart) {
  const auto made = LineLog::create(folder_ / "none" / "access.log", {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().reason, "NotWritable");
}

}  // namespace
}  // namespace coterie::files
