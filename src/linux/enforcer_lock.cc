#include "linux/enforcer_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <utility>

#include "linux/cgroup_paths.h"
#include "linux/files.h"

namespace coterie::linux {

namespace {

template <class Number>
std::optional<Number> numberIn(std::string_view text, int base) {
  Number value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return fault == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// "00:1c:5": the device's major and minor in hexadecimal, the inode.
bool isInode(std::string_view text, std::uint64_t device, std::uint64_t inode) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) return false;
  constexpr int kHexadecimal = 16, kDecimal = 10;
  return numberIn<unsigned>(text.substr(0, first), kHexadecimal) == major(device) &&
         numberIn<unsigned>(text.substr(first + 1, second - first - 1), kHexadecimal) == minor(device) &&
         numberIn<std::uint64_t>(text.substr(second + 1), kDecimal) == inode;
}

// The effective one. The owner of /proc/PID is root for who may not be dumped, whoever that is.
std::optional<uid_t> userOf(int pid) {
  std::istringstream lines(readText("/proc/" + std::to_string(pid) + "/status").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    uid_t real = 0, effective = 0;
    if (words >> key && key == "Uid:" && words >> real >> effective) return effective;
  }
  return std::nullopt;
}

}  // namespace

std::vector<int> lockHolders(std::string_view procLocks, std::uint64_t device, std::uint64_t inode) {
  std::vector<int> holders;
  std::istringstream lines{std::string(procLocks)};
  for (std::string line; std::getline(lines, line);) {  // "1: FLOCK  ADVISORY  READ 812 00:1c:1 0 EOF"; one that waits has "->" after the number
    std::istringstream words(line);
    std::string number, kind, manner, access, where;
    int pid = 0;
    if (words >> number >> kind >> manner >> access >> pid >> where && kind == "FLOCK" && pid > 0 && isInode(where, device, inode))
      holders.push_back(pid);
  }
  std::sort(holders.begin(), holders.end());
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
  return holders;
}

Result<UniqueFd> lockEnforcing(std::string directory) {
  if (directory.empty()) directory = cpusetRoot(readText("/proc/self/mountinfo").value_or(""));
  if (directory.empty()) return UniqueFd();
  UniqueFd lock = openFor(directory, O_RDONLY | O_DIRECTORY);
  struct stat status{};
  if (!lock || ::fstat(lock.get(), &status) != 0) return UniqueFd();
  static_cast<void>(::flock(lock.get(), LOCK_SH | LOCK_NB));  // refused: somebody has it alone, who then is in the list, or nobody to mind
  for (const int pid : lockHolders(readText("/proc/locks").value_or(""), status.st_dev, status.st_ino)) {
    if (pid == ::getpid()) continue;
    const auto user = userOf(pid);
    if (!user || !usersCollide(*user, ::geteuid())) continue;
    return Error{Code::Unavailable, "AgentRunning",
                 "another agent enforces on this machine: process " + std::to_string(pid) + " of user " + std::to_string(*user) +
                     "; end that one first (kill " + std::to_string(pid) +
                     "), add your groups to its configuration, or run this one with --mode observe"};
  }
  return Result<UniqueFd>(std::move(lock));
}

}  // namespace coterie::linux
