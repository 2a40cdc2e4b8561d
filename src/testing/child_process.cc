#include "testing/child_process.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <thread>

namespace coterie::testing {

namespace {

constexpr char kThread = 't', kSpin = 's', kTouch = 'm';

struct Command {
  std::int64_t argument{0};
  char what{0};
};

[[noreturn]] void fail() { std::abort(); }

// In the child. What its threads are to do is shared by all of them, and lives as long as the process.
class ChildSide {
 public:
  explicit ChildSide(int socket) : socket_(socket) {}

  [[noreturn]] void run() {
    Command command;
    while (::recv(socket_, &command, sizeof command, 0) == sizeof command) obey(command);
    ::_exit(0);
  }

 private:
  void obey(const Command& command) {
    switch (command.what) {
      case kThread: std::thread([this] { threadMain(); }).detach(); return;  // it answers itself
      case kSpin:
        spinning_.store(command.argument != 0 ? 1 : 0);
        spinning_.notify_all();
        return answer(0);
      default: return answer(touch(static_cast<std::size_t>(command.argument)));
    }
  }
  void threadMain() {
    answer(::gettid());
    for (;;) {
      if (spinning_.load(std::memory_order_relaxed) == 0) spinning_.wait(0);
    }
  }
  static std::int64_t touch(std::size_t size) {
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 0;
    ::madvise(memory, size, MADV_NOHUGEPAGE);
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    auto* bytes = static_cast<volatile char*>(memory);
    for (std::size_t at = 0; at < size; at += page) bytes[at] = 1;
    return reinterpret_cast<std::int64_t>(memory);
  }
  void answer(std::int64_t value) const {
    if (::send(socket_, &value, sizeof value, MSG_NOSIGNAL) != sizeof value) ::_exit(1);
  }

  int socket_;
  std::atomic<int> spinning_{0};
};

[[noreturn]] void childMain(int socket) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  constexpr int kKept = 3;
  if (socket != kKept) ::dup2(socket, kKept);
  ::close_range(kKept + 1, ~0U, 0);
  ChildSide(kKept).run();
}

}  // namespace

ChildProcess::ChildProcess(int threads) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) fail();
  pid_ = ::fork();
  if (pid_ < 0) fail();
  if (pid_ == 0) childMain(ends[1]);
  ::close(ends[1]);
  socket_ = ends[0];
  for (int i = 0; i < threads; ++i) tids_.push_back(addThread());
}

int ChildProcess::addThread() { return static_cast<int>(ask(kThread)); }
void ChildProcess::spin(bool on) { static_cast<void>(ask(kSpin, on ? 1 : 0)); }

std::uint64_t ChildProcess::touch(Bytes size) {
  const auto address = static_cast<std::uint64_t>(ask(kTouch, size.value));
  if (address == 0) fail();
  return address;
}

std::int64_t ChildProcess::ask(char what, std::int64_t argument) {
  const Command command{argument, what};
  std::int64_t answer = 0;
  if (::send(socket_, &command, sizeof command, MSG_NOSIGNAL) != sizeof command) fail();
  ssize_t got = 0;
  do {
    got = ::recv(socket_, &answer, sizeof answer, 0);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof answer) fail();
  return answer;
}

void ChildProcess::end() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(socket_);
  pid_ = -1;
}

}  // namespace coterie::testing
