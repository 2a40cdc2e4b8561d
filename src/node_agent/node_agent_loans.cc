// What the enforcing agent lends: looked at with every scan, and ten times a second while something is lent.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "node_agent/node_agent.h"

namespace coterie::node_agent {

namespace {
constexpr Millis kLookWhileLent{100};  // an owner that wakes shares its CPU no longer than this
}

void NodeAgent::lend() {
  lendTimer_.reset();
  if (mode_ != Mode::Enforce || next_ || !drc_->settled()) return;
  std::map<std::size_t, foreign::LendingGroup> groups;
  for (const auto& [id, planned] : drc_->homes()) {
    const auto number = static_cast<std::size_t>(id.value);
    if (!book_.has(number)) continue;  // its last container is about to end
    const agent::GroupSpec told = book_.specOf(number);
    foreign::LendingGroup group;
    group.tenant = told.tenant;
    group.isolation = told.isolation;
    group.apart = planned.apart;
    group.lends = book_.group(number).lends;
    group.ceiling = told.ceiling;
    for (const auto& [instance, home] : planned.homes) {
      const auto meter = meters_.find(instance);
      if (meter == meters_.end() || home.empty()) continue;
      foreign::addUse(group.window, meter->second.use());
      foreign::addUse(group.last, meter->second.last());
      const foreign::FoundContainer* found = member(instance);
      if (found == nullptr || found->role != ContainerRole::App) continue;  // what the others have is not lent
      group.last.pressurePermille = std::max(group.last.pressurePermille, pressureOf(instance));
      group.containers.push_back({instance, home});
    }
    if (!group.containers.empty()) groups.emplace(number, std::move(group));
  }
  const std::map<InstanceId, CpuSet> before = lending_.loans();
  setLoans(before, lending_.look(ports_.loop.clock().now(), groups));
  if (lending_.loans().empty()) return;
  lendTimer_ = ports_.loop.after(kLookWhileLent, [this] {
    watchNow();
    measure();
    lend();
  });
}

// Who gives back is told and written before who gets.
void NodeAgent::setLoans(const std::map<InstanceId, CpuSet>& before, const std::map<InstanceId, CpuSet>& after) {
  for (const auto& [id, cpus] : before) {
    const auto now = after.find(id);
    const CpuSet left = now == after.end() ? CpuSet{} : now->second & cpus;
    if (left != cpus) setLoan(id, left);
  }
  for (const auto& [id, cpus] : after) {
    const auto was = before.find(id);
    if (was == before.end() || !cpus.isSubsetOf(was->second)) setLoan(id, cpus);
  }
}

void NodeAgent::setLoan(InstanceId id, const CpuSet& cpus) {
  if (member(id) == nullptr) return;  // it has gone, with what it had
  hintFor(id, cpus);
  auto prepared = actuators_.controller->prepare({CpuChangeKind::LoanCpus, id, cpus, 0});
  if (!prepared) return;
  submit(std::move(*prepared));
  matchQuota(id);
}

// Before a plan is made: what is lent may get another owner.
void NodeAgent::parkLoans() {
  const std::map<InstanceId, CpuSet> before = lending_.loans();
  lending_.clear();
  setLoans(before, {});
}

}  // namespace coterie::node_agent
