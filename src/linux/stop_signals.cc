#include "linux/stop_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <utility>

namespace coterie::linux {

void holdHangUps() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

StopSignals::StopSignals(EventLoop& loop, std::function<void()> stop, std::function<void()> hangUp) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  struct sigaction disposition{};
  const bool ends = ::sigaction(SIGHUP, nullptr, &disposition) == 0 && disposition.sa_handler != SIG_IGN;  // not under nohup
  if (ends || hangUp) ::sigaddset(&set, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  watch_ = loop.whenReadable(signals_.get(), [fd = signals_.get(), ends, stop = std::move(stop), hangUp = std::move(hangUp)] {
    signalfd_siginfo info{};
    while (::read(fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const bool hungUp = info.ssi_signo == static_cast<std::uint32_t>(SIGHUP);
      if (hungUp && hangUp && info.ssi_code != SI_KERNEL) {
        hangUp();
      } else if (!hungUp || ends) {
        stop();
      }
    }
  });
}

}  // namespace coterie::linux
