#include "linux/hwloc_topology.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "linux/files.h"
#include "linux/hwloc_xml.h"
#include "linux/synthetic_limits.h"

namespace coterie::linux {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCpus = "/sys/devices/system/cpu";
constexpr const char* kIsolated = "CoterieIsolatedCpus";
constexpr const char* kAllowed = "CoterieAllowedCpus";
constexpr const char* kNodesWithCpus = "CoterieNodesWithCpus";
constexpr const char* kInitiatorNodes = "CoterieInitiatorNodes";

// Sets variables, and puts back what was there.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<const char*, std::string>>& variables) {
    for (const auto& [name, value] : variables) {
      const char* before = std::getenv(name);
      before_.emplace_back(name, before != nullptr ? std::optional<std::string>(before) : std::nullopt);
      ::setenv(name, value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name, value->c_str(), 1);
      } else {
        ::unsetenv(name);
      }
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

bool exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The first online CPU, if it has a topology and CPU 0 has none; else -1.
int standInForCpuZero(const std::string& root) {
  const auto online = CpuSet::parse(readText(root + kCpus + "/online").value_or(""));
  if (!online || online->empty() || exists(root + kCpus + "/cpu0/topology")) return -1;
  return exists(root + kCpus + "/cpu" + std::to_string(online->first()) + "/topology") ? online->first() : -1;
}

// A root that shows another one by symbolic links, with CPU 0's topology borrowed. Gone with the object.
class BorrowedRoot {
 public:
  BorrowedRoot(const fs::path& root, int cpu) {
    std::error_code fault;
    std::string made = (fs::temp_directory_path(fault) / "coterie-machine-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) return;
    folder_ = made;
    const fs::path from = fs::absolute(root.empty() ? fs::path("/") : root, fault);
    linkAll(from, "", "sys");
    linkAll(from, "sys", "devices");
    linkAll(from, "sys/devices", "system");
    linkAll(from, "sys/devices/system", "cpu");
    linkAll(from, "sys/devices/system/cpu", "cpu0");
    fs::create_symlink(from / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology", folder_ / "sys/devices/system/cpu/cpu0/topology",
                       fault);
    std::ofstream(folder_ / "sys/devices/system/cpu/cpu0/online") << "0\n";
  }
  ~BorrowedRoot() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);  // links, not what they point to
  }
  BorrowedRoot(const BorrowedRoot&) = delete;
  BorrowedRoot& operator=(const BorrowedRoot&) = delete;
  [[nodiscard]] std::string path() const { return folder_.string(); }

 private:
  // Links every entry of the folder but one, which becomes a folder of its own.
  void linkAll(const fs::path& from, const fs::path& folder, const std::string& but) {
    std::error_code fault;
    fs::create_directories(folder_ / folder / but, fault);
    for (const fs::directory_entry& entry : fs::directory_iterator(from / folder, fault)) {
      if (entry.path().filename() != but) fs::create_symlink(entry.path(), folder_ / folder / entry.path().filename(), fault);
    }
  }
  fs::path folder_;
};

Error unreadable(const std::string& what) { return {Code::InvalidArgument, "MachineUnreadable", what}; }
// It is there, and makes no sense.
Error malformed(const std::string& name) { return unreadable("\"" + name + "\" is no readable machine description"); }

// Files only: a folder cannot be read, and a pipe that nobody writes to never ends.
Result<std::string> wholeFile(const std::string& path) {
  std::error_code fault;
  const fs::file_status status = fs::status(path, fault);
  if (fs::is_directory(status)) return unreadable("\"" + path + "\" is a folder: wanted a file with hwloc XML");
  if (fs::exists(status) && !fs::is_regular_file(status)) return unreadable("\"" + path + "\" is a pipe or a device: wanted a file with hwloc XML");
  std::ifstream file(path, std::ios::binary);
  if (!file) return unreadable("\"" + path + "\" cannot be read: " + std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();  // an empty file: hwloc XML it is not
  return std::move(text).str();
}

// The kernel's lists of a recorded machine that hwloc goes by: it takes what it cannot read for a machine of one CPU.
Status checkLists(const std::string& root) {
  for (const char* const list : {"cpu/online", "cpu/possible", "cpu/present", "node/online", "node/has_cpu"}) {
    const std::string path = root + "/sys/devices/system/" + list;
    const auto text = readText(path);
    const auto ids = text ? CpuSet::parse(*text) : Result<CpuSet>(CpuSet{0});
    if (!ids) return unreadable("\"" + path + "\": wanted a list of ids, as 0-3,8, and it says \"" + text->substr(0, text->find('\n')) + "\"");
    if (ids->empty() && path.ends_with("/online")) return unreadable("\"" + path + "\" lists none");
  }
  return {};
}

Result<Topology> start() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Error{Code::Internal, "MachineUnreadable", "hwloc cannot start: " + std::string(std::strerror(errno))};
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  return Topology(raw);
}

Result<Topology> finish(Topology topology, const std::string& name) {
  if (hwloc_topology_load(topology.get()) != 0) return unreadable("hwloc cannot read the machine" + (name.empty() ? "" : " \"" + name + "\""));
  return topology;
}

// The files below a root ("" for this machine's own) by hwloc's rules for recorded machines.
Result<Topology> loadRoot(const std::string& root) {
  Result<Topology> topology = start();
  if (!topology) return topology;
  std::optional<BorrowedRoot> borrowed;
  if (const int cpu = standInForCpuZero(root); cpu >= 0) borrowed.emplace(root, cpu);
  const Environment environment(
      {{"HWLOC_FSROOT", borrowed ? borrowed->path() : root}, {"HWLOC_COMPONENTS", "linux,stop"}, {"HWLOC_THISSYSTEM", "0"}});
  return finish(std::move(*topology), root);
}

Result<Topology> loadXml(const std::string& path) {
  const auto text = wholeFile(path);
  if (!text) return text.error();
  const auto readable = hwloc2Xml(*text);
  if (!readable) return Error{readable.error().code, readable.error().reason, "\"" + path + "\": " + readable.error().message};
  Result<Topology> topology = start();
  if (!topology) return topology;
  // The length counts the terminating zero.
  if (hwloc_topology_set_xmlbuffer(topology->get(), readable->c_str(), static_cast<int>(readable->size() + 1)) != 0) return malformed(path);
  return finish(std::move(*topology), path);
}

Result<Topology> loadSynthetic(const std::string& text) {
  if (const Status size = checkSyntheticSize(text); !size) return size.error();
  Result<Topology> topology = start();
  if (!topology) return topology;
  // hwloc wants the threads named; people end with the cores.
  if (hwloc_topology_set_synthetic(topology->get(), text.c_str()) != 0 &&
      hwloc_topology_set_synthetic(topology->get(), (text + " pu:1").c_str()) != 0)
    return malformed(text);
  Result<Topology> made = finish(std::move(*topology), text);
  if (!made) return malformed(text);
  return made;
}

Result<Topology> loadLive() {
  const bool elsewhere =
      std::getenv("HWLOC_FSROOT") != nullptr || std::getenv("HWLOC_XMLFILE") != nullptr || std::getenv("HWLOC_SYNTHETIC") != nullptr;
  if (!elsewhere && standInForCpuZero("") >= 0) return loadRoot("");
  Result<Topology> topology = start();
  if (topology) topology = finish(std::move(*topology), "");
  if (topology && hwloc_topology_is_thissystem(topology->get()) == 0)
    return Error{Code::InvalidArgument, "NotThisMachine", "an HWLOC_ variable in the environment describes another machine: unset it"};
  return topology;
}

std::optional<CpuSet> setIn(const std::optional<std::string>& text) {
  const auto set = text ? CpuSet::parse(*text) : Result<CpuSet>(Error{});
  return set ? std::optional(*set) : std::nullopt;
}

}  // namespace

CpuSet toSet(hwloc_const_bitmap_t bitmap) {
  CpuSet set;
  for (int id = hwloc_bitmap_first(bitmap); id >= 0 && id < CpuSet::kMaxId; id = hwloc_bitmap_next(bitmap, id)) set.add(id);
  return set;
}

std::string infoOf(hwloc_obj_t object, const char* name) {
  const char* value = object != nullptr ? hwloc_obj_get_info_by_name(object, name) : nullptr;
  return value != nullptr ? value : "";
}

Result<Topology> loadTopology(const MachineReading& reading) {
  switch (reading.origin) {
    case MachineOrigin::Live: return loadLive();
    case MachineOrigin::Recorded:
      if (!exists(reading.text + "/sys")) return unreadable("\"" + reading.text + "\" is no recorded machine: there is no folder sys in it");
      if (const Status lists = checkLists(reading.text); !lists) return lists.error();
      return loadRoot(reading.text);
    case MachineOrigin::Xml: return loadXml(reading.text);
    case MachineOrigin::Synthetic: return loadSynthetic(reading.text);
  }
  return unreadable("unknown origin");
}

KernelFacts factsOf(const MachineReading& reading, hwloc_topology_t topology) {
  KernelFacts facts;
  if (reading.origin == MachineOrigin::Live || reading.origin == MachineOrigin::Recorded) {
    const std::string system = (reading.origin == MachineOrigin::Recorded ? reading.text : "") + "/sys/devices/system";
    facts.isolated = setIn(readText(system + "/cpu/isolated")).value_or(CpuSet{});
    facts.present = setIn(readText(system + "/cpu/present")).value_or(CpuSet{});
    facts.nodesWithCpus = setIn(readText(system + "/node/has_cpu"));
    facts.initiatorNodes = setIn(readText(system + "/node/has_generic_initiator"));
    if (reading.origin == MachineOrigin::Live) facts.allowed = affinityOf(0);
    return facts;
  }
  const hwloc_obj_t root = hwloc_get_root_obj(topology);
  const auto noted = [&](const char* name) {
    const std::string list = infoOf(root, name);
    return list.empty() ? std::nullopt : setIn(list);
  };
  facts.isolated = noted(kIsolated).value_or(CpuSet{});
  facts.allowed = noted(kAllowed);
  facts.nodesWithCpus = noted(kNodesWithCpus);
  facts.initiatorNodes = noted(kInitiatorNodes);
  return facts;
}

void addFacts(hwloc_topology_t topology, const KernelFacts& facts) {
  const hwloc_obj_t root = hwloc_get_root_obj(topology);
  const auto note = [&](const char* name, const std::optional<CpuSet>& set) {
    if (set && !set->empty()) hwloc_obj_add_info(root, name, set->toString().c_str());
  };
  note(kIsolated, facts.isolated);
  note(kAllowed, facts.allowed);
  note(kNodesWithCpus, facts.nodesWithCpus);
  note(kInitiatorNodes, facts.initiatorNodes);
}

}  // namespace coterie::linux
