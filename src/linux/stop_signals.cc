#include "linux/stop_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace coterie::linux {

StopSignals::StopSignals(EventLoop& loop, std::function<void()> stop) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  struct sigaction hangUp{};
  if (::sigaction(SIGHUP, nullptr, &hangUp) == 0 && hangUp.sa_handler != SIG_IGN) ::sigaddset(&set, SIGHUP);  // under nohup it stays without effect
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  watch_ = loop.whenReadable(signals_.get(), [fd = signals_.get(), stop = std::move(stop)] {
    signalfd_siginfo info{};
    while (::read(fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) stop();
  });
}

}  // namespace coterie::linux
