#include "testing/foreign_load.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace coterie::testing {

namespace {

double monotonicSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// User, nice, system, irq and softirq time of all CPUs, in ticks.
double machineTicks() {
  std::ifstream file("/proc/stat");
  std::string word;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0;
  file >> word >> user >> nice >> system >> idle >> wait >> irq >> softirq;
  return user + nice + system + irq + softirq;
}

// Fields 14 and 15 of its stat.
double processTicks(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return user + system;
}

}  // namespace

ForeignLoad::ForeignLoad(std::vector<int> ownProcesses) : own_(std::move(ownProcesses)), began_(monotonicSeconds()) {
  own_.push_back(::getpid());
  foreign_ = foreignSeconds();
}

double ForeignLoad::cpus() const {
  const double passed = monotonicSeconds() - began_;
  return passed > 0 ? std::max(0.0, (foreignSeconds() - foreign_) / passed) : 0;
}

double ForeignLoad::foreignSeconds() const {
  double ticks = machineTicks();
  for (const int pid : own_) ticks -= processTicks(pid);
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace coterie::testing
