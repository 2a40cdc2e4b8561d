#include "linux/enforcer_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
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

// The program's own name as the kernel keeps it, which everybody may read; "" if it has gone.
std::string nameOf(int pid) {
  std::string name = readText("/proc/" + std::to_string(pid) + "/comm").value_or("");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

bool isAgent(int pid) {
  struct stat own{}, theirs{};
  if (::stat("/proc/self/exe", &own) == 0 && ::stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &theirs) == 0 && own.st_dev == theirs.st_dev &&
      own.st_ino == theirs.st_ino)
    return true;
  const std::string name = nameOf(pid);
  return !name.empty() && (name == "coterie" || name == nameOf(::getpid()));
}

struct Rival {
  int pid{0};
  uid_t user{0};
  bool enforces{false};
};

constexpr std::size_t kLocksOfOneThatEnforces = 3;

std::string lockedDirectory() { return cpusetRoot(readText("/proc/self/mountinfo").value_or("")); }

// One that enforces, else the one of the lowest pid.
std::optional<Rival> rivalOn(std::uint64_t device, std::uint64_t inode) {
  const std::vector<int> holders = lockHolders(readText("/proc/locks").value_or(""), device, inode);
  std::optional<Rival> first;
  for (std::size_t at = 0, next = 0; at < holders.size(); at = next) {
    while (next < holders.size() && holders[next] == holders[at]) ++next;
    const int pid = holders[at];
    const bool enforces = next - at >= kLocksOfOneThatEnforces;
    if (pid == ::getpid() || (first && !enforces)) continue;
    const auto user = userOf(pid);
    if (!user || !usersCollide(*user, ::geteuid()) || !isAgent(pid)) continue;
    first = Rival{pid, *user, enforces};
    if (enforces) break;
  }
  return first;
}

// How long until the next look. Who has let go waits several looks of the one that keeps its lock, which so finds it gone; and not as long as the
// next.
Millis pause(bool keeps) {
  constexpr Millis kKeeps{4}, kLetGo{20};
  constexpr int kApart = 16;
  return keeps ? kKeeps : kLetGo + Millis(::getpid() % kApart);
}

Error refusal(const Rival& rival) {
  const std::string pid = std::to_string(rival.pid);
  return {Code::Unavailable, "AgentRunning",
          "another agent enforces on this machine: process " + pid + " of user " + std::to_string(rival.user) + "; end that one first (kill " + pid +
              "), add your groups to its configuration, or run this one with --mode observe"};
}

// Without one nobody's lock would be seen, and a machine with agents look like one without.
bool hasDescriptors() { return openFor("/", O_RDONLY | O_DIRECTORY).valid(); }

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
  return holders;
}

std::optional<std::vector<int>> enforcers(std::string directory) {
  if (directory.empty()) directory = lockedDirectory();
  struct stat status{};
  const auto locks = readText("/proc/locks");
  if (directory.empty() || !locks || ::stat(directory.c_str(), &status) != 0) return std::nullopt;
  const std::vector<int> holders = lockHolders(*locks, status.st_dev, status.st_ino);
  std::vector<int> found;
  for (std::size_t at = 0, next = 0; at < holders.size(); at = next) {
    while (next < holders.size() && holders[next] == holders[at]) ++next;
    if (next - at >= kLocksOfOneThatEnforces) found.push_back(holders[at]);
  }
  return found;
}

EnforcerClaim::EnforcerClaim(std::string directory) : blind_(!hasDescriptors()) {
  if (directory.empty()) directory = lockedDirectory();
  if (directory.empty()) return;
  UniqueFd would = openFor(directory, O_RDONLY | O_DIRECTORY);
  std::array<UniqueFd, 2> does{openFor(directory, O_RDONLY | O_DIRECTORY), openFor(directory, O_RDONLY | O_DIRECTORY)};
  struct stat status{};
  blind_ = blind_ || !hasDescriptors();  // those may have been the last
  if (!would || !does[0] || !does[1] || ::fstat(would.get(), &status) != 0) return;
  would_ = std::move(would);
  does_ = std::move(does);
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

Result<std::optional<Millis>> EnforcerClaim::look(Instant now) {
  if (decided_) return {std::nullopt};
  if (blind_ || !hasDescriptors()) {
    if (would_) static_cast<void>(::flock(would_.get(), LOCK_UN));
    until_.reset();
    return Error{
        Code::Unavailable, "LocksUnreadable",
        "whether another agent enforces on this machine cannot be seen, since this process has no file descriptor left; raise its limit of open "
        "files (ulimit -n)"};
  }
  if (!would_) return {std::nullopt};
  if (!until_) until_ = now + kEnforcerPatience;
  static_cast<void>(::flock(would_.get(), LOCK_SH | LOCK_NB));  // refused: somebody who is no agent has it alone
  auto rival = rivalOn(device_, inode_);
  // Once more: the kernel lists by the page and by position, so a lock that goes meanwhile can hide another.
  if (!rival) rival = rivalOn(device_, inode_);
  if (!rival) {
    for (const UniqueFd& does : does_) static_cast<void>(::flock(does.get(), LOCK_SH | LOCK_NB));
    decided_ = true;
    return {std::nullopt};
  }
  const bool refused = rival->enforces || now >= *until_;
  const bool keeps = !refused && ::getpid() < rival->pid;
  if (!keeps) static_cast<void>(::flock(would_.get(), LOCK_UN));
  if (!refused) return {pause(keeps)};
  until_.reset();
  return refusal(*rival);
}

Result<EnforcerClaim> lockEnforcing(std::string directory) {
  EnforcerClaim claim(std::move(directory));
  for (;;) {
    const auto later = claim.look(Instant(std::chrono::duration_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch())));
    if (!later) return later.error();
    if (!*later) return {std::move(claim)};
    std::this_thread::sleep_for(**later);
  }
}

}  // namespace coterie::linux
