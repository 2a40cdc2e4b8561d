#include "linux/memory_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

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

// The number of a line "  NAME   12", which has nothing else.
std::optional<std::int64_t> wordAndNumber(std::string_view line, std::string_view name) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (!line.starts_with(name)) return std::nullopt;
  line.remove_prefix(name.size());
  const std::size_t digits = line.find_first_not_of(' ');
  if (digits == 0 || digits == std::string_view::npos) return std::nullopt;  // the name of something longer
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(line.data() + digits, line.data() + line.size(), number);
  return fault == std::errc{} && end == line.data() + line.size() ? std::optional(number) : std::nullopt;
}

std::string statmOf(int pid) { return "/proc/" + std::to_string(pid) + "/statm"; }

// All pages, resident ones, ...
Bytes residentIn(const std::optional<std::string>& statm) {
  const std::size_t blank = statm ? statm->find(' ') : std::string::npos;
  if (blank == std::string::npos) return Bytes(0);
  std::int64_t pages = 0;
  if (std::from_chars(statm->data() + blank + 1, statm->data() + statm->size(), pages).ec != std::errc{}) return Bytes(0);
  return Bytes(pages * ::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::optional<Bytes> freeOfNode(std::string_view meminfo, Bytes kept) {
  const auto free = numberBehind(meminfo, "MemFree");
  if (!free) return std::nullopt;
  std::int64_t kibibytes = *free;
  for (const std::string_view droppable : {"Active(file)", "Inactive(file)", "SReclaimable"})
    kibibytes += numberBehind(meminfo, droppable).value_or(0);
  for (const std::string_view unwritten : {"Dirty", "Writeback"}) kibibytes -= numberBehind(meminfo, unwritten).value_or(0);
  kibibytes = std::max(kibibytes, *free);
  if (const auto total = numberBehind(meminfo, "MemTotal")) kibibytes = std::min(kibibytes, *total);
  return std::max(Bytes(kibibytes * kKibibyte) - kept, Bytes(0));
}

std::map<int, Bytes> keptByKernel(std::string_view zoneinfo, Bytes page) {
  std::map<int, Bytes> kept;
  int node = -1;
  std::int64_t boost = 0;  // of the zone, above its watermarks
  for (std::size_t at = 0; at < zoneinfo.size();) {
    const std::size_t end = std::min(zoneinfo.find('\n', at), zoneinfo.size());
    const std::string_view line = zoneinfo.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("Node ")) {
      node = -1;
      std::from_chars(line.data() + 5, line.data() + line.size(), node);
      boost = 0;
    }
    if (const auto pages = wordAndNumber(line, "boost")) boost = *pages;
    if (const auto pages = wordAndNumber(line, "high"); pages && node >= 0)
      kept[node] += Bytes(std::max<std::int64_t>(*pages - boost, 0) * page.value);
  }
  return kept;
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

Bytes residentOf(int pid) { return residentIn(readText(statmOf(pid))); }

Bytes ResidentMemory::of(const std::vector<int>& pids) {
  std::erase_if(files_, [&](const auto& held) { return std::find(pids.begin(), pids.end(), held.first) == pids.end(); });
  Bytes sum;
  for (const int pid : pids) {
    UniqueFd& file = files_[pid];
    auto text = file ? readText(file.get()) : std::nullopt;
    if (!text) {  // it has ended; another one may have its number
      file = openFor(statmOf(pid), O_RDONLY);
      if (file) text = readText(file.get());
    }
    sum += residentIn(text);
  }
  return sum;
}

NodeMemory::NodeMemory()
    : withMemory_(openFor("/sys/devices/system/node/has_memory", O_RDONLY)),
      settings_{openFor("/proc/sys/vm/min_free_kbytes", O_RDONLY), openFor("/proc/sys/vm/watermark_scale_factor", O_RDONLY)} {}

void NodeMemory::readKept(const CpuSet& nodes) {
  std::string made = nodes.toString();
  for (const UniqueFd& file : settings_) made += '|' + (file ? readText(file.get()) : std::nullopt).value_or("");
  if (made == keptFor_) return;
  keptFor_ = std::move(made);
  kept_ = keptByKernel(readText("/proc/zoneinfo").value_or(""), Bytes(::sysconf(_SC_PAGESIZE)));
}

std::vector<NodeFree> NodeMemory::free() {
  std::vector<NodeFree> free;
  const CpuSet nodes = setOf(withMemory_ ? readText(withMemory_.get()) : std::nullopt);
  if (nodes.empty()) {
    if (const auto whole = availableOf(readText("/proc/meminfo").value_or(""))) free.push_back({0, *whole});
    return free;
  }
  readKept(nodes);
  const auto keptOf = [this](int node) {
    const auto kept = kept_.find(node);
    return kept == kept_.end() ? Bytes(0) : kept->second;
  };
  std::erase_if(nodes_, [&](const auto& held) { return !nodes.contains(held.first); });
  for (const int node : nodes) {
    UniqueFd& file = nodes_[node];
    if (!file) file = openFor("/sys/devices/system/node/node" + std::to_string(node) + "/meminfo", O_RDONLY);
    const auto text = file ? readText(file.get()) : std::nullopt;
    if (!text) file.reset();  // looked for again next time
    if (const auto bytes = text ? freeOfNode(*text, keptOf(node)) : std::nullopt) free.push_back({node, *bytes});
  }
  return free;
}

}  // namespace coterie::linux
