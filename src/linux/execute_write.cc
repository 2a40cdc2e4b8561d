#include "linux/execute_write.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "linux/files.h"

namespace coterie::linux {
namespace {

int fileWrite(const PreparedWrite& write) noexcept {
  ssize_t written = 0;
  do {
    written = ::pwrite(write.target, write.payload.data(), write.payload.size(), 0);
  } while (written < 0 && errno == EINTR);
  return written < 0 ? errno : 0;
}

int applyMask(const PreparedWrite& write) noexcept {
  // The kernel reads payload.size() bytes of mask; glibc's prototype wants its own fixed-size type.
  const void* mask = write.payload.data();
  return ::sched_setaffinity(write.target, write.payload.size(), static_cast<const cpu_set_t*>(mask)) != 0 ? errno : 0;
}

}  // namespace

PreparedWrite affinityWrite(int threadId, const CpuSet& cpus) {
  return {PreparedWrite::Kind::Affinity, threadId, affinityMask(cpus), nullptr, nullptr};
}

int executeWrite(const PreparedWrite& write) noexcept {
  int error = 0;
  switch (write.kind) {
    case PreparedWrite::Kind::File: error = fileWrite(write); break;
    case PreparedWrite::Kind::Affinity: error = applyMask(write); break;
    case PreparedWrite::Kind::Call: return write.call(write.context, write);
  }
  return error == ESRCH || error == ENODEV ? 0 : error;
}

int executeChange(const PreparedChange& change) noexcept {
  for (const PreparedWrite& write : change.writes) {
    if (const int error = executeWrite(write); error != 0) return error;
  }
  return 0;
}

}  // namespace coterie::linux
