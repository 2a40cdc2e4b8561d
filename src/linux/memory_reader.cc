#include "linux/memory_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>

#include "linux/files.h"

namespace coterie::linux {
namespace {

constexpr std::int64_t kKibibyte = 1024;

// The number behind "NAME:" and blanks, at the beginning of a line or behind a blank ("Node 0 MemFree:  12 kB").
std::optional<std::int64_t> numberBehind(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::size_t colon = at + name.size();
    if (colon >= text.size() || text[colon] != ':' || (at > 0 && text[at - 1] != ' ' && text[at - 1] != '\n')) continue;
    const std::size_t digits = text.find_first_not_of(' ', colon + 1);
    if (digits == std::string_view::npos) return std::nullopt;
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data() + digits, text.data() + text.size(), number);
    return fault == std::errc{} ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Bytes> freeOfNode(std::string_view meminfo) {
  const auto free = numberBehind(meminfo, "MemFree");
  if (!free) return std::nullopt;
  std::int64_t kibibytes = *free;
  for (const std::string_view droppable : {"Active(file)", "Inactive(file)", "SReclaimable"})
    kibibytes += numberBehind(meminfo, droppable).value_or(0);
  for (const std::string_view unwritten : {"Dirty", "Writeback"}) kibibytes -= numberBehind(meminfo, unwritten).value_or(0);
  kibibytes = std::max(kibibytes, *free);
  if (const auto total = numberBehind(meminfo, "MemTotal")) kibibytes = std::min(kibibytes, *total);
  return Bytes(kibibytes * kKibibyte);
}

std::optional<Bytes> availableOf(std::string_view meminfo) {
  const auto kibibytes = numberBehind(meminfo, "MemAvailable");
  return kibibytes ? std::optional(Bytes(*kibibytes * kKibibyte)) : std::nullopt;
}

std::optional<int> memoryPressureOf(std::string_view psi) {
  constexpr std::string_view kSome = "some avg10=";
  if (!psi.starts_with(kSome)) return std::nullopt;
  double percent = 0;
  const char* const end = psi.data() + psi.size();
  if (std::from_chars(psi.data() + kSome.size(), end, percent).ec != std::errc{} || percent < 0 || percent > 100) return std::nullopt;
  return static_cast<int>(percent * 10);
}

std::optional<int> memoryPressureIn(const UniqueFd& file) {
  const auto text = file ? readText(file.get()) : std::nullopt;
  return text ? memoryPressureOf(*text) : std::nullopt;
}

Bytes residentOf(int pid) {
  const std::string text = readText("/proc/" + std::to_string(pid) + "/statm").value_or("");  // all pages, resident ones, ...
  const std::size_t blank = text.find(' ');
  std::int64_t pages = 0;
  if (blank == std::string::npos || std::from_chars(text.data() + blank + 1, text.data() + text.size(), pages).ec != std::errc{}) return Bytes(0);
  return Bytes(pages * ::sysconf(_SC_PAGESIZE));
}

NodeMemory::NodeMemory() : withMemory_(openFor("/sys/devices/system/node/has_memory", O_RDONLY)) {}

std::vector<NodeFree> NodeMemory::free() {
  std::vector<NodeFree> free;
  const CpuSet nodes = setOf(withMemory_ ? readText(withMemory_.get()) : std::nullopt);
  if (nodes.empty()) {
    if (const auto whole = availableOf(readText("/proc/meminfo").value_or(""))) free.push_back({0, *whole});
    return free;
  }
  std::erase_if(nodes_, [&](const auto& held) { return !nodes.contains(held.first); });
  for (const int node : nodes) {
    UniqueFd& file = nodes_[node];
    if (!file) file = openFor("/sys/devices/system/node/node" + std::to_string(node) + "/meminfo", O_RDONLY);
    const auto text = file ? readText(file.get()) : std::nullopt;
    if (!text) file.reset();  // looked for again next time
    if (const auto bytes = text ? freeOfNode(*text) : std::nullopt) free.push_back({node, *bytes});
  }
  return free;
}

}  // namespace coterie::linux
