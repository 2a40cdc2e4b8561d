#include "node_agent/agent_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "node_agent/hook_caller.h"
#include "objects/fields.h"
#include "objects/list_fields.h"
#include "objects/spec_fields.h"
#include "plan_node/team_fields.h"
#include "text/text.h"

namespace coterie::node_agent {

namespace {
using objects::Fields;

constexpr std::size_t kMost = 10'000;
constexpr std::size_t kMostPids = 100'000;
constexpr std::int64_t kHighestPid = 4'194'304;

// Words of elsewhere, and how they are spelt here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kElsewhere{
    {{"floor", "minCpus"}, {"ceiling", "maxCpus"}, {"labels", "members"}, {"match", "members"}}};

std::vector<int> pidsField(Fields& rule) {
  const Value* value = rule.find("pids");
  std::vector<int> pids;
  if (value == nullptr) return pids;
  const Value::List one{*value};
  const Value::List* list = value->asList() != nullptr ? value->asList() : &one;
  if (list->empty()) rule.fault("pids", "is empty: leave the field out where no pid is meant");
  if (list->size() > kMostPids) return rule.fault("pids", "at most " + std::to_string(kMostPids) + " of them"), pids;
  for (const Value& item : *list) {
    const std::int64_t* pid = item.asInt();
    if (pid != nullptr && *pid == 1) {
      rule.fault("pids", "process 1 is the machine's init, which is no group's member");
      break;
    }
    if (pid != nullptr && *pid > 1 && *pid <= kHighestPid) {
      pids.push_back(static_cast<int>(*pid));
    } else {
      rule.fault("pids", "wanted process ids from 2 to " + std::to_string(kHighestPid) + ", as [812, 813]");
      break;
    }
  }
  return pids;
}

std::string patternField(Fields& rule, std::string_view name) {
  std::optional<std::string> pattern = rule.text(name);
  if (pattern && pattern->empty()) rule.fault(name, "is empty: wanted a pattern, as \"tritonserver *\"; leave the field out for any");
  return pattern ? std::move(*pattern) : std::string();
}

class Reader {
 public:
  explicit Reader(ReadAgentFile& read) : file_(read.file), faults_(read.faults) {}

  void readDocument(const Value& document) {
    Fields fields(&document, "", document.line, faults_);
    if (!fields.present()) return;
    file_.mode = static_cast<Mode>(objects::wordField(fields, "mode", "mode", {"observe", "enforce"}).value_or(0));
    if (fields.find("reserved") != nullptr) file_.reserved = objects::idsField(fields, "reserved");
    if (auto path = fields.text("kubeletState")) {
      if (!path->starts_with('/')) fields.fault("kubeletState", "wanted an absolute path, as " + file_.kubeletState);
      file_.kubeletState = std::move(*path);
    }
    constexpr std::array<CacheClassMode, 3> kModes{CacheClassMode::Auto, CacheClassMode::All, CacheClassMode::Off};
    file_.cacheClasses = kModes[objects::wordField(fields, "cacheClasses", "mode", {"auto", "all", "off"}).value_or(0)];
    file_.keepsMemoryNodes = objects::wordField(fields, "memoryNodes", "rule of memory nodes", {"follow", "keep"}).value_or(0) == 1;
    tenantsListed_ = fields.find("tenants") != nullptr;
    if (tenantsListed_) {
      objects::eachItem(fields, "tenants", "the teams that share the machine, each with a name", kMost,
                        [this](Fields& item, int line) { file_.tenants.push_back(plan_node::tenantFields(item, line, tenantNames_)); });
    }
    objects::eachItem(fields, "groups", "the servers to look for, each with a name, a tenant and members", kMost,
                      [this](Fields& item, int line) { addGroup(item, line); });
    fields.finish();
    if (faults_.empty()) refuseSharedPids();
  }

 private:
  void addGroup(Fields& item, int line) {
    for (const auto& [word, here] : kElsewhere) {
      const auto same = [wanted = word](const Value::Member& member) { return member.first == wanted; };
      if (std::none_of(item.members()->begin(), item.members()->end(), same)) continue;
      (void)item.find(word);  // known now, so that it is not answered twice
      item.fault(word, "unknown field: it is spelt " + std::string(here) + " here");
    }
    AgentGroup group;
    group.name = groupNames_.read(item, "the group's name, as audio/speech", line, objects::groupNameFault);
    group.tenant = tenantOf(item, line);
    group.weight = item.whole("weight", {1, 10000}).value_or(100);
    const auto [floor, ceiling] = plan_node::boundsFields(item);
    group.floor = floor;
    group.ceiling = ceiling;
    group.isolation = objects::isolationField(item);
    group.lends = objects::wordField(item, "lend", "rule of lending", {"when-idle", "never"}).value_or(0) == 0;
    objects::eachItem(item, "members", "rules that find its processes: pids, command, cgroup, runtime, container or pod", kMost,
                      [&group](Fields& rule, int /*line*/) { addRule(rule, group); });
    readHints(item, group.hints);
    file_.groups.push_back(std::move(group));
  }

  std::size_t tenantOf(Fields& item, int line) {
    if (item.require("tenant", "whose group it is") == nullptr) return 0;
    const std::optional<std::string> name = item.text("tenant");
    if (!name) return 0;
    if (const auto known = plan_node::tenantNamed(file_.tenants, *name)) return *known;
    if (tenantsListed_) return plan_node::refuseTenant(item, *name, file_.tenants), 0;
    if (const auto wrong = objects::tenantNameFault(*name)) item.fault("tenant", *wrong);
    plan_node::TenantEntry tenant;
    tenant.name = *name;
    tenant.line = line;
    file_.tenants.push_back(std::move(tenant));
    return file_.tenants.size() - 1;
  }

  static void addRule(Fields& rule, AgentGroup& group) {
    foreign::MemberRule made;
    made.pids = pidsField(rule);
    made.command = patternField(rule, "command");
    made.cgroup = patternField(rule, "cgroup");
    // A cgroup's path begins with a slash: what begins with another letter is the path of none.
    if (!made.cgroup.empty() && std::string_view("/*?[\\").find(made.cgroup.front()) == std::string_view::npos)
      rule.fault("cgroup", "can match no cgroup, whose path begins with /: wanted \"/" + made.cgroup.substr(0, 60) + "\"");
    made.container = patternField(rule, "container");
    made.pod = patternField(rule, "pod");
    if (const auto word = objects::wordField(rule, "runtime", "runtime", {"none", "kubernetes", "containerd", "cri-o", "docker", "podman"}))
      made.runtime = static_cast<foreign::Runtime>(*word);
    const objects::RoleNeed need = objects::roleFields(rule, {ContainerRole::App, ContainerRole::Init, ContainerRole::Sidecar});
    made.role = need.role;
    made.floor = need.floor;
    const bool asks =
        !made.pids.empty() || !made.command.empty() || !made.cgroup.empty() || !made.container.empty() || !made.pod.empty() || made.runtime;
    const bool empty = rule.members()->empty() || rule.find("role") != nullptr;
    if (!asks && empty) rule.fault("pids", "missing, as is everything else: the rule would take every process of the machine");
    group.members.push_back(std::move(made));
  }

  static void readHints(Fields& item, HintSpec& hints) {
    Fields fields = item.map("hints");
    if (!fields.present()) return;
    if (auto file = fields.text("file")) {
      if (file->empty() || file->front() != '/') {
        fields.fault("file", "wanted an absolute path, as /run/coterie/{container}.json");
      } else if (file->find("{container}") == std::string::npos && file->find("{pid}") == std::string::npos) {
        fields.fault("file", "several containers would share it: put {container} or {pid} into it");
      }
      hints.file = std::move(*file);
    }
    constexpr std::array<std::string_view, 3> kSignals{"SIGHUP", "SIGUSR1", "SIGUSR2"};
    if (const auto word = objects::wordField(fields, "signal", "signal", std::vector<std::string_view>(kSignals.begin(), kSignals.end())))
      hints.signalName = kSignals[*word];
    if (!hints.signalName.empty() && hints.file.empty()) fields.fault("signal", "says nothing alone: name the file that holds the count");
    if (auto url = fields.text("http")) {
      if (!parseHookUrl(*url)) fields.fault("http", "wanted http://ADDRESS:PORT/PATH with an IP address, as http://127.0.0.1:9000/threads");
      hints.http = std::move(*url);
    }
    if (fields.members()->empty()) item.fault("hints", "is empty: wanted file or http, or leave the field out");
    fields.finish();
  }

  void refuseSharedPids() {
    std::map<int, std::size_t> groups;
    for (std::size_t g = 0; g < file_.groups.size(); ++g) {
      for (const foreign::MemberRule& rule : file_.groups[g].members) {
        for (const int pid : rule.pids) {
          const auto [first, fresh] = groups.try_emplace(pid, g);
          if (fresh || first->second == g) continue;
          faults_.push_back(
              {"groups[" + std::to_string(g) + "].members", 0,
               "process " + std::to_string(pid) + " is a member of " + file_.groups[first->second].name + " too: take it from one of them"});
        }
      }
    }
  }

  AgentFile& file_;
  Faults& faults_;
  bool tenantsListed_{false};
  objects::UniqueNames tenantNames_;
  objects::UniqueNames groupNames_;
};

}  // namespace

std::string_view modeName(Mode mode) { return mode == Mode::Enforce ? "enforce" : "observe"; }

ReadAgentFile readAgentFile(std::string_view yaml) {
  ReadAgentFile read;
  text::Documents documents = text::parseYaml(yaml);
  read.faults = std::move(documents.faults);
  if (!read.faults.empty()) return read;
  if (documents.values.size() != 1) {
    const bool none = documents.values.empty();
    read.faults.push_back(
        {"", none ? 1 : documents.values[1].line, none ? "holds nothing: wanted groups" : "a second document: wanted one, without ---"});
    return read;
  }
  Reader(read).readDocument(documents.values.front());
  return read;
}

std::vector<foreign::GroupRules> rulesOf(const AgentFile& file) {
  std::vector<foreign::GroupRules> rules;
  for (const AgentGroup& group : file.groups) rules.push_back({group.name, group.members});
  return rules;
}

}  // namespace coterie::node_agent
