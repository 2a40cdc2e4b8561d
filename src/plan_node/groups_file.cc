#include "plan_node/groups_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "objects/fields.h"
#include "objects/list_fields.h"
#include "objects/spec_fields.h"
#include "plan_node/team_fields.h"
#include "text/text.h"

namespace coterie::plan_node {

namespace {
using objects::Fields;
using objects::Zero;

constexpr std::size_t kMostTenants = 10'000;
constexpr std::size_t kMostGroups = 10'000;
constexpr std::int64_t kMostContainers = 1'000;  // per group, as spec.instances
constexpr double kMostArrivals = 1e9;            // per second
constexpr std::int64_t kMostAtOnce = 1'000'000'000;
constexpr std::size_t kMostWidths = 64;
constexpr double kLongestRunMs = 3'600'000;
constexpr std::int64_t kMostLoanLanes = CpuSet::kMaxId;

// Left out: the usual.
allocation::MemoryTier memoryField(Fields& fields) {
  const auto word = objects::wordField(fields, "memory", "memory", {"dram", "high-bandwidth", "any-tier"});
  return static_cast<allocation::MemoryTier>(word ? *word + static_cast<std::size_t>(allocation::MemoryTier::Dram) : 0);
}

bool yesOrNo(Fields& fields, std::string_view name) {
  const Value* value = fields.find(name);
  if (value == nullptr) return false;
  if (value->asBool() == nullptr) fields.fault(name, "wanted true or false, found " + std::string(value->typeName()));
  return value->asBool() != nullptr && *value->asBool();
}

// In {home: 0-1,8} the comma ends the list, and 8 is read as a field.
void sayWhereListsAreCut(Fields& fields) {
  if (!fields.present()) return;
  for (const auto& [key, value] : *fields.members()) {
    if (!value.isNull() || key.find_first_not_of("0123456789-") != std::string::npos) continue;
    (void)fields.find(key);  // known now, so that it is not answered twice
    fields.fault(key, "a comma ends a value between braces: quote the list, as home: \"0-1,8\"");
  }
}

class Reader {
 public:
  explicit Reader(ReadGroups& read) : file_(read.file), faults_(read.faults) {}

  void readDocument(const Value& document) {
    Fields fields(&document, "", document.line, faults_);
    if (!fields.present()) return;
    objects::eachItem(fields, "tenants", "the teams that share the machine, each with a name", kMostTenants,
                      [this](Fields& item, int line) { file_.tenants.push_back(tenantFields(item, line, tenantNames_)); });
    objects::eachItem(fields, "groups", "the services to plan for, each with a name and a tenant", kMostGroups,
                      [this](Fields& item, int line) { addGroup(item, line); });
    file_.pool = objects::idsField(fields, "pool");
    fields.finish();
    if (faults_.empty()) refuseSharedHomes();
  }

 private:
  void addGroup(Fields& item, int line) {
    using allocation::Band;
    using allocation::Lend;
    GroupEntry group;
    group.line = line;
    group.name = groupNames_.read(item, "the group's name, as audio/speech", line, objects::groupNameFault);
    group.tenant = tenantOf(item);
    group.weight = item.whole("weight", {1, 10000}).value_or(100);
    group.band =
        static_cast<Band>(objects::wordField(item, "band", "band", {"high", "normal", "low"}).value_or(static_cast<std::size_t>(Band::Normal)));
    const auto [floor, ceiling] = boundsFields(item);
    group.floor = floor;
    group.ceiling = ceiling;
    group.latencyCritical = objects::latencyCriticalField(item);
    group.lend = static_cast<Lend>(objects::wordField(item, "lend", "rule of lending", {"when-idle", "never"}).value_or(0));
    group.isolation = objects::isolationField(item);
    group.memory = memoryField(item);
    group.device = item.text("device").value_or("");
    group.containers = containersOf(item, line);
    group.demand = objects::cpusField(item, "demand", Zero::Allowed, "demand");
    group.queued = yesOrNo(item, "queued");
    if (const auto lanes = item.whole("loanLanes", {0, kMostLoanLanes})) group.loanLanes = static_cast<int>(*lanes);
    group.width = widthOf(item);
    file_.groups.push_back(std::move(group));
  }

  // Without run times nothing can be proposed, and the other fields of a width would do nothing.
  std::optional<WidthEntry> widthOf(Fields& item) {
    WidthEntry width;
    width.objective = objects::objectiveField(item);
    width.arrivals = MilliRps(std::llround(item.number("arrivals", 0, kMostArrivals).value_or(0) * 1000));
    if (const auto atOnce = item.whole("atOnce", {0, kMostAtOnce})) width.atOnce = static_cast<int>(*atOnce);
    if (const auto most = item.whole("maxInstances", {1, kMostContainers})) width.maxInstances = static_cast<int>(*most);
    if (item.find("runTimes") != nullptr) {
      objects::eachItem(item, "runTimes", "the run time by one thread and by more, each with threads and meanMs", kMostWidths,
                        [&](Fields& one, int) { addRunTime(one, width.curve); });
      return width;
    }
    for (const std::string_view name : {"objective", "arrivals", "atOnce", "maxInstances"}) {
      if (item.find(name) != nullptr) item.fault(name, "says nothing without runTimes, from which a width is proposed");
    }
    return std::nullopt;
  }

  static void addRunTime(Fields& one, std::vector<allocation::RunTime>& curve) {
    allocation::RunTime run;
    run.width = 0;
    if (one.require("threads", "by how many a run is run") != nullptr)
      run.width = static_cast<int>(one.whole("threads", {1, CpuSet::kMaxId}).value_or(0));
    const auto millis = [&](std::string_view name) {
      const std::optional<double> ms = one.number(name, 0, kLongestRunMs);
      if (ms && *ms <= 0) one.fault(name, "must be more than 0");
      return Nanos(std::llround(ms.value_or(0) * 1e6));
    };
    if (one.require("meanMs", "how long a run takes") != nullptr) run.mean = millis("meanMs");
    run.atQuantile = one.find("p99Ms") != nullptr ? millis("p99Ms") : run.mean;
    if (run.atQuantile < run.mean) one.fault("p99Ms", "is less than meanMs");
    if (curve.empty() && run.width > 1) one.fault("threads", "the first is of 1 thread");
    if (!curve.empty() && run.width > 0 && run.width <= curve.back().width) one.fault("threads", "more threads come later, each number once");
    curve.push_back(run);
  }

  std::size_t tenantOf(Fields& item) {
    if (item.require("tenant", "one of the tenants above") == nullptr) return 0;
    const std::optional<std::string> name = item.text("tenant");
    if (!name) return 0;
    if (const auto known = tenantNamed(file_.tenants, *name)) return *known;
    refuseTenant(item, *name, file_.tenants);
    return 0;
  }

  // instances: a number, or a list of maps.
  std::vector<ContainerEntry> containersOf(Fields& item, int line) {
    ContainerEntry fresh;
    fresh.line = line;
    const Value* value = item.find("instances");
    if (value == nullptr) return {fresh};
    const Value::List* list = value->asList();
    if (list == nullptr) {
      if (value->asInt() == nullptr) {
        item.fault("instances", "wanted a whole number, or a list of those that run; found " + std::string(value->typeName()));
        return {fresh};
      }
      return std::vector<ContainerEntry>(static_cast<std::size_t>(item.whole("instances", {1, kMostContainers}).value_or(1)), fresh);
    }
    if (list->empty() || list->size() > static_cast<std::size_t>(kMostContainers)) {
      item.fault("instances", list->empty() ? "is empty: a group has at least one; leave the field out for one that does not run yet"
                                            : "at most " + std::to_string(kMostContainers) + " of them");
      return {fresh};
    }
    std::vector<ContainerEntry> containers;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const Value& one = (*list)[i];
      ContainerEntry container;
      container.line = one.line > 0 ? one.line : line;
      Fields fields(&one, objects::itemPath(item, "instances", i), container.line, faults_);  // nothing: not placed yet
      container.home = objects::idsField(fields, "home");
      container.memoryNodes = objects::idsField(fields, "memoryNodes");
      container.loans = objects::idsField(fields, "loans");
      container.resident = objects::bytesField(fields, "resident", Bytes(0), Zero::Allowed, "memory");
      container.expected = objects::bytesField(fields, "expected", Bytes(0), Zero::Allowed, "memory");
      container.cpuWeight = fields.whole("cpuWeight", {1, 10000});
      const objects::RoleNeed need =
          objects::roleFields(fields, {ContainerRole::App, ContainerRole::Init, ContainerRole::Sidecar, ContainerRole::Pause});
      container.role = need.role;
      container.floor = need.floor;
      sayWhereListsAreCut(fields);
      fields.finish();
      if (container.loans.intersects(container.home))
        fields.fault("loans", "CPU " + std::to_string((container.loans & container.home).first()) + " is its own home: a loan is another's CPU");
      containers.push_back(std::move(container));
    }
    return containers;
  }

  // No state of the product has a CPU that is the home of two groups, except the pool's.
  void refuseSharedHomes() {
    struct Holder {
      std::size_t group;
      int line;
    };
    std::map<int, Holder> holders;
    for (std::size_t g = 0; g < file_.groups.size(); ++g) {
      for (std::size_t c = 0; c < file_.groups[g].containers.size(); ++c) {
        const ContainerEntry& container = file_.groups[g].containers[c];
        if (container.role == ContainerRole::Pause) continue;  // it owns nothing, wherever it is
        for (const int cpu : container.home - file_.pool) {
          const auto [first, fresh] = holders.try_emplace(cpu, Holder{g, container.line});
          if (fresh || first->second.group == g) continue;
          faults_.push_back({"groups[" + std::to_string(g) + "].instances[" + std::to_string(c) + "].home", container.line,
                             "CPU " + std::to_string(cpu) + " is the home of " + file_.groups[first->second.group].name + " too (line " +
                                 std::to_string(first->second.line) + "): take it from one of them, or list it in pool"});
          break;
        }
      }
    }
  }

  GroupsFile& file_;
  Faults& faults_;
  objects::UniqueNames tenantNames_;
  objects::UniqueNames groupNames_;
};
}  // namespace

Faults notOfMachine(const GroupsFile& file, const Machine& machine) {
  Faults faults;
  CpuSet nodes;
  for (const MemoryNode& node : machine.memoryNodes) nodes.add(node.id);
  const CpuSet cpus = CpuSet::range(0, machine.online.last());
  const auto check = [&](const std::string& path, int line, const CpuSet& ids, const CpuSet& known, const CpuSet& there, const char* what) {
    const CpuSet absent = ids - known;
    if (!absent.empty())
      faults.push_back({path, line, "the machine has no " + std::string(what) + " " + absent.toString() + "; it has " + there.toString()});
  };
  check("pool", 0, file.pool, cpus, machine.online, "CPU");
  for (std::size_t g = 0; g < file.groups.size(); ++g) {
    for (std::size_t c = 0; c < file.groups[g].containers.size(); ++c) {
      const ContainerEntry& container = file.groups[g].containers[c];
      const std::string path = "groups[" + std::to_string(g) + "].instances[" + std::to_string(c) + "].";
      check(path + "home", container.line, container.home, cpus, machine.online, "CPU");
      check(path + "loans", container.line, container.loans, cpus, machine.online, "CPU");
      check(path + "memoryNodes", container.line, container.memoryNodes, nodes, nodes, "memory node");
    }
  }
  return faults;
}

ReadGroups readGroups(std::string_view yaml) {
  ReadGroups read;
  text::Documents documents = text::parseYaml(yaml);
  read.faults = std::move(documents.faults);
  if (!read.faults.empty()) return read;
  if (documents.values.size() != 1) {
    const bool none = documents.values.empty();
    read.faults.push_back({"", none ? 1 : documents.values[1].line,
                           none ? "holds nothing: wanted tenants and groups" : "a second document: wanted tenants and groups in one, without ---"});
    return read;
  }
  Reader(read).readDocument(documents.values.front());
  return read;
}

}  // namespace coterie::plan_node
