// One enforcing agent per machine: whoever gives CPU sets to other people's processes says so where every other such agent looks.
//
// A shared flock(2) on the root directory of the cgroup hierarchy that has cpusets, and then a look into /proc/locks at who else has one. Why there:
// two agents disturb each other exactly if they reach the same cgroups, and then they reach this directory: the lock is the inode's, the same through
// whichever mount, mount namespace, network namespace or state folder, needs no right to write, and ends with the process, however that ends. (An
// abstract socket is one per network namespace, which pods have of their own; a file needs a folder that all users and containers share.) Why shared:
// an exclusive one would let any user keep any other from enforcing. So the kernel refuses nobody, and it is decided here: root's agent stands beside
// no other, since it may reach everybody's processes; two of different ordinary users are no matter, since neither can touch the other's.
//
// Of those that begin at the same moment one wins: who enforces holds the lock twice, who is about to holds it once, so that they can be told apart.
// Beside one that enforces a newcomer is refused at once, however old it is. Of those about to, who sees a lower pid lets go, waits and tries again;
// the lowest keeps its lock and looks until the others have let go. Who still sees another after kEnforcerPatience (a stopped one, say) is refused: a
// machine on which they do not get to run for that long may refuse all. Never do two win.
//
// Only agents count: the program that runs here (device and inode of /proc/PID/exe), or a process named "coterie" or as this one is: another build,
// or another user's, whose program only root may look at. What cannot be told: whether somebody else named a program so, or runs this one with the
// lock handed down, to be in the way; and an agent of another user under another name than both is not known for one. Who locks the directory alone
// (flock -x) keeps agents from being seen by those that start after them, and nobody from enforcing.
//
// A machine without cgroups, or without /proc/locks, has no such lock: nothing is refused there. Processes of other pid namespaces are not listed;
// they can set no process of this one. Errors: Unavailable/AgentRunning, with the other's pid and what to do. O(locks of the machine) a look.
// Thread-safe. Source: flock(2), proc_locks(5).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace coterie::linux {

constexpr std::chrono::milliseconds kEnforcerPatience{3000};

// Holders of flocks on that inode, as /proc/locks lists them, ascending; one that has several as often. Pure.
[[nodiscard]] std::vector<int> lockHolders(std::string_view procLocks, std::uint64_t device, std::uint64_t inode);
// Do agents of these (effective) users reach the same processes? Pure.
[[nodiscard]] constexpr bool usersCollide(uid_t one, uid_t other) { return one == other || one == 0 || other == 0; }

// Held until both are closed.
struct EnforcerLock {
  UniqueFd would, does;
};

// Invalid descriptors where there is nothing to lock. directory: empty for the machine's.
[[nodiscard]] Result<EnforcerLock> lockEnforcing(std::string directory = {});

}  // namespace coterie::linux
