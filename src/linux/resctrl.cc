#include "linux/resctrl.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "linux/cgroup_tree.h"
#include "linux/files.h"

namespace coterie::linux {

namespace {

constexpr int kHexadecimal = 16;
constexpr int kDecimal = 10;
constexpr std::int64_t kAllBandwidth = 100;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos ? std::string_view{} : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

template <typename Number>
std::optional<Number> numberIn(std::string_view text, int base) {
  Number number{};
  text = trimmed(text);
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return ec == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

template <typename Number>
std::optional<Number> numberIn(const std::optional<std::string>& text, int base) {
  return text ? numberIn<Number>(std::string_view(*text), base) : std::nullopt;
}

// "0=3f;1=3f" -> what is called for each.
template <typename Take>
void eachValue(std::string_view list, Take take) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(';'), list.size());
    const std::string_view one = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos) continue;
    const auto id = numberIn<int>(one.substr(0, equals), kDecimal);
    if (id && *id >= 0) take(*id, trimmed(one.substr(equals + 1)));
  }
}

// Of "0=SSEE;1=SSSS" (the highest way first), those that somebody has to himself.
std::map<int, CacheWays> exclusiveWays(const std::string& usage) {
  std::map<int, CacheWays> ways;
  eachValue(trimmed(usage), [&](int id, std::string_view letters) {
    for (const char letter : letters) ways[id] = ways[id] << 1 | (letter == 'E' || letter == 'P' ? 1 : 0);
  });
  return ways;
}

// The longest run of ways, the lowest of equals.
CacheWays longestRun(CacheWays ways) {
  CacheWays best = 0;
  while (ways != 0) {
    const int first = std::countr_zero(ways);
    const int length = std::countr_one(ways >> first);
    const CacheWays run = runOf(first, length);
    if (length > std::popcount(best)) best = run;
    ways &= ~run;
  }
  return best;
}

// The last-level caches by their id, with the online CPUs below each.
std::map<int, CpuSet> lastLevelCaches(const std::string& sysfs) {
  std::map<int, CpuSet> caches;
  const std::string cpus = sysfs + "/devices/system/cpu";
  const CpuSet online = setOf(readText(cpus + "/online"));
  CpuSet left = online;
  while (!left.empty()) {
    const int cpu = left.first();
    left.remove(cpu);
    for (int index = 0;; ++index) {
      const std::string folder = cpus + "/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index);
      const auto level = numberIn<int>(readText(folder + "/level"), kDecimal);
      if (!level) break;
      const auto id = numberIn<int>(readText(folder + "/id"), kDecimal);
      const auto list = readText(folder + "/shared_cpu_list");
      const auto shared = list ? CpuSet::parse(*list) : Result<CpuSet>(CpuSet{});
      if (*level != 3 || !id || !shared) continue;
      caches[*id] |= *shared & online;
      left -= *shared;
      break;
    }
  }
  return caches;
}

}  // namespace

Schemata parseSchemata(const std::string& text) {
  Schemata schemata;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view resource = trimmed(std::string_view(line).substr(0, colon));
    eachValue(std::string_view(line).substr(colon + 1), [&](int id, std::string_view value) {
      if (resource == "L3") {
        if (const auto ways = numberIn<CacheWays>(value, kHexadecimal)) schemata.ways[id] = *ways;
      } else if (resource == "MB") {
        if (const auto rate = numberIn<std::int64_t>(value, kDecimal)) schemata.bandwidth[id] = *rate;
      }
    });
  }
  return schemata;
}

std::string schemataText(const ClassShares& shares) {
  std::ostringstream ways;
  std::ostringstream bandwidth;
  ways << std::hex;
  for (const auto& [id, share] : shares) {
    const std::string cache = std::to_string(id);
    if (share.ways != 0) ways << (ways.tellp() == 0 ? "L3:" : ";") << cache << "=" << share.ways;
    if (share.bandwidth != 0) bandwidth << (bandwidth.tellp() == 0 ? "MB:" : ";") << cache << "=" << share.bandwidth;
  }
  std::string text;
  for (const std::string& line : {ways.str(), bandwidth.str()}) text += line.empty() ? "" : line + "\n";
  return text;
}

Resctrl::Resctrl(std::unique_ptr<ResctrlFiles> files, std::string sysfs)
    : files_(std::move(files)), sysfs_(std::move(sysfs)), prefix_(treeNameOfThisRun() + ".") {}

std::unique_ptr<Resctrl> Resctrl::create(std::unique_ptr<ResctrlFiles> files, std::string sysfs) {
  std::unique_ptr<Resctrl> made(new Resctrl(std::move(files), std::move(sysfs)));
  for (const std::string& group : made->files_->groups()) {
    const std::size_t dot = group.rfind('.');
    if (dot == std::string::npos || !treeOfDeadRun(std::string_view(group).substr(0, dot))) continue;
    if (const int error = made->files_->removeGroup(group); error != 0)
      log::warning("linux", "the cache class " + group + " of a run that has gone cannot be removed: " + std::strerror(error));
  }
  return made;
}

std::vector<std::string> Resctrl::othersGroups() const {
  std::vector<std::string> groups = files_->groups();
  std::erase_if(groups, [this](const std::string& name) { return name.starts_with(prefix_); });
  return groups;
}

Error Resctrl::errorOf(int error, const std::string& what) const {
  const auto told = files_->read("info/last_cmd_status");
  const std::string_view status = told ? trimmed(*told) : std::string_view{};
  const std::string said = status.empty() || status == "ok" ? std::string() : " (the kernel says: " + std::string(status) + ")";
  switch (error) {
    case ENOSPC: return {Code::ResourceExhausted, "NoClassLeft", "the kernel has no cache class left for " + what + said};
    case EACCES:
    case EPERM:
    case EROFS:
      return {Code::PermissionDenied, "ClassesNotWritable",
              "cache classes cannot be written here: " + what + ": " + std::strerror(error) + "; run as root"};
    case EINVAL: return {Code::InvalidArgument, "ClassRefused", "the kernel refuses the cache class " + what + said};
    default: return {Code::Internal, "ClassFailed", "the cache class " + what + ": " + std::strerror(error) + said};
  }
}

// What classes may be given of each cache.
void Resctrl::readCaches(CacheControl& control, const Schemata& now) const {
  const auto mask = numberIn<CacheWays>(files_->read("info/L3/cbm_mask"), kHexadecimal);
  if (!mask || now.ways.empty()) {
    control.lacks.emplace_back(files_->read("info/L3CODE/cbm_mask")
                                   ? "resctrl is mounted with cdp: caches are divided only where it is mounted without"
                                   : "the last-level cache cannot be divided here");
    return;
  }
  control.leastWays = numberIn<int>(files_->read("info/L3/min_cbm_bits"), kDecimal).value_or(1);
  const CacheWays shareable = numberIn<CacheWays>(files_->read("info/L3/shareable_bits"), kHexadecimal).value_or(0);
  const std::map<int, CacheWays> exclusive = exclusiveWays(files_->read("info/L3/bit_usage").value_or(""));
  for (CacheInstance& cache : control.caches) {
    if (now.ways.count(cache.id) == 0) continue;
    const auto taken = exclusive.find(cache.id);
    const CacheWays free = *mask & ~(taken == exclusive.end() ? 0 : taken->second);
    CacheWays ways = longestRun(free & ~shareable);
    if (std::popcount(ways) < 2 * control.leastWays) ways = longestRun(free);  // two classes at least: else with those that devices use
    if (std::popcount(ways) >= control.leastWays) cache.ways = ways;
  }
}

void Resctrl::readBandwidth(CacheControl& control, const Schemata& now) const {
  const auto least = numberIn<int>(files_->read("info/MB/min_bandwidth"), kDecimal);
  const auto step = numberIn<int>(files_->read("info/MB/bandwidth_gran"), kDecimal);
  if (!least || now.bandwidth.empty()) {
    control.lacks.emplace_back("memory bandwidth cannot be held here");
    return;
  }
  const auto beyond = [](const auto& entry) { return entry.second > kAllBandwidth; };
  if (std::any_of(now.bandwidth.begin(), now.bandwidth.end(), beyond) || *least > kAllBandwidth) {
    control.lacks.emplace_back("memory bandwidth is held in other units than percent here, so it is left alone");
    return;
  }
  control.leastBandwidth = std::max(1, *least);
  control.bandwidthStep = std::max(1, step.value_or(1));
}

Result<CacheControl> Resctrl::read() {
  const auto text = files_->read("schemata");
  if (!text) {
    return Error{Code::Unavailable, "NoCacheClasses",
                 "the kernel has no cache classes here (resctrl): the hardware has none, or it is not mounted; then: mount -t resctrl resctrl "
                 "/sys/fs/resctrl"};
  }
  const Schemata now = parseSchemata(*text);
  CacheControl control;
  for (const auto& [id, cpus] : lastLevelCaches(sysfs_)) {
    if (now.ways.count(id) > 0 || now.bandwidth.count(id) > 0) control.caches.push_back({id, cpus, 0});
  }
  readCaches(control, now);
  readBandwidth(control, now);
  int classes = std::numeric_limits<int>::max();
  if (control.dividesCaches()) classes = std::min(classes, numberIn<int>(files_->read("info/L3/num_closids"), kDecimal).value_or(0));
  if (control.leastBandwidth > 0) classes = std::min(classes, numberIn<int>(files_->read("info/MB/num_closids"), kDecimal).value_or(0));
  if (classes == std::numeric_limits<int>::max()) {
    std::string why;
    for (const std::string& lack : control.lacks) why += (why.empty() ? "" : "; ") + lack;
    return Error{Code::Unavailable, "NoCacheClasses", "no cache classes here: " + (why.empty() ? "no cache has room for two" : why)};
  }
  control.classes = std::max(0, classes - 1 - static_cast<int>(othersGroups().size()));  // the default group has one
  return control;
}

Status Resctrl::set(const CacheClass& wanted) {
  const std::string group = groupOf(wanted.name);
  const int made = files_->makeGroup(group);
  if (made != 0 && made != EEXIST) return errorOf(made, wanted.name);
  const std::string text = schemataText(wanted.shares);
  const int error = text.empty() ? 0 : files_->write(group + "/schemata", text);
  if (error == 0) return {};
  Error refused = errorOf(error, wanted.name + ": " + std::string(trimmed(text)));
  std::replace(refused.message.begin(), refused.message.end(), '\n', ' ');
  if (made == 0) static_cast<void>(files_->removeGroup(group));
  return refused;
}

Result<std::vector<int>> Resctrl::join(const std::string& name, const std::vector<int>& processes) {
  constexpr int kScans = 8;  // a thread may be born of one that was not moved yet, between a list and its writes
  const std::string tasks = name.empty() ? "tasks" : groupOf(name) + "/tasks";
  if (!files_->read(tasks)) return Error{Code::NotFound, "UnknownClass", "there is no cache class " + name};
  std::set<int> foreign;
  for (const std::string& group : othersGroups()) {
    for (const int tid : idsIn(files_->read(group + "/tasks"))) foreign.insert(tid);
  }
  std::vector<int> leftAlone;
  for (const int pid : processes) {
    if (foreign.count(pid) > 0) {
      leftAlone.push_back(pid);
      continue;
    }
    std::set<int> moved;
    for (int scan = 0; scan < kScans; ++scan) {
      const std::vector<int> threads = threadsOf(pid);
      const std::size_t before = moved.size();
      for (const int tid : threads) {
        if (foreign.count(tid) > 0 || !moved.insert(tid).second) continue;
        const int error = files_->write(tasks, std::to_string(tid) + "\n");
        if (error != 0 && error != ESRCH) return errorOf(error, name + ", thread " + std::to_string(tid));
      }
      if (moved.size() == before) break;
    }
  }
  return leftAlone;
}

void Resctrl::remove(const std::string& name) { static_cast<void>(files_->removeGroup(groupOf(name))); }

std::vector<CacheClass> Resctrl::list() const {
  std::vector<CacheClass> classes;
  for (const std::string& group : files_->groups()) {
    if (!group.starts_with(prefix_)) continue;
    const Schemata schemata = parseSchemata(files_->read(group + "/schemata").value_or(""));
    CacheClass one;
    one.name = group.substr(prefix_.size());
    for (const auto& [id, ways] : schemata.ways) one.shares[id].ways = ways;
    for (const auto& [id, rate] : schemata.bandwidth) one.shares[id].bandwidth = static_cast<int>(std::min<std::int64_t>(rate, INT32_MAX));
    classes.push_back(std::move(one));
  }
  return classes;
}

void Resctrl::restore() {
  for (const CacheClass& one : list()) remove(one.name);
}

}  // namespace coterie::linux
