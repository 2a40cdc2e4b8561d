#include "linux/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

namespace coterie::linux {
namespace {
constexpr std::size_t kLargestFile = 1 << 20;
constexpr unsigned kKernelThread = 0x00200000;  // PF_KTHREAD of the kernel's sched.h

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
}  // namespace

UniqueFd openFor(const std::string& path, int flags) { return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC)); }

int makePrivateFolder(const std::string& path) {
  std::error_code fault;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), fault);
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

std::optional<std::string> readText(int fd) {
  std::string text;
  char chunk[4096];
  while (text.size() < kLargestFile) {
    const ssize_t got = ::pread(fd, chunk, sizeof chunk, static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    text.append(chunk, static_cast<std::size_t>(got));
    // The kernel stops short where the next record does not fit. None of these files has one of half a chunk: so little is the end.
    if (static_cast<std::size_t>(got) < sizeof chunk / 2) break;
  }
  return text;
}

CpuSet setOf(const std::optional<std::string>& list) {
  const auto set = list ? CpuSet::parse(*list) : Result<CpuSet>(CpuSet{});
  return set ? *set : CpuSet{};
}

std::optional<std::string> readText(const std::string& path) {
  const UniqueFd file = openFor(path, O_RDONLY);
  return file ? readText(file.get()) : std::nullopt;
}

int writeText(const std::string& path, const std::string& text) {
  const UniqueFd file = openFor(path, O_WRONLY);
  if (!file) return errno;
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  return written < 0 ? errno : 0;
}

std::vector<int> threadsOf(int pid) {
  const std::unique_ptr<DIR, DirectoryCloser> directory(::opendir(("/proc/" + std::to_string(pid) + "/task").c_str()));
  std::vector<int> threads;
  while (directory != nullptr) {
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name(entry->d_name);
    int tid = 0;
    const auto [end, ec] = std::from_chars(name.data(), name.data() + name.size(), tid);
    if (ec == std::errc{} && end == name.data() + name.size()) threads.push_back(tid);
  }
  std::sort(threads.begin(), threads.end());
  return threads;
}

std::optional<CpuSet> affinityOf(int tid) {
  for (std::size_t words = 16; words <= CpuSet::kMaxId / 64; words *= 2) {  // EINVAL: the kernel's mask is longer
    std::vector<cpu_set_t> room((words * 8 + sizeof(cpu_set_t) - 1) / sizeof(cpu_set_t));
    if (::sched_getaffinity(tid, room.size() * sizeof(cpu_set_t), room.data()) != 0) {
      if (errno == EINVAL) continue;
      return std::nullopt;
    }
    CpuSet cpus;
    const std::size_t bytes = room.size() * sizeof(cpu_set_t);
    for (std::size_t id = 0; id < bytes * 8; ++id) {
      if (CPU_ISSET_S(id, bytes, room.data())) cpus.add(static_cast<int>(id));
    }
    return cpus;
  }
  return std::nullopt;
}

std::string affinityMask(const CpuSet& cpus) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>(std::max(0, cpus.last())) / 64 + 1);
  for (const int id : cpus) words[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (static_cast<unsigned>(id) % 64);
  std::string mask(words.size() * sizeof words[0], '\0');
  std::memcpy(mask.data(), words.data(), mask.size());
  return mask;
}

bool hasMask(int tid, const std::string& mask) {
  std::array<char, CpuSet::kMaxId / 8> seen;  // NOLINT(cppcoreguidelines-pro-type-member-init): the kernel fills what it says
  const long got = ::syscall(SYS_sched_getaffinity, tid, seen.size(), seen.data());
  if (got <= 0) return false;
  const std::size_t common = std::min(static_cast<std::size_t>(got), mask.size());
  const auto none = [](char byte) { return byte == 0; };
  return std::memcmp(seen.data(), mask.data(), common) == 0 && std::all_of(seen.data() + common, seen.data() + got, none) &&
         std::all_of(mask.data() + common, mask.data() + mask.size(), none);
}

void allowManyFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  constexpr rlim_t kRoom = 8192;  // 8 bytes each
  if (limit.rlim_cur <= kRoom) return;
  const UniqueFd any = openFor("/", O_PATH | O_CLOEXEC);
  const UniqueFd last(any ? ::fcntl(any.get(), F_DUPFD_CLOEXEC, static_cast<int>(kRoom) - 1) : -1);  // closed again, the table stays
}

std::optional<ProcessStat> readStat(const std::string& path) {
  const auto text = readText(path);
  const std::size_t at = text ? text->rfind(')') : std::string::npos;  // the name may hold anything
  if (at == std::string::npos || at + 2 >= text->size()) return std::nullopt;
  ProcessStat stat;
  stat.state = (*text)[at + 2];
  const char* const end = text->data() + text->size();
  const auto field = [&](int number, auto& into) {  // counted from the state, which is 3
    const char* from = text->data() + at + 2;
    for (int skipped = 3; skipped < number && from != end; ++skipped) {
      from = std::find(from, end, ' ');
      if (from != end) ++from;
    }
    return std::from_chars(from, end, into).ec == std::errc{};
  };
  unsigned flags = 0;
  if (!field(4, stat.parent) || !field(9, flags) || !field(22, stat.startTime)) return std::nullopt;
  stat.ofKernel = (flags & kKernelThread) != 0;
  return stat;
}

int livingThreadOf(int pid) {
  const auto lives = [pid](int tid) {
    const auto stat = readStat("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/stat");
    return stat && stat->state != 'Z' && stat->state != 'X';
  };
  if (lives(pid)) return pid;
  const std::vector<int> threads = threadsOf(pid);
  const auto one = std::find_if(threads.begin(), threads.end(), lives);
  return one == threads.end() ? 0 : *one;
}

}  // namespace coterie::linux
