#include "node_agent/group_book.h"

#include <algorithm>
#include <utility>

namespace coterie::node_agent {

namespace {

ServiceName serviceOf(const AgentGroup& group, const std::string& tenant) {
  const std::size_t slash = group.name.find('/');
  if (slash == std::string::npos) return {tenant, group.name};
  return {group.name.substr(0, slash), group.name.substr(slash + 1)};
}

// Names of what differs, with a comma between two; empty: nothing.
class Differences {
 public:
  template <class T>
  void note(const char* name, const T& before, const T& now) {
    if (!(before == now)) text_ += (text_.empty() ? "" : ", ") + std::string(name);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string groupDifferences(const AgentFile& oldFile, const AgentGroup& before, const AgentFile& newFile, const AgentGroup& now) {
  const plan_node::TenantEntry& oldTenant = oldFile.tenants[before.tenant];
  const plan_node::TenantEntry& newTenant = newFile.tenants[now.tenant];
  Differences found;
  found.note("tenant", oldTenant.name, newTenant.name);
  if (oldTenant.name == newTenant.name) {
    found.note("weight of its tenant", oldTenant.weight, newTenant.weight);
    found.note("quota of its tenant", oldTenant.cap, newTenant.cap);
  }
  found.note("weight", before.weight, now.weight);
  found.note("minCpus", before.floor, now.floor);
  found.note("maxCpus", before.ceiling, now.ceiling);
  found.note("isolation", before.isolation, now.isolation);
  found.note("lend", before.lends, now.lends);
  found.note("members", before.members, now.members);
  found.note("hints", before.hints, now.hints);
  return found.text();
}

}  // namespace

GroupBook::Change GroupBook::adopt(AgentFile file) {
  Change change;
  Differences whole;
  whole.note("mode", file_.mode, file.mode);
  whole.note("reserved", file_.reserved, file.reserved);
  whole.note("kubeletState", file_.kubeletState, file.kubeletState);
  whole.note("cacheClasses", file_.cacheClasses, file.cacheClasses);
  whole.note("memoryNodes", file_.keepsMemoryNodes, file.keepsMemoryNodes);
  if (!whole.text().empty()) change.changed.push_back(whole.text());
  std::map<std::string, std::size_t> before;  // numbers by name
  for (const std::size_t number : numbers_) before.emplace(group(number).name, number);
  std::vector<std::size_t> numbers, kept;
  std::map<std::size_t, std::size_t> places;
  for (std::size_t place = 0; place < file.groups.size(); ++place) {
    const AgentGroup& now = file.groups[place];
    const auto known = before.find(now.name);
    const std::size_t number = known != before.end() ? known->second : nextGroup_++;
    if (known == before.end()) {
      change.added.push_back(now.name);
    } else if (const std::string what = groupDifferences(file_, group(number), file, now); !what.empty()) {
      change.changed.push_back(now.name + " (" + what + ")");
    }
    if (known != before.end()) kept.push_back(number);
    numbers.push_back(number);
    places.emplace(number, place);
  }
  for (const std::size_t number : numbers_) {
    if (places.count(number) > 0) continue;
    change.removed.push_back(group(number).name);
    change.gone.push_back(number);
  }
  std::vector<std::size_t> order = numbers_;
  std::erase_if(order, [&](std::size_t number) { return places.count(number) == 0; });
  if (order != kept) change.changed.emplace_back("the order of the groups");
  std::map<std::string, std::int32_t> tenants;
  for (const plan_node::TenantEntry& tenant : file.tenants) {
    const auto known = tenantNumbers_.find(tenant.name);
    tenants.emplace(tenant.name, known != tenantNumbers_.end() ? known->second : nextTenant_++);
  }
  file_ = std::move(file);
  rules_ = rulesOf(file_);
  numbers_ = std::move(numbers);
  places_ = std::move(places);
  tenantNumbers_ = std::move(tenants);
  return change;
}

agent::GroupSpec GroupBook::specOf(std::size_t number) const {
  const AgentGroup& one = group(number);
  const plan_node::TenantEntry& tenant = file_.tenants[one.tenant];
  agent::GroupSpec spec;
  spec.id = GroupId(static_cast<std::int32_t>(number));
  spec.service = serviceOf(one, tenant.name);
  spec.tenant = TenantId(tenantNumbers_.at(tenant.name));
  spec.tenantWeight = tenant.weight;
  spec.tenantCap = tenant.cap;
  spec.weight = one.weight;
  spec.floor = one.floor;
  spec.ceiling = one.ceiling;
  spec.isolation = one.isolation;
  return spec;
}

foreign::Discovery GroupBook::discover(const std::vector<SeenProcess>& processes, int self) const {
  foreign::Discovery found = foreign::discover(rules_, processes, self);
  for (foreign::FoundContainer& container : found.containers) container.group = numbers_[container.group];
  return found;
}

}  // namespace coterie::node_agent
