// What the agent found before it changed anything of other people's processes, on disk: so that it can be given back after a kill -9, too.
//
// A text file, replaced as a whole (write, rename) before the first change of what was added; one line each: `thread PID TID START CPUS`, `cpuset-v1
// CPUS DIRECTORY` or `cpuset-v2 CPUS DIRECTORY` (CPUS may be -: it inherited), the same with `memory-v1 NODES`, `memory-v2 NODES`, `quota-v1 QUOTA
// PERIOD BURST DIRECTORY` or `quota-v2 ...` (microseconds). giveBack() undoes what a file of a dead run says: threads by id and start time, so that a
// reused id is nobody's business, cgroups by their directory. Lines that make no sense are counted, and the file is kept. A folder that was removed
// is made anew, which is logged. Errors: Unavailable/JournalUnwritable. Thread rule: control loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu_set.h"
#include "base/result.h"
#include "linux/cgroup_quota.h"

namespace coterie::linux {

struct OriginalThread {
  int pid{0};
  int tid{0};
  std::uint64_t started{0};  // the thread's, in ticks since boot
  CpuSet cpus;
  friend bool operator==(const OriginalThread&, const OriginalThread&) = default;
};

struct OriginalCpuset {
  std::string directory;
  bool v2{false};
  CpuSet set;  // CPUs or memory nodes; empty (v2 only): it inherited
  friend bool operator==(const OriginalCpuset&, const OriginalCpuset&) = default;
};

struct OriginalQuota {
  QuotaDirectory where;
  CpuLimit limit;
  friend bool operator==(const OriginalQuota&, const OriginalQuota&) = default;
};

struct Originals {
  std::vector<OriginalThread> threads;
  std::vector<OriginalCpuset> cpusets;
  std::vector<OriginalQuota> quotas;
  std::vector<OriginalCpuset> memories{};
  friend bool operator==(const Originals&, const Originals&) = default;
};

[[nodiscard]] std::string originalsText(const Originals& originals);
// unread: gets the lines that make no sense.
[[nodiscard]] Originals parseOriginals(const std::string& text, std::vector<std::string>* unread = nullptr);

// Threads that are as they were are left alone: setting a mask, even the same, marks it as asked for. One that is not named, and has the mask that
// its process's first thread was given, was born of it meanwhile: it gets what that one had. Answers which cgroups still are as they were made,
// because the kernel refuses what they had (somebody has narrowed one above): to be tried again later.
Originals giveBack(const Originals& originals);
// The files of such, for people; empty: none.
[[nodiscard]] std::string leftText(const Originals& left);
[[nodiscard]] Status writeJournal(const std::string& path, const Originals& originals);
struct Undone {
  std::size_t found{0};   // threads and cgroups that the file named
  Originals left;         // of them, those that could not be given back
  std::size_t unread{0};  // lines that make no sense, of which nobody knows what was to be given back
  std::string aside{};    // then: the file, as it was, under this name
};
// Gives back what the file says, if there is one, and removes it unless something is left. One that is not wholly understood is kept aside.
[[nodiscard]] Undone undoJournal(const std::string& path);

}  // namespace coterie::linux
