#include "linux/proc_processes.h"

#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "linux/files.h"
#include "linux/memory_reader.h"

namespace coterie::linux {

namespace {

constexpr Seconds kYoung{5};
constexpr int kScansBetweenReads = 10;

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

}  // namespace

std::string tellingCgroup(std::string_view procCgroup, const std::function<bool(std::string_view)>& tellsOfContainer) {
  std::string best = "/";
  std::istringstream lines{std::string(procCgroup)};
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    if (tellsOfContainer(path)) return path;
    const bool unified = second == first + 1;
    if (path.size() > 1 && (best == "/" || unified)) best = std::move(path);
  }
  return best;
}

ProcProcesses::ProcProcesses(const Clock& clock, std::function<bool(std::string_view)> tellsOfContainer)
    : clock_(clock), tellsOfContainer_(std::move(tellsOfContainer)) {}

bool ProcProcesses::isFresh(const Known& known, Instant now) const {
  return now - known.firstSeen >= kYoung && (known.scans + known.process.pid) % kScansBetweenReads != 0;
}

Result<std::vector<SeenProcess>> ProcProcesses::scan() {
  const auto pids = pidsNow();
  if (!pids) return Error{Code::Unavailable, "ProcessesUnreadable", "/proc cannot be read: is it mounted?"};
  const Instant now = clock_.now();
  std::map<int, Known> known;
  std::vector<SeenProcess> all;
  for (const int pid : *pids) {
    const auto stat = readStat(folderOf(pid) + "/stat");
    if (!stat || stat->state == 'Z' || stat->state == 'X') continue;
    const auto before = known_.find(pid);
    const bool same = before != known_.end() && before->second.process.started == stat->startTime;
    Known entry = same ? std::move(before->second) : Known{{}, now, 0};
    ++entry.scans;
    if (!same || !isFresh(entry, now)) {
      entry.process = {pid, stat->parent, stat->startTime, commandOf(pid),
                       tellingCgroup(readText(folderOf(pid) + "/cgroup").value_or(""), tellsOfContainer_)};
    }
    all.push_back(entry.process);
    known.emplace(pid, std::move(entry));
  }
  known_ = std::move(known);
  return all;
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

int ProcProcesses::runnable() {
  constexpr std::string_view kKey = "\nprocs_running ";
  const std::string text = readText("/proc/stat").value_or("");
  const std::size_t at = text.find(kKey);
  return at == std::string::npos ? 0 : std::max(0, std::atoi(text.c_str() + at + kKey.size()) - 1);  // this thread runs
}

CpuSet ProcProcesses::cpus(int pid) { return affinityOf(pid).value_or(CpuSet{}); }

Bytes ProcProcesses::resident(int pid) { return residentOf(pid); }

}  // namespace coterie::linux
