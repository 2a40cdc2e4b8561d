// Landlock: which files a worker may read. Everything not named is closed, whatever its mode says.
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/landlock.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/unique_fd.h"
#include "process/sandbox.h"

namespace coterie::process {

namespace {

// Rights newer than the header of the oldest distribution that we build on.
constexpr std::uint64_t kAllOfVersion1 = (1ULL << 13) - 1;
constexpr std::uint64_t kRefer = 1ULL << 13;        // version 2
constexpr std::uint64_t kTruncate = 1ULL << 14;     // version 3
constexpr std::uint64_t kIoctlDevice = 1ULL << 15;  // version 5
constexpr std::uint64_t kNetBindConnect = 3;        // version 4: TCP bind and connect
constexpr std::uint64_t kScopeSocketsSignals = 3;   // version 6: abstract sockets and signals

struct RulesetAttributes {
  std::uint64_t files;
  std::uint64_t network;
  std::uint64_t scoped;
};

Error failed(const char* what) { return {Code::Unavailable, "SandboxFailed", std::string("Landlock: ") + what + ": " + std::strerror(errno)}; }

bool allow(int ruleset, int fd, std::uint64_t rights) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return false;
  if (!S_ISDIR(status.st_mode)) rights &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE;
  const landlock_path_beneath_attr rule{rights, fd};
  return ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
}

// A path that may be absent (an architecture without it, a container without /sys) is no failure.
void allowPath(int ruleset, const std::string& path, std::uint64_t rights) {
  const UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (fd) (void)allow(ruleset, fd.get(), rights);
}

// The dynamic loader of this binary, which is the worker's too.
std::string loaderPath() {
  const auto* header = reinterpret_cast<const ElfW(Phdr)*>(::getauxval(AT_PHDR));
  const unsigned long count = ::getauxval(AT_PHNUM);
  ElfW(Addr) base = 0;
  for (unsigned long i = 0; i < count; ++i) {
    if (header[i].p_type == PT_PHDR) base = reinterpret_cast<ElfW(Addr)>(header) - header[i].p_vaddr;
  }
  for (unsigned long i = 0; i < count; ++i) {
    if (header[i].p_type == PT_INTERP) return reinterpret_cast<const char*>(base + header[i].p_vaddr);
  }
  return {};
}

}  // namespace

Result<bool> restrictFiles(const SandboxOptions& options) {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return false;
  RulesetAttributes attributes{kAllOfVersion1, 0, 0};
  if (version >= 2) attributes.files |= kRefer;
  if (version >= 3) attributes.files |= kTruncate;
  if (version >= 4) attributes.network = kNetBindConnect;
  if (version >= 5) attributes.files |= kIoctlDevice;
  if (version >= 6) attributes.scoped = kScopeSocketsSignals;
  const std::size_t size = version >= 6   ? sizeof attributes
                           : version >= 4 ? offsetof(RulesetAttributes, scoped)
                                          : offsetof(RulesetAttributes, network);
  const UniqueFd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (!ruleset) return failed("create_ruleset");

  constexpr std::uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  for (const char* path : {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.preload",
                           "/sys/devices/system/cpu", "/sys/devices/system/node", "/proc/cpuinfo", "/proc/meminfo", "/proc/self", "/dev/null"}) {
    allowPath(ruleset.get(), path, kRead);
  }
  if (const std::string loader = loaderPath(); !loader.empty())
    allowPath(ruleset.get(), loader, LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE);
  if (!allow(ruleset.get(), options.worker, LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE)) return failed("the worker's binary");
  for (const int fd : options.readable) {
    if (!allow(ruleset.get(), fd, kRead)) return failed("add_rule");
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return failed("restrict_self");
  return true;
}

}  // namespace coterie::process
