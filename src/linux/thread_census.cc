#include "linux/thread_census.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "linux/cgroup_tree.h"
#include "linux/files.h"
#include "linux/process_threads.h"

namespace coterie::linux {

namespace {
constexpr int kLooksBySigns = 15;

// Evenly spread also over processes whose ids are a constant apart.
int phaseOf(int pid) { return static_cast<int>((static_cast<std::uint32_t>(pid) * 2654435761U >> 16U) % kLooksBySigns); }
}  // namespace

ThreadCensus::ThreadCensus(int pid)
    : pid_(pid), ahead_(phaseOf(pid)), tasks_(openFor("/proc/" + std::to_string(pid) + "/task", O_RDONLY | O_DIRECTORY)) {}

ThreadCensus::Placing ThreadCensus::look(const Leaves& leaves) { return lookBySigns(leaves) ? Placing::Complete : readLists(leaves); }

bool ThreadCensus::lookBySigns(const Leaves& leaves) {
  if (looks_ >= kLooksBySigns || !signsHold(leaves)) return false;
  ++looks_;
  return true;
}

// None once the process has been waited for.
std::optional<std::size_t> ThreadCensus::threadCount() const {
  struct stat info{};
  constexpr nlink_t kOfADirectory = 2;
  if (!tasks_ || ::fstat(tasks_.get(), &info) != 0 || info.st_nlink <= kOfADirectory) return std::nullopt;
  return static_cast<std::size_t>(info.st_nlink - kOfADirectory);
}

bool ThreadCensus::signsHold(const Leaves& leaves) const {
  const std::size_t known = home_.size() + loans_.size();
  // A process of one thread that has ended, and was not waited for, still has one. One CPU each says nothing of the set that holds them.
  if (known < 2 || home_.size() <= leaves.single.size() || threadCount() != known) return false;
  const auto keepsTo = [&](const std::vector<int>& threads, const CpuSet& cpus) {
    const std::string mask = affinityMask(cpus);
    return std::all_of(threads.begin(), threads.end(), [&](int tid) {
      const auto single = leaves.single.find(tid);
      return hasMask(tid, single == leaves.single.end() ? mask : affinityMask(CpuSet{single->second}));
    });
  };
  return keepsTo(home_, leaves.home) && keepsTo(loans_, leaves.loans);
}

// All threads are in the two leaves, the first one in the home: none was born elsewhere or moved away by somebody.
ThreadCensus::Placing ThreadCensus::readLists(const Leaves& leaves) {
  home_.clear();
  loans_.clear();
  looks_ = 0;
  if (processGone(pid_)) return Placing::Gone;
  std::vector<int> home = idsIn(readText(leaves.homeThreads));
  if (std::find(home.begin(), home.end(), pid_) == home.end()) return Placing::Floats;
  std::vector<int> loans = idsIn(readText(leaves.loanThreads));
  std::vector<int> placed = home;
  placed.insert(placed.end(), loans.begin(), loans.end());
  std::sort(placed.begin(), placed.end());
  const std::vector<int> present = threadsOf(pid_);
  if (!std::includes(placed.begin(), placed.end(), present.begin(), present.end())) return Placing::Partial;
  home_ = std::move(home);
  loans_ = std::move(loans);
  looks_ = std::exchange(ahead_, 0);
  return Placing::Complete;
}

}  // namespace coterie::linux
