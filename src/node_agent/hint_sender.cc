#include "node_agent/hint_sender.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/unique_fd.h"
#include "linux/files.h"
#include "text/text.h"

namespace coterie::node_agent {

namespace {

constexpr std::size_t kShortId = 12;

int signalOf(std::string_view name) { return name == "SIGHUP" ? SIGHUP : name == "SIGUSR1" ? SIGUSR1 : name == "SIGUSR2" ? SIGUSR2 : 0; }

void replaceAll(std::string& text, std::string_view what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) text.replace(at, what.size(), by);
}

Error unwritable(const std::string& path) {
  return {Code::Unavailable, "HintUnwritable", "cannot write the thread hint " + path + ": " + std::strerror(errno)};
}

Status replaceFile(const std::string& path, const std::string& text) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const std::string temporary = path + ".new";
  ::unlink(temporary.c_str());
  const UniqueFd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  // Whatever the mask of this process: the server is another user.
  const bool written = file && ::fchmod(file.get(), 0644) == 0 && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) return unwritable(path);
  return {};
}

// SigCgt of /proc/PID/status: a bit for each signal that has a handler.
bool handles(int pid, int signal) {
  const auto status = linux::readText("/proc/" + std::to_string(pid) + "/status");
  const std::size_t at = status ? status->find("\nSigCgt:") : std::string::npos;
  if (at == std::string::npos || signal < 1) return false;
  const std::uint64_t caught = std::strtoull(status->c_str() + at + 8, nullptr, 16);
  return (caught >> (signal - 1) & 1U) != 0;
}

}  // namespace

std::string shortName(const foreign::FoundContainer& container) {
  return container.name.id.empty() ? std::to_string(container.pid()) : container.name.id.substr(0, kShortId);
}

std::string filledIn(const std::string& pattern, const foreign::FoundContainer& container) {
  std::string path = pattern;
  replaceAll(path, "{container}", shortName(container));
  replaceAll(path, "{pid}", std::to_string(container.pid()));
  return path;
}

std::string hookText(const foreign::FoundContainer& container, const ThreadHint& hint) {
  Value value;
  value.set("container", shortName(container));
  value.set("pid", container.pid());
  value.set("threads", hint.threads);
  value.set("cpus", hint.cpus.toString());
  return text::printJson(value);
}

std::string hintText(const ThreadHint& hint) {
  Value value;
  value.set("threads", hint.threads);
  value.set("cpus", hint.cpus.toString());
  return text::printJson(value) + "\n";
}

Status sendHint(const HintSpec& spec, const foreign::FoundContainer& container, const ThreadHint& hint) {
  if (!spec.file.empty()) {
    const std::string path = filledIn(spec.file, container);
    if (hint.threads == 0) {
      if (::unlink(path.c_str()) != 0 && errno != ENOENT) return unwritable(path);
    } else if (const Status written = replaceFile(path, hintText(hint)); !written) {
      return written;
    }
  }
  if (spec.signalName.empty()) return {};
  const int signal = signalOf(spec.signalName);
  if (!handles(container.pid(), signal)) {
    return Error{Code::Unavailable, "SignalUnhandled",
                 "process " + std::to_string(container.pid()) + " has no handler for " + spec.signalName + ", which would end it: not sent"};
  }
  if (::kill(container.pid(), signal) != 0 && errno != ESRCH)
    return Error{Code::Unavailable, "SignalUnhandled",
                 "cannot send " + spec.signalName + " to process " + std::to_string(container.pid()) + ": " + std::strerror(errno)};
  return {};
}

}  // namespace coterie::node_agent
