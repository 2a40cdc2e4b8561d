#include "linux/cgroup_figures.h"

#include <charconv>
#include <functional>
#include <map>
#include <utility>

#include "linux/memory_reader.h"

namespace coterie::linux {

namespace {

std::optional<std::int64_t> leadingNumber(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc{} && end != text.data() ? std::optional(number) : std::nullopt;
}

void eachLine(std::string_view text, const std::function<void(std::string_view)>& use) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// "N0=5 N1=7" into the nodes, times `unit`.
void addNodes(std::string_view line, std::int64_t unit, std::map<int, std::int64_t>& nodes) {
  for (std::size_t at = line.find(" N"); at != std::string_view::npos; at = line.find(" N", at + 1)) {
    const auto node = leadingNumber(line.substr(at + 2));
    const std::size_t equals = line.find('=', at);
    if (!node || equals == std::string_view::npos) return;
    nodes[static_cast<int>(*node)] += leadingNumber(line.substr(equals + 1)).value_or(0) * unit;
  }
}

ContainerCpu withTime(Nanos used, std::string_view cpuStat) {
  ContainerCpu cpu = throttleFigures(cpuStat).value_or(ContainerCpu{});
  cpu.used = used;
  cpu.timed = true;
  return cpu;
}

}  // namespace

std::optional<std::int64_t> numberOf(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    if ((at == 0 || text[at - 1] == '\n') && end < text.size() && text[end] == ' ') return leadingNumber(text.substr(end));
  }
  return std::nullopt;
}

std::optional<ContainerCpu> throttleFigures(std::string_view cpuStat) {
  const auto periods = numberOf(cpuStat, "nr_throttled");
  if (!periods) return std::nullopt;
  const auto nanos = numberOf(cpuStat, "throttled_time");
  return ContainerCpu{{}, *periods, nanos ? Nanos(*nanos) : Nanos(Micros(numberOf(cpuStat, "throttled_usec").value_or(0))), false};
}

std::optional<ContainerCpu> cpuFigures(std::string_view cpuStat) {
  const auto used = numberOf(cpuStat, "usage_usec");
  return used ? std::optional(withTime(Micros(*used), cpuStat)) : std::nullopt;
}

std::optional<ContainerCpu> cpuFigures(std::string_view cpuacctUsage, std::string_view cpuStat) {
  const auto used = leadingNumber(cpuacctUsage);
  return used ? std::optional(withTime(Nanos(*used), cpuStat)) : std::nullopt;
}

std::optional<ContainerPressure> pressureFigures(std::string_view pressure) {
  constexpr std::string_view kTotal = "total=";
  const auto some = memoryPressureOf(pressure);  // one form for all resources
  if (!some) return std::nullopt;
  const std::string_view line = pressure.substr(0, pressure.find("full "));
  const std::size_t total = line.find(kTotal);
  return ContainerPressure{*some, Micros(total == std::string_view::npos ? 0 : leadingNumber(line.substr(total + kTotal.size())).value_or(0))};
}

ContainerResident memoryFigures(std::string_view memoryStat) {
  const auto first = [&](std::string_view total, std::string_view own) {
    const auto all = numberOf(memoryStat, total);
    return Bytes(all ? *all : numberOf(memoryStat, own).value_or(0));
  };
  return {first("total_rss", "anon"), first("total_cache", "file")};
}

std::vector<NodeResident> nodeFigures(std::string_view numaStat, Bytes pageSize) {
  std::map<int, std::int64_t> own, below;
  bool hierarchical = false;
  eachLine(numaStat, [&](std::string_view line) {
    if (line.starts_with("anon ") || line.starts_with("file ")) addNodes(line, 1, own);
    if (line.starts_with("total=")) addNodes(line, pageSize.value, own);
    if (line.starts_with("hierarchical_total=")) addNodes(line, pageSize.value, below), hierarchical = true;
  });
  std::vector<NodeResident> nodes;
  for (const auto& [node, bytes] : hierarchical ? below : own) nodes.push_back({node, Bytes(bytes)});
  return nodes;
}

std::optional<CpuLimit> cpuMaxFigures(std::string_view cpuMax) {
  const std::size_t blank = cpuMax.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto quota = leadingNumber(cpuMax);
  const auto period = leadingNumber(cpuMax.substr(blank));
  if (!period || (!quota && !cpuMax.starts_with("max"))) return std::nullopt;
  return CpuLimit{quota.value_or(-1), *period, 0};
}

}  // namespace coterie::linux
