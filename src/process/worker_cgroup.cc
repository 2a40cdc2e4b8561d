#include "process/worker_cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/unique_fd.h"

namespace coterie::process {

namespace {

constexpr std::string_view kPrefix = "coterie-worker-";

std::string_view controllerName(CgroupKind kind) { return kind == CgroupKind::Memory ? "memory" : "pids"; }

bool writeFile(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd.valid() && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// 0 where it cannot be read.
std::int64_t numberIn(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? number : 0;
}

// Our own group's folder in the hierarchy of a v1 controller; empty if there is none.
std::string ownFolder(CgroupKind kind) {
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    std::string controller;
    while (std::getline(controllers, controller, ',')) {
      if (controller != controllerName(kind)) continue;
      const std::string path = line.substr(second + 1);
      return "/sys/fs/cgroup/" + controller + (path == "/" ? "" : path);
    }
  }
  return {};
}

}  // namespace

Result<WorkerCgroup> WorkerCgroup::create(CgroupKind kind, std::string_view name, std::int64_t limit) {
  const std::string own = ownFolder(kind);
  const auto absent = [](const std::string& why) { return Error{Code::NotFound, "NoCgroup", why}; };
  if (own.empty()) return absent("no v1 hierarchy of this controller");
  const std::string path = own + "/" + std::string(kPrefix) + std::string(name);
  if (::mkdir(path.c_str(), 0755) != 0) return absent(path + ": " + std::strerror(errno));
  WorkerCgroup group(path);
  const char* file = kind == CgroupKind::Memory ? "/memory.limit_in_bytes" : "/pids.max";
  if (!writeFile(path + file, std::to_string(limit))) return absent(path + file + ": " + std::strerror(errno));
  return group;
}

WorkerCgroup& WorkerCgroup::operator=(WorkerCgroup&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

WorkerCgroup::~WorkerCgroup() {
  if (!path_.empty()) (void)::rmdir(path_.c_str());
}

Status WorkerCgroup::attach(int pid) const {
  if (writeFile(path_ + "/cgroup.procs", std::to_string(pid))) return {};
  return Error{Code::Unavailable, "NoCgroup", path_ + ": " + std::strerror(errno)};
}

bool WorkerCgroup::killedForMemory() const {
  std::ifstream control(path_ + "/memory.oom_control");
  std::string key;
  std::int64_t value = 0;
  while (control >> key >> value) {
    if (key == "oom_kill") return value > 0;
  }
  return false;
}

bool WorkerCgroup::wasFull() const { return numberIn(path_ + "/memory.failcnt") > 0; }

std::int64_t WorkerCgroup::peak() const { return valid() ? numberIn(path_ + "/memory.max_usage_in_bytes") : 0; }

void sweepLeftovers(CgroupKind kind) {
  const std::string own = ownFolder(kind);
  DIR* folder = own.empty() ? nullptr : ::opendir(own.c_str());
  if (folder == nullptr) return;
  while (const dirent* entry = ::readdir(folder)) {
    if (std::string_view(entry->d_name).starts_with(kPrefix)) (void)::rmdir((own + "/" + entry->d_name).c_str());  // fails while in use
  }
  ::closedir(folder);
}

}  // namespace coterie::process
