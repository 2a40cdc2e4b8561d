#include "linux/process_handle.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace coterie::linux {

UniqueFd openProcess(int pid) { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

bool hasEnded(const UniqueFd& process) {
  pollfd look{process.get(), POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;
}

std::vector<bool> haveEnded(const std::vector<int>& processes) {
  std::vector<pollfd> looks;
  looks.reserve(processes.size());
  for (const int process : processes) looks.push_back({process, POLLIN, 0});
  const bool said = looks.empty() || ::poll(looks.data(), looks.size(), 0) >= 0;
  std::vector<bool> ended;
  ended.reserve(looks.size());
  for (const pollfd& look : looks) ended.push_back(!said || look.fd < 0 || look.revents != 0);
  return ended;
}

}  // namespace coterie::linux
