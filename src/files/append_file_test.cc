// AppendFile: everything in order, or an end that is told.
#include "files/append_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <string>

namespace coterie::files {
namespace {

class AppendFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("append-file-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return folder_ / "record"; }
  [[nodiscard]] std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path()).rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
};

TEST_F(AppendFileTest, HoldsAllThatWasTakenInOrder) {
  std::string wanted;
  {
    auto file = AppendFile::create(path(), {});
    ASSERT_TRUE(file.ok());
    for (int i = 0; i < 50'000; ++i) {
      const std::string line = "line " + std::to_string(i) + "\n";
      wanted += line;
      (*file)->append(line);
    }
  }
  EXPECT_EQ(content(), wanted);
  struct stat info{};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(AppendFileTest, OneThatIsThereIsLeftAlone) {
  std::ofstream(path()) << "mine";
  const auto file = AppendFile::create(path(), {});
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().reason, "FileExists");
  EXPECT_EQ(content(), "mine");
  EXPECT_EQ(AppendFile::create(path() + "/deeper", {}).error().reason, "NotWritable");
}

TEST_F(AppendFileTest, AtItsLimitItEndsAndSaysSoOnce) {
  int ends = 0;
  {
    AppendFile::Options options;
    options.limit = Bytes(10);
    options.ended = [&](const std::string& why) {
      ++ends;
      EXPECT_NE(why.find("limit of 10 bytes"), std::string::npos) << why;
    };
    auto file = AppendFile::create(path(), options);
    ASSERT_TRUE(file.ok());
    for (const char* part : {"1234", "5678", "90ab", "c"}) (*file)->append(part);
  }
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(content(), "12345678") << "never half of what was handed over, nothing after a gap";
}

// The kernel refuses what would make the file larger than a process may write: as a full disk does, with another number.
TEST_F(AppendFileTest, ADiskThatTakesNoMoreIsSaid) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_IGN);
  std::promise<std::string> said;
  AppendFile::Options options;
  options.ended = [&](const std::string& why) { said.set_value(why); };
  {
    auto file = AppendFile::create(path(), options);
    ASSERT_TRUE(file.ok());
    const rlimit little{4096, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &little);
    (*file)->append(std::string(100'000, 'x'));
    EXPECT_NE(said.get_future().get().find("cannot be written"), std::string::npos);
    ::setrlimit(RLIMIT_FSIZE, &before);
    (*file)->append("more");
  }
  EXPECT_LE(content().size(), 4096U);
}

}  // namespace
}  // namespace coterie::files
