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

}  // namespace coterie::linux
