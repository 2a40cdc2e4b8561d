// Another configuration for an agent that runs.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/log.h"
#include "node_agent/node_agent.h"

namespace coterie::node_agent {

namespace {

constexpr Seconds kWaitsForWrites{1};
constexpr Millis kPause{5};

void add(std::string& text, const char* what, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) text += (i > 0 ? ", " : (text.empty() ? "" : "; ") + std::string(what)) + names[i];
}

std::string changeText(const GroupBook::Change& change) {
  std::string text;
  add(text, "added ", change.added);
  add(text, "removed ", change.removed);
  add(text, "changed ", change.changed);
  return text.empty() ? "nothing is different" : text;
}

}  // namespace

void NodeAgent::submit(PreparedChange change) {
  std::vector<agent::ApplyStep> steps;
  steps.push_back({std::move(change), {}});
  std::erase_if(written_, [](const auto& batch) { return batch->allFinal(); });
  written_.push_back(std::make_shared<agent::ApplyBatch>(std::move(steps)));
  actuators_.applier->submit(written_.back());
}

// Nothing will be written any more that was decided before now: what is given back now stays so.
bool NodeAgent::quiet() {
  std::erase_if(written_, [](const auto& batch) { return batch->allFinal(); });
  return drc_ == nullptr || (drc_->settled() && written_.empty());
}

void NodeAgent::reconfigure(AgentFile file) {
  const bool waits = next_.has_value();
  next_ = std::move(file);
  if (waits) return;
  if (mode_ == Mode::Enforce) parkLoans();  // whose they are may be another's soon
  awaitReload(ports_.loop.clock().now() + kWaitsForWrites);
}

void NodeAgent::awaitReload(Instant until) {
  if (quiet() || ports_.loop.clock().now() >= until) return applyNext();
  reloadTimer_ = ports_.loop.after(kPause, [this, until] { awaitReload(until); });
}

void NodeAgent::refuseConfiguration(const std::vector<std::string>& faults) {
  for (const std::string& fault : faults) log::warning("agent", fault);
  log::warning("agent", "the configuration file is refused as a whole: the one before it stays in force");
  ++configured_.refused;
  ++changes_;
  configured_.faults = faults;
  next_.reset();  // an older one that waited is not what the file says now
}

// All that is done here is one turn of the loop, so it is one event to the controller.
void NodeAgent::applyNext() {
  if (!next_) return;
  AgentFile file = *std::exchange(next_, std::nullopt);
  const bool wanted = file.mode == Mode::Enforce && ports_.openActuators;
  const bool kubelet = wanted && kubeletOwns(file);
  const bool enforces = wanted && !kubelet;
  const bool begins = enforces && mode_ == Mode::Observe;
  // Memory nodes are followed from the first look at a container on, or not: it is looked at anew.
  const bool anew = enforces && !begins && file.keepsMemoryNodes != book_.file().keepsMemoryNodes;
  Actuators actuators;
  if (begins) {
    const auto opened = ports_.openActuators(file);
    if (!opened) return refuseConfiguration({opened.error().message});
    actuators = *opened;
  }
  const std::string why = kubelet ? kKubeletOwns : "";
  if (drc_ != nullptr && (anew || !enforces)) endEnforcing(why);
  why_ = why;
  const GroupBook before = book_;
  const GroupBook::Change change = book_.adopt(std::move(file));
  reserved_ = book_.file().reserved.value_or(agent::defaultReserved(machine_)) & machine_.allowed;
  ++configured_.reloads;
  configured_.faults.clear();
  ++changes_;
  log::info("agent", "the configuration was read again: " + changeText(change));
  if (auto processes = ports_.processes.scan(); processes.ok()) lastScan_ = std::move(*processes);
  if (mode_ == Mode::Enforce) {
    drc_->setReserved(reserved_);
    drc_->setCacheClasses(book_.file().cacheClasses);
    for (const std::size_t number : book_.numbers()) drc_->setGroup(book_.specOf(number));
  }
  static_cast<void>(updateMembers(before));
  if (mode_ == Mode::Enforce) {
    for (const std::size_t number : change.gone) drc_->removeGroup(GroupId(static_cast<std::int32_t>(number)));
    return rehint();
  }
  if (anew) {
    const auto opened = ports_.openActuators(book_.file());
    if (!opened) return endEnforcing(opened.error().message);
    actuators = *opened;
  }
  if (!begins && !anew) return planObserved();
  if (const Status begun = beginEnforcing(actuators); !begun) endEnforcing(begun.error().message);
}

// Who hears in another way than before, or did not hear at all.
void NodeAgent::rehint() {
  std::vector<InstanceId> others;
  for (const auto& [id, told] : told_) {
    if (!(told.spec == book_.group(told.container.group).hints)) others.push_back(id);
  }
  for (const InstanceId id : others) withdrawHint(id, true);
  for (const auto& [id, container] : roster_.members()) {
    if (hints_.count(id) == 0) hintFor(id, {});
  }
}

}  // namespace coterie::node_agent
