// Another configuration for an agent that runs; and one that cannot be had yet, tried again.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/count_text.h"
#include "base/log.h"
#include "node_agent/node_agent.h"

namespace coterie::node_agent {

namespace {

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

// What the file names and the machine does not have; empty: nothing.
std::string NodeAgent::notOfThisMachine(const AgentFile& file) const {
  const CpuSet absent = file.reserved.value_or(CpuSet{}) - machine_.present;
  if (absent.empty()) return {};
  return "reserved: the machine has no " + cpusNamed(absent) + ": it has " + machine_.present.toString() + "; leave that out";
}

void NodeAgent::reconfigure(AgentFile file) {
  if (const std::string fault = notOfThisMachine(file); !fault.empty()) return refuseConfiguration({fault});
  refused_.reset();
  again_ = false;
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
  next_.reset();  // an older one that waited is not what the file says now
  refused_.reset();
  reloadTimer_.reset();
  giveUpClaim();
  sayRefused(faults, "the configuration file is refused as a whole: the one before it stays in force");
}

void NodeAgent::sayRefused(const std::vector<std::string>& faults, const std::string& what) {
  for (const std::string& fault : faults) log::warning("agent", fault);
  log::warning("agent", what);
  ++configured_.refused;
  ++changes_;
  configured_.faults = faults;
}

// Refused for now, for a reason that lies outside the file.
void NodeAgent::putOff(const std::string& reason) {
  refused_ = std::exchange(next_, std::nullopt);
  tryAt_ = ports_.loop.clock().now() + kTriesAgain;
  const std::vector<std::string> faults{reason + " (tried again every " + std::to_string(kTriesAgain.count()) + " s)"};
  if (!again_ || configured_.faults != faults)
    sayRefused(faults, "the configuration file is sound, and cannot be put in force yet: the one before it stays so meanwhile");
}

// What is wanted and could not be had: the file that was refused, else that in force, while this only observes.
void NodeAgent::tryAgain() {
  const Instant now = ports_.loop.clock().now();
  if (next_ || now < tryAt_) return;
  tryAt_ = now + kTriesAgain;
  if (refused_) {
    next_ = std::exchange(refused_, std::nullopt);
    again_ = true;
    return applyNext();
  }
  if (mode_ == Mode::Observe && book_.file().mode == Mode::Enforce && ports_.openActuators) enforceAgain();
}

void NodeAgent::enforceAgain() {
  if (kubeletOwns(book_.file())) return giveUpClaim(), observeBecause(kKubeletOwns);
  const auto opened = actuatorsFor(book_.file(), [this] { enforceAgain(); });
  if (!opened) return;
  if (!*opened) return observeBecause(opened->error().message);
  if (const Status begun = beginEnforcing(**opened); !begun) return endEnforcing(begun.error().message);
  ++changes_;
  log::info("agent", "nothing is in the way of enforcing any more: CPU sets are given from now on");
}

// What CPU sets are given with, for one that observes. nullopt: it is not decided yet who enforces here; then again() is called when it may be.
std::optional<Result<NodeAgent::Actuators>> NodeAgent::actuatorsFor(const AgentFile& file, std::function<void()> again) {
  if (ports_.claimMachine) {
    claims_ = true;
    const auto later = ports_.claimMachine();
    if (!later) return giveUpClaim(), later.error();
    if (*later) {
      reloadTimer_ = ports_.loop.after(**later, std::move(again));
      return std::nullopt;
    }
  }
  auto opened = ports_.openActuators(file);
  if (!opened) giveUpClaim();
  return opened;
}

void NodeAgent::giveUpClaim() {
  if (std::exchange(claims_, false) && ports_.closeActuators) ports_.closeActuators();
}

void NodeAgent::applyNext() {
  if (!next_) return;
  const bool enforces = next_->mode == Mode::Enforce && ports_.openActuators && !kubeletOwns(*next_);
  if (!enforces || mode_ == Mode::Enforce) {
    giveUpClaim();  // of an older file's
    return adoptNext(enforces, std::nullopt);
  }
  const auto opened = actuatorsFor(*next_, [this] { applyNext(); });
  if (!opened) return;
  if (!*opened) return putOff(opened->error().message);
  adoptNext(enforces, **opened);
}

// All that is done here is one turn of the loop, so it is one event to the controller. begins: with these.
void NodeAgent::adoptNext(bool enforces, std::optional<Actuators> begins) {
  AgentFile file = *std::exchange(next_, std::nullopt);
  // Memory nodes are followed from the first look at a container on, or not: it is looked at anew.
  const bool anew = enforces && !begins && file.keepsMemoryNodes != book_.file().keepsMemoryNodes;
  if (anew) giveBackAll();
  if (!enforces) {
    const std::string why = file.mode == Mode::Enforce && ports_.openActuators ? kKubeletOwns : "";
    if (drc_ != nullptr) endEnforcing(why);
    observeBecause(why);
  }
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
    begins = *opened;
  }
  if (!begins) return planObserved();
  if (const Status begun = beginEnforcing(*begins); !begun) endEnforcing(begun.error().message);
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
