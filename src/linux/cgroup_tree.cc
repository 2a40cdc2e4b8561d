#include "linux/cgroup_tree.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/process_threads.h"

namespace coterie::linux {

namespace fs = std::filesystem;

namespace {
constexpr std::string_view kTreePrefix = "coterie-";

// A zombie has gone: whoever started it may never ask for its exit status, and its trees would stay.
std::string startTimeOf(int pid) {
  if (processGone(pid)) return "gone";
  const auto stat = readStat("/proc/" + std::to_string(pid) + "/stat");
  return stat ? std::to_string(stat->startTime) : "gone";
}

// It and what is in it, each after what it holds.
std::vector<std::string> foldersOf(const std::string& tree) {
  std::vector<std::string> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(tree, ignored)) {
    if (!entry.is_directory(ignored)) continue;
    std::vector<std::string> inner = foldersOf(entry.path().string());
    std::move(inner.begin(), inner.end(), std::back_inserter(folders));
  }
  folders.push_back(tree);
  return folders;
}
}  // namespace

std::string treeNameOfThisRun() { return std::string(kTreePrefix) + std::to_string(::getpid()) + "-" + startTimeOf(::getpid()); }

bool treeOfDeadRun(std::string_view name) {
  if (!name.starts_with(kTreePrefix)) return false;
  name.remove_prefix(kTreePrefix.size());
  const std::size_t dash = name.find('-');
  int pid = 0;
  const auto [end, ec] = std::from_chars(name.begin(), name.begin() + std::min(dash, name.size()), pid);
  return ec == std::errc{} && dash != std::string_view::npos && end == name.begin() + dash && startTimeOf(pid) != name.substr(dash + 1);
}

void removeTree(const std::string& tree) {
  for (const std::string& folder : foldersOf(tree)) ::rmdir(folder.c_str());
}

void clearTreesOfDeadRuns(const std::vector<std::string>& parents, bool kill) {
  std::vector<std::string> trees;
  for (const std::string& parent : parents) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(parent, ignored)) {
      if (treeOfDeadRun(entry.path().filename().string())) trees.push_back(entry.path().string());
    }
  }
  for (int round = 0; round < 200 && !trees.empty(); ++round) {  // a killed process leaves its cgroup a moment later: 1 s at most
    for (const std::string& tree : trees) {
      for (const std::string& folder : foldersOf(tree)) {
        for (const int pid : idsIn(readText(folder + "/cgroup.procs"))) {
          if (kill) ::kill(pid, SIGKILL);
        }
      }
      removeTree(tree);
    }
    std::erase_if(trees, [](const std::string& tree) { return !fs::exists(tree); });
    if (!kill) return;
    if (!trees.empty()) ::usleep(5000);
  }
}

Error cgroupError(const std::string& what, const std::string& path, int error) {
  const bool refused = error == EACCES || error == EPERM || error == EROFS;
  return {refused ? Code::PermissionDenied : Code::Internal, refused ? "CgroupNotWritable" : "CgroupFailed",
          what + " " + path + ": " + std::strerror(error) + (refused ? "; run as root, or set the controller to affinity" : "")};
}

Error unknownContainer(InstanceId id) { return {Code::NotFound, "UnknownContainer", "no container " + std::to_string(id.value) + " is registered"}; }

Status openAll(const std::vector<HeldFile>& files) {
  for (const HeldFile& held : files) {
    held.file = openFor(held.path, held.flags);
    if (!held.file) return cgroupError("cannot open", held.path, errno);
  }
  return {};
}

PreparedWrite fileWrite(const UniqueFd& file, std::string text) { return {PreparedWrite::Kind::File, file.get(), std::move(text), nullptr, nullptr}; }

void giveBackMask(int pid, const CpuSet& mask) {
  if (mask.empty()) return;
  for (const int tid : threadsOf(pid)) static_cast<void>(executeWrite(affinityWrite(tid, mask)));
}

std::vector<int> idsIn(const std::optional<std::string>& text) {
  std::vector<int> ids;
  std::istringstream lines(text.value_or(""));
  for (int id = 0; lines >> id;) ids.push_back(id);
  return ids;
}

CpuSet setIn(const UniqueFd& file) { return setOf(readText(file.get())); }

}  // namespace coterie::linux
