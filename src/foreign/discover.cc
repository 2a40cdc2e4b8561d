#include "foreign/discover.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "foreign/pattern.h"

namespace coterie::foreign {

namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);
constexpr int kInit = 1;
constexpr std::size_t kLongestShown = 60;

std::string_view programOf(std::string_view command) { return command.substr(0, command.find(' ')); }

// "/opt/tritonserver/bin/tritonserver --port 1" -> "tritonserver --port 1"
std::string_view withoutFolder(std::string_view command) {
  const std::size_t slash = programOf(command).rfind('/');
  return slash == std::string_view::npos ? command : command.substr(slash + 1);
}

bool isPause(const SeenProcess& process) { return withoutFolder(programOf(process.command)) == "pause"; }

bool holds(const MemberRule& rule, const SeenProcess& process, const ContainerName& name) {
  if (!rule.pids.empty() && std::find(rule.pids.begin(), rule.pids.end(), process.pid) == rule.pids.end()) return false;
  if (!rule.command.empty() && !matches(rule.command, process.command) && !matches(rule.command, withoutFolder(process.command))) return false;
  if (!rule.cgroup.empty() && !matches(rule.cgroup, process.cgroup)) return false;
  if (!rule.container.empty() && !matches(rule.container, name.id)) return false;
  if (!rule.pod.empty() && !matches(rule.pod, name.pod)) return false;
  return !rule.runtime || *rule.runtime == name.runtime;
}

// The init, and those below which the caller runs: an init's or a shell's CPUs would be those of all that it begins from then on.
std::set<int> withParents(const std::vector<SeenProcess>& processes, int self) {
  std::set<int> all{kInit};
  int pid = self;
  const auto is = [&pid](const SeenProcess& process) { return process.pid == pid; };
  for (auto at = processes.begin(); (at = std::find_if(processes.begin(), processes.end(), is)) != processes.end() && all.insert(pid).second;)
    pid = at->parent;
  all.insert(self);
  return all;
}

class Search {
 public:
  Search(const std::vector<GroupRules>& groups, const std::vector<SeenProcess>& processes, int self) : groups_(groups) {
    const std::set<int> nobodys = withParents(processes, self);
    for (const SeenProcess& process : processes) {
      if (nobodys.count(process.pid) > 0 || process.command.empty()) continue;  // kernel threads have no command line
      seen_.try_emplace(process.pid, Seen{&process, containerOf(process.cgroup), kNone, kNone, nullptr});
    }
  }

  Discovery run() {
    for (auto& [pid, seen] : seen_) seen.group = groupOf(seen);
    addContainers();
    addPauses();
    addPlain();
    std::sort(found_.containers.begin(), found_.containers.end(), [](const FoundContainer& a, const FoundContainer& b) {
      return std::tuple(a.group, a.started(), std::string_view(a.key)) < std::tuple(b.group, b.started(), std::string_view(b.key));
    });
    found_.remarks.assign(remarks_.begin(), remarks_.end());
    return std::move(found_);
  }

 private:
  struct Seen {
    const SeenProcess* process;
    ContainerName name;
    std::size_t group;  // by the rules
    std::size_t owner;  // outside of containers: whose it is, itself or inherited
    const MemberRule* rule;
    int root{0};  // of the same
    bool settled{false};
  };

  std::size_t groupOf(Seen& seen) {
    std::size_t first = kNone;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto& rules = groups_[g].members;
      const auto rule = std::find_if(rules.begin(), rules.end(), [&](const MemberRule& one) { return holds(one, *seen.process, seen.name); });
      if (rule == rules.end()) continue;
      if (first == kNone) {
        first = g;
        seen.rule = &*rule;
      } else {
        remark(*seen.process, "is named by " + groups_[first].name + " and by " + groups_[g].name + ": it counts to the first");
      }
    }
    return first;
  }

  void remark(const SeenProcess& process, const std::string& what) {
    remarks_.insert("process " + std::to_string(process.pid) + " (" + process.command.substr(0, kLongestShown) + ") " + what);
  }

  void addContainers() {
    std::map<std::string, std::map<std::string, std::vector<const Seen*>>> byId;  // id, then cgroup
    for (const auto& [pid, seen] : seen_) {
      if (!seen.name.id.empty()) byId[seen.name.id][seen.name.cgroup].push_back(&seen);
    }
    for (auto& [id, places] : byId) {
      std::vector<const Seen*> members;
      std::tuple<std::uint64_t, int> newest{0, -1};
      for (auto& [cgroup, here] : places) {
        std::sort(here.begin(), here.end(), [](const Seen* a, const Seen* b) { return began(*a) < began(*b); });
        if (began(*here.front()) < newest) continue;
        newest = began(*here.front());
        members = here;
      }
      addContainer(id, members, places.size());
    }
  }

  static std::vector<SeenProcess> processesOf(const std::vector<const Seen*>& members) {
    std::vector<SeenProcess> processes;
    for (const Seen* member : members) processes.push_back(*member->process);
    return processes;
  }

  // To the first group that has another container of the pod.
  void addPauses() {
    for (FoundContainer& pause : pauses_) {
      for (const FoundContainer& other : found_.containers) {
        if (other.role != ContainerRole::Pause && other.name.pod == pause.name.pod) pause.group = std::min(pause.group, other.group);
      }
      if (pause.group != kNone) found_.containers.push_back(std::move(pause));
    }
  }

  static std::tuple<std::uint64_t, int> began(const Seen& seen) { return {seen.process->started, seen.process->pid}; }

  void addContainer(const std::string& id, const std::vector<const Seen*>& members, std::size_t places) {
    std::size_t group = kNone;
    for (const Seen* member : members) group = std::min(group, member->group);
    if (std::all_of(members.begin(), members.end(), [](const Seen* member) { return isPause(*member->process); })) {
      if (!members.front()->name.pod.empty()) pauses_.push_back({id, kNone, members.front()->name, processesOf(members), ContainerRole::Pause});
      return;
    }
    if (group == kNone) return;
    FoundContainer container{id, group, members.front()->name, processesOf(members)};
    const auto named = std::find_if(members.begin(), members.end(), [&](const Seen* member) { return member->group == group; });
    container.role = (*named)->rule->role;
    container.floor = (*named)->rule->floor;
    for (const Seen* member : members) {
      if (member->group != kNone && member->group != group)
        remark(*member->process, "is in a container of " + groups_[group].name + ": it counts to that, not to " + groups_[member->group].name);
    }
    if (places > 1)
      remarks_.insert("container " + id.substr(0, 12) + " is there " + std::to_string(places) + " times: the one begun last counts, at " +
                      container.name.cgroup);
    found_.containers.push_back(std::move(container));
  }

  // Who owns a process outside of containers: itself if a rule names it and its parent is not of the same group, else as its parent.
  void settle(Seen& start) {
    std::vector<Seen*> chain{&start};
    while (!chain.back()->settled) {
      chain.back()->settled = true;  // also ends a circle, which a scan across a reused pid might show
      const auto parent = seen_.find(chain.back()->process->parent);
      if (parent == seen_.end() || !parent->second.name.id.empty()) break;
      chain.push_back(&parent->second);
    }
    const Seen* above = nullptr;
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
      Seen& seen = **it;
      if (seen.owner == kNone && seen.group != kNone && (above == nullptr || above->owner != seen.group)) {
        seen.owner = seen.group;
        seen.root = seen.process->pid;
      } else if (seen.owner == kNone && above != nullptr) {
        seen.owner = above->owner;
        seen.root = above->root;
      }
      above = &seen;
    }
  }

  void addPlain() {
    std::map<int, std::vector<const Seen*>> byRoot;
    for (auto& [pid, seen] : seen_) {
      if (!seen.name.id.empty()) continue;
      settle(seen);
      if (seen.owner != kNone) byRoot[seen.root].push_back(&seen);
    }
    for (auto& [root, members] : byRoot) {
      std::sort(members.begin(), members.end(), [own = root](const Seen* a, const Seen* b) {
        return std::tuple(a->process->pid != own, began(*a)) < std::tuple(b->process->pid != own, began(*b));
      });
      const Seen& first = *members.front();
      FoundContainer container{std::to_string(root) + "@" + std::to_string(first.process->started), first.owner, {}, processesOf(members)};
      if (first.rule != nullptr) container.role = first.rule->role, container.floor = first.rule->floor;
      found_.containers.push_back(std::move(container));
    }
  }

  const std::vector<GroupRules>& groups_;
  std::map<int, Seen> seen_;
  std::set<std::string> remarks_;
  std::vector<FoundContainer> pauses_;
  Discovery found_;
};

}  // namespace

Discovery discover(const std::vector<GroupRules>& groups, const std::vector<SeenProcess>& processes, int self) {
  return Search(groups, processes, self).run();
}

bool mayFindOthers(const std::vector<GroupRules>& groups, const std::vector<SeenProcess>& first, const std::vector<SeenProcess>& second,
                   const std::set<int>& owned, int self) {
  if (withParents(first, self) != withParents(second, self)) return true;
  const auto concerns = [&](const SeenProcess& process) {
    if (owned.count(process.pid) > 0 || owned.count(process.parent) > 0) return true;
    const ContainerName name = containerOf(process.cgroup);
    const auto names = [&](const MemberRule& rule) { return holds(rule, process, name); };
    return !name.id.empty() || std::any_of(groups.begin(), groups.end(),
                                           [&](const GroupRules& group) { return std::any_of(group.members.begin(), group.members.end(), names); });
  };
  auto before = first.begin();
  auto after = second.begin();
  while (before != first.end() || after != second.end()) {
    const bool left = before != first.end() && (after == second.end() || before->pid < after->pid);
    const bool came = after != second.end() && (before == first.end() || after->pid < before->pid);
    const bool differs = left || came || *before != *after;
    if (differs && ((!came && concerns(*before)) || (!left && concerns(*after)))) return true;
    if (!came) ++before;
    if (!left) ++after;
  }
  return false;
}

}  // namespace coterie::foreign
