// One enforcing agent per machine: whoever gives CPU sets to other people's processes says so where every other such agent looks.
//
// A shared flock(2) on the root directory of the cgroup hierarchy that has cpusets, and then a look into /proc/locks at who else has one. Why there:
// two agents disturb each other exactly if they reach the same cgroups, and then they reach this directory: the lock is the inode's, the same through
// whichever mount, mount namespace, network namespace or state folder, needs no right to write, and ends with the process, however that ends. (An
// abstract socket is one per network namespace, which pods have of their own; a file needs a folder that all users and containers share.) Why shared:
// an exclusive one would let any user keep any other from enforcing. So the kernel refuses nobody, and it is decided here: root's agent stands beside
// no other, since it may reach everybody's processes; two of different ordinary users are no matter, since neither can touch the other's.
//
// Of those that begin at the same moment one wins: who enforces holds the lock three times, who is about to holds it once, so that they can be told
// apart, also where the kernel's list shows a lock twice (it is read by the page and by position: one that comes meanwhile shifts the rest).
// Beside one that enforces a newcomer is refused at once, however old it is. Of those about to, who sees a lower pid lets go, waits and tries again;
// the lowest keeps its lock and looks until the others have let go. Who still sees another after kEnforcerPatience (a stopped one, say) is refused: a
// machine on which they do not get to run for that long may refuse all. Never do two win, however long one of them is between its steps: each takes
// its lock before it looks, and who has won keeps it, so of two the later to take it sees the other's. When the steps are made decides only who waits
// how long; so one may make them on an event loop (a claim's look(), when its answer says) while another sleeps in between (lockEnforcing).
//
// Only agents count: the program that runs here (device and inode of /proc/PID/exe), or a process named "coterie" or as this one is: another build,
// or another user's, whose program only root may look at. What cannot be told: whether somebody else named a program so, or runs this one with the
// lock handed down, to be in the way; and an agent of another user under another name than both is not known for one. Who locks the directory alone
// (flock -x) keeps agents from being seen by those that start after them, and nobody from enforcing.
//
// A machine without cgroups, or without /proc/locks, has no such lock: nothing is refused there. Processes of other pid namespaces are not listed;
// they can set no process of this one. Errors: Unavailable/AgentRunning, with the other's pid and what to do; Unavailable/LocksUnreadable where this
// process can open no file, so that who else enforces cannot be seen. O(locks of the machine) a look.
// Thread-compatible; one claim a process. Source: flock(2), proc_locks(5).
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace coterie::linux {

constexpr Millis kEnforcerPatience{3000};

// Holders of flocks on that inode, as /proc/locks lists them, ascending; one that has several as often. Pure.
[[nodiscard]] std::vector<int> lockHolders(std::string_view procLocks, std::uint64_t device, std::uint64_t inode);
// Processes that enforce, ascending: those that hold the lock as who has won does. nullopt: it cannot be told, as where there is no such lock.
// directory: empty for the machine's.
[[nodiscard]] std::optional<std::vector<int>> enforcers(std::string directory = {});
// Do agents of these (effective) users reach the same processes? Pure.
[[nodiscard]] constexpr bool usersCollide(uid_t one, uid_t other) { return one == other || one == 0 || other == 0; }

// A process's wish to be the one that enforces, and its right to, once that is decided. Given up by destruction.
class EnforcerClaim {
 public:
  // directory: empty for the machine's. Where there is nothing to lock, nobody is refused.
  explicit EnforcerClaim(std::string directory = {});
  // nullopt: this process enforces, until the claim is given up. Else how long until it is to be looked at again. Does not wait. After an error it
  // holds nothing, and a later look begins anew.
  [[nodiscard]] Result<std::optional<Millis>> look(Instant now);

 private:
  UniqueFd would_;  // invalid: there is nothing to lock
  std::array<UniqueFd, 2> does_;
  bool blind_{false};  // whether there is could not be seen
  std::uint64_t device_{0}, inode_{0};
  std::optional<Instant> until_;  // while it is not decided
  bool decided_{false};
};

// For who has nothing else to do meanwhile: the claim, decided. Sleeps, kEnforcerPatience at most.
[[nodiscard]] Result<EnforcerClaim> lockEnforcing(std::string directory = {});

}  // namespace coterie::linux
