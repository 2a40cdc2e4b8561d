#include "linux/proc_processes.h"

#include <dirent.h>
#include <linux/magic.h>
#include <sys/epoll.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "linux/files.h"
#include "linux/memory_reader.h"
#include "linux/process_handle.h"

namespace coterie::linux {

namespace {

constexpr Seconds kYoung{5};
constexpr int kScansBetweenReads = 30;
constexpr const char* kLoadFile = "/proc/loadavg";

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::optional<std::vector<int>> pidsNow() {
  const std::unique_ptr<DIR, DirectoryCloser> directory(::opendir("/proc"));
  if (directory == nullptr) return std::nullopt;
  std::vector<int> pids;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name(entry->d_name);
    int pid = 0;
    const auto [end, ec] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (ec == std::errc{} && end == name.data() + name.size()) pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

// Not one that a container's manager has put in its place, which counts what it likes, when it likes.
bool isOfProc(const char* path) {
  struct statfs system{};
  return ::statfs(path, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

std::string folderOf(int pid) { return "/proc/" + std::to_string(pid); }

// Arguments with a blank between two; control characters cannot be typed into a pattern and would drive a terminal.
std::string commandOf(int pid) {
  std::string command = readText(folderOf(pid) + "/cmdline").value_or("");
  while (!command.empty() && command.back() == '\0') command.pop_back();
  for (char& c : command) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return command;
}

// Which path stands for a process that is in several hierarchies: the order of the lines says nothing.
enum class Standing { None, Other, Cpu, Cpuset, Unified };
Standing standingOf(std::string_view controllers) {  // as "cpu,cpuacct"
  if (controllers.empty()) return Standing::Unified;
  Standing standing = Standing::Other;
  while (!controllers.empty()) {
    const std::string_view one = controllers.substr(0, controllers.find(','));
    standing = std::max(standing, one == "cpuset" ? Standing::Cpuset : one == "cpu" ? Standing::Cpu : Standing::Other);
    controllers.remove_prefix(std::min(controllers.size(), one.size() + 1));
  }
  return standing;
}
}  // namespace

std::string tellingCgroup(std::string_view procCgroup, const std::function<bool(std::string_view)>& tellsOfContainer) {
  std::string best = "/";
  Standing standing = Standing::None;
  std::istringstream lines{std::string(procCgroup)};
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    if (tellsOfContainer(path)) return path;
    if (path.size() < 2) continue;
    const Standing now = standingOf(std::string_view(line).substr(first + 1, second - first - 1));
    if (now > standing) standing = now, best = std::move(path);
  }
  return best;
}

ProcProcesses::ProcProcesses(const Clock& clock, std::function<bool(std::string_view)> tellsOfContainer)
    : clock_(clock),
      tellsOfContainer_(std::move(tellsOfContainer)),
      endings_(::epoll_create1(EPOLL_CLOEXEC)),
      load_(kLoadFile),
      times_("/proc/stat"),
      counted_(isOfProc(kLoadFile)) {}

Result<SeenProcesses> ProcProcesses::scan() {
  const Instant now = clock_.now();
  bool changed = takeEnded();
  const Begun begun = whoMayHaveBegun();
  if (begun == Begun::Some) takeBegun(now);
  if (begun == Begun::Unknown) {
    const auto pids = pidsNow();
    if (!pids) {
      counts_.reset();  // it is still to be read
      return Error{Code::Unavailable, "ProcessesUnreadable", "/proc cannot be read: is it mounted?"};
    }
    changed = takeList(*pids, now) || changed;
    unlistedScans_ = 0;
  }
  allHeld_ = true;
  for (auto one = known_.begin(); one != known_.end();) {
    const bool shown = one->second.scans > 0;
    const Look look = lookAgain(one->second, now);
    changed = changed || look == Look::Changed || (look == Look::Gone && shown);
    if (look == Look::Gone) {
      one = forget(one);
      continue;
    }
    allHeld_ = allHeld_ && one->second.handle;
    ++one;
  }
  if (!changed && seen_ != nullptr) return seen_;
  std::vector<SeenProcess> all;
  all.reserve(known_.size());
  for (const auto& [pid, known] : known_) all.push_back(known.process);
  seen_ = std::make_shared<const std::vector<SeenProcess>>(std::move(all));
  return seen_;
}

// True if somebody has.
bool ProcProcesses::takeEnded() {
  std::set<int> ended;
  std::array<epoll_event, 64> events{};
  for (int got = static_cast<int>(events.size()); got == static_cast<int>(events.size());) {
    got = ::epoll_wait(endings_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < got; ++i) {
      const int pid = static_cast<int>(events[static_cast<std::size_t>(i)].data.u64);
      if (const auto one = known_.find(pid); one != known_.end()) forget(one);
      ended.insert(pid);
    }
  }
  if (ended.empty()) return false;
  for (auto& [pid, known] : known_) known.orphaned = known.orphaned || ended.count(known.process.parent) > 0;
  return true;
}

// Since the last scan, or in its time.
ProcProcesses::Begun ProcProcesses::whoMayHaveBegun() {
  constexpr int kMostAsked = 64;
  constexpr int kScansBetweenLists = 10;
  const std::string text = load_.read().value_or("");  // 0.00 0.01 0.05 1/80 11206: runnable/threads, the last id
  const std::size_t slash = text.find('/');
  Counts counts;
  char* rest = nullptr;
  if (slash != std::string::npos) counts.threads = static_cast<int>(std::strtol(text.c_str() + slash + 1, &rest, 10));
  if (rest != nullptr) counts.lastId = static_cast<int>(std::strtol(rest, nullptr, 10));
  const std::optional<Counts> before = std::exchange(counts_, counts);
  ++unlistedScans_;
  const int from = std::exchange(askedTo_, counts.lastId);  // those of the last scan's time are asked for once more
  const int first = std::exchange(askedFrom_, from);
  if (!counted_ || counts.lastId <= 0 || !before || !allHeld_ || unlistedScans_ >= kScansBetweenLists) return Begun::Unknown;
  if (first == counts.lastId) return before == counts ? Begun::Nobody : Begun::Unknown;  // one that was long in the making, perhaps
  // Once round the circle, or too many. (Of the scans before the first list nothing is known.)
  const bool few = first > 0 && first <= from && from <= counts.lastId && counts.lastId - first <= kMostAsked;
  askedFirst_ = first;
  return few ? Begun::Some : Begun::Unknown;
}

void ProcProcesses::takeBegun(Instant now) {
  for (int pid = askedFirst_ + 1; pid <= askedTo_; ++pid) {
    const auto place = known_.lower_bound(pid);
    if (place != known_.end() && place->first == pid) continue;
    UniqueFd handle = openProcess(pid);
    const bool nobody = !handle && (errno == ESRCH || errno == EINVAL || errno == ENOENT);  // or a thread's id
    if (!nobody) add(place, pid, std::move(handle), now);
  }
}

ProcProcesses::Entries::iterator ProcProcesses::add(Entries::iterator hint, int pid, UniqueFd handle, Instant now) {
  const auto added = known_.emplace_hint(hint, pid, Known{{pid, 0, 0, {}, {}}, now, 0, std::move(handle), false, false});
  UniqueFd& kept = added->second.handle;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<std::uint64_t>(pid);
  if (kept && ::epoll_ctl(endings_.get(), EPOLL_CTL_ADD, kept.get(), &event) != 0) kept.reset();
  return added;
}

// True if one of those that were there is not any more. Newcomers are read by lookAgain().
bool ProcProcesses::takeList(const std::vector<int>& pids, Instant now) {
  bool gone = false;
  auto one = known_.begin();
  for (const int pid : pids) {
    for (; one != known_.end() && one->first < pid; one = forget(one)) gone = true;
    if (one != known_.end() && one->first == pid) {
      ++one;
      continue;
    }
    add(one, pid, openProcess(pid), now);
  }
  for (; one != known_.end(); one = forget(one)) gone = true;
  return gone;
}

ProcProcesses::Entries::iterator ProcProcesses::forget(Entries::iterator one) {
  // Closing it would not do while a child that was just forked has it open, too.
  if (one->second.handle) ::epoll_ctl(endings_.get(), EPOLL_CTL_DEL, one->second.handle.get(), nullptr);
  return known_.erase(one);
}

// Reads what is due of it.
ProcProcesses::Look ProcProcesses::lookAgain(Known& known, Instant now) const {
  SeenProcess& process = known.process;
  const int scans = known.scans++;
  const bool young = scans == 0 || now - known.firstSeen < kYoung;
  bool due = young || (!known.ofKernel && (scans + process.pid) % kScansBetweenReads == 0);
  const bool parentUnseen = due && known_.count(process.parent) == 0;  // nobody would tell that it has ended
  bool changed = scans == 0;
  const auto take = [&changed](auto& into, auto value) {
    changed = changed || into != value;
    into = std::move(value);
  };
  if (young || parentUnseen || known.orphaned || !known.handle) {
    const auto stat = readStat(folderOf(process.pid) + "/stat");
    if (!stat || ((stat->state == 'Z' || stat->state == 'X') && livingThreadOf(process.pid) == 0)) {
      known.scans = scans;
      return Look::Gone;
    }
    if (scans > 0 && stat->startTime != process.started) {  // without a handle: another one by now
      known.firstSeen = now;
      known.scans = 1;
      due = true;
    }
    known.ofKernel = stat->ofKernel;
    known.orphaned = false;
    take(process.parent, stat->parent);
    take(process.started, std::uint64_t{stat->startTime});
  }
  if (due) {
    // A first thread that ended before the others has no command any more, and may be in no cgroup: another one tells of both.
    std::string command = commandOf(process.pid);
    int teller = process.pid;
    if (command.empty() && !known.ofKernel) teller = livingThreadOf(process.pid);
    if (teller != process.pid) command = commandOf(teller);
    if (teller != 0) {  // else the next scan sees that it has gone
      take(process.command, std::move(command));
      take(process.cgroup, tellingCgroup(readText(folderOf(teller) + "/cgroup").value_or(""), tellsOfContainer_));
    }
  }
  return changed ? Look::Changed : Look::Same;
}

std::vector<ThreadTimes> ProcProcesses::threads(int pid) {
  std::vector<ThreadTimes> times;
  const std::string tasks = folderOf(pid) + "/task/";
  for (const int tid : threadsOf(pid)) {
    const auto text = readText(tasks + std::to_string(tid) + "/schedstat");  // ns run, ns waited, slices
    if (!text) continue;
    char* rest = nullptr;
    const std::int64_t run = std::strtoll(text->c_str(), &rest, 10);
    times.push_back({tid, Nanos{run}, Nanos{std::strtoll(rest, nullptr, 10)}});
  }
  return times;
}

// The fourth word of /proc/loadavg: runnable/threads.
int ProcProcesses::runnable() {
  const std::string text = load_.read().value_or("");
  const std::size_t slash = text.find('/');
  const std::size_t blank = slash == std::string::npos ? slash : text.rfind(' ', slash);
  return blank == std::string::npos ? 0 : std::max(0, std::atoi(text.c_str() + blank) - 1);  // this thread runs
}

// The first line of /proc/stat: cpu user nice system idle iowait irq softirq ..., in ticks.
Nanos ProcProcesses::used() {
  const std::string text = times_.read().value_or("");
  std::istringstream line(text.substr(0, text.find('\n')));
  std::string word;
  std::int64_t user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0;
  line >> word >> user >> nice >> system >> idle >> waiting >> interrupts >> soft;
  return Nanos(Seconds(1)) / ::sysconf(_SC_CLK_TCK) * (user + nice + system + interrupts + soft);
}

CpuSet ProcProcesses::cpus(int pid) { return affinityOf(pid).value_or(CpuSet{}); }

Bytes ProcProcesses::resident(int pid) { return residentOf(pid); }

}  // namespace coterie::linux
