// Hints on a real file system and a real process.
#include "node_agent/hint_sender.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "linux/files.h"

namespace coterie::node_agent {
namespace {

foreign::FoundContainer process(int pid) { return {std::to_string(pid) + "@1", 0, {}, {{pid, 1, 1, "server", "/"}}}; }

class HintSenderTest : public ::testing::Test {
 protected:
  HintSenderTest() { folder_ = ::mkdtemp(folder_.data()); }
  ~HintSenderTest() override { std::filesystem::remove_all(folder_); }
  std::string folder_{::testing::TempDir() + "coterie_hint_XXXXXX"};
};

TEST(HintPath, Placeholders) {
  foreign::FoundContainer container = process(812);
  EXPECT_EQ(filledIn("/run/{container}.json", container), "/run/812.json");
  container.name.id = "3f2a9c0d1e4b5a69788796a5b4c3d2e1";
  EXPECT_EQ(filledIn("/run/{container}/{pid}/{container}", container), "/run/3f2a9c0d1e4b/812/3f2a9c0d1e4b");
}

TEST_F(HintSenderTest, TheFileIsReplacedAsAWholeAndWithdrawn) {
  const HintSpec spec{folder_ + "/made/{pid}.json", ""};
  const std::string path = folder_ + "/made/7.json";
  ASSERT_TRUE(sendHint(spec, process(7), {2, CpuSet{0, 1}}).ok());
  EXPECT_EQ(linux::readText(path), "{\"threads\":2,\"cpus\":\"0-1\"}\n");
  struct stat first{};
  ASSERT_EQ(::stat(path.c_str(), &first), 0);
  EXPECT_EQ(first.st_mode & 0777U, 0644U) << "the server is another user";
  ASSERT_TRUE(sendHint(spec, process(7), {1, CpuSet{1}}).ok());
  EXPECT_EQ(linux::readText(path), "{\"threads\":1,\"cpus\":\"1\"}\n");
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  ASSERT_TRUE(sendHint(spec, process(7), {}).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(sendHint(spec, process(7), {}).ok()) << "withdrawn already";
}

TEST_F(HintSenderTest, NoLinkIsFollowed) {
  const std::string path = folder_ + "/7.json";
  const std::string victim = folder_ + "/victim";
  ASSERT_EQ(linux::writeText(victim, ""), ENOENT);
  ASSERT_EQ(::symlink(victim.c_str(), (path + ".new").c_str()), 0);
  ASSERT_TRUE(sendHint({folder_ + "/{pid}.json", ""}, process(7), {1, CpuSet{0}}).ok());
  EXPECT_FALSE(std::filesystem::exists(victim));
}

TEST_F(HintSenderTest, WhereItCannotBeWrittenItIsSaid) {
  const Status sent = sendHint({"/proc/no/{pid}", ""}, process(7), {1, CpuSet{0}});
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().reason, "HintUnwritable");
}

// A server without a handler would be ended by the signal.
TEST_F(HintSenderTest, ASignalIsSentOnlyToWhoHandlesIt) {
  int ready[2]{};
  int heard[2]{};
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(heard), 0);
  static int answer = -1;
  answer = heard[1];
  const auto child = [&](bool handles) {
    const int pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (handles)
      ::signal(SIGUSR1, [](int) {
        if (::write(answer, "h", 1) != 1) ::_exit(1);
      });
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  };
  const HintSpec spec{folder_ + "/{pid}", "SIGUSR1"};
  char byte = 0;
  const int deaf = child(false);
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const Status refused = sendHint(spec, process(deaf), {1, CpuSet{0}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, "SignalUnhandled");
  EXPECT_EQ(::waitpid(deaf, nullptr, WNOHANG), 0) << "it lives";
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + std::to_string(deaf))) << "the file stands";
  const int listener = child(true);
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(sendHint(spec, process(listener), {1, CpuSet{0}}).ok());
  EXPECT_EQ(::read(heard[0], &byte, 1), 1);
  for (const int pid : {deaf, listener}) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  for (const int fd : {ready[0], ready[1], heard[0], heard[1]}) ::close(fd);
}

}  // namespace
}  // namespace coterie::node_agent
