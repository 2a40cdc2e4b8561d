#include "base/cpu_clock.h"

namespace coterie {

namespace {

std::optional<Nanos> read(clockid_t clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return std::nullopt;
  return Seconds(time.tv_sec) + Nanos(time.tv_nsec);
}

}  // namespace

CpuClock::CpuClock(int pid) {
  clockid_t clock{};
  if (pid > 0 && ::clock_getcpuclockid(pid, &clock) == 0) clock_ = clock;
}

std::optional<Nanos> CpuClock::used() const { return clock_ ? read(*clock_) : std::nullopt; }

Nanos ownCpuTime() { return read(CLOCK_PROCESS_CPUTIME_ID).value_or(Nanos{}); }

}  // namespace coterie
