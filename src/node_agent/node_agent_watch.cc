// What the agent reads of containers between scans, and what it does about throttling and pressure.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/count_text.h"
#include "base/log.h"
#include "node_agent/node_agent.h"

namespace coterie::node_agent {

namespace {

constexpr Seconds kThreadsEach{30};      // of a container at rest: a thread that wants to run gets to it long before
constexpr std::int64_t kRestShare = 50;  // it ran for less than one such part of the time
constexpr Seconds kHintSettles{2};       // a server hears its hint between two of its runs

std::string cpusText(MilliCpu cpus) { return fmt::format("{:.2f}", static_cast<double>(cpus.value) / 1000); }

}  // namespace

// Reads what is due; while enforcing soon again, where there is something to decide.
void NodeAgent::watchNow() {
  watchTimer_.reset();
  if (!watch_) return;
  const Instant now = ports_.loop.clock().now();
  std::set<InstanceId> closely;
  if (!lending_.loans().empty()) {
    for (const auto& [id, container] : roster_.members()) closely.insert(id);  // whose CPU is lent, and who has it
  }
  const ContainerWatch::Events events = watch_->look(now, closely);
  for (const InstanceId id : events.throttled) throttled(id);
  if (mode_ != Mode::Enforce) return;
  if (!events.pressed.empty() && lending_.loans().empty()) lend();  // while something is lent that is looked at anyway
  const auto due = watch_->nextDue();
  if (!due) return;
  constexpr Nanos kLeast{Millis(100)};
  if (*due - now < Nanos{config_.scanInterval}) watchTimer_ = ports_.loop.after(std::max(kLeast, *due - now), [this] { watchNow(); });
}

void NodeAgent::watchMembers(const foreign::Roster::Change& change) {
  if (!watch_) return;
  const Instant now = ports_.loop.clock().now();
  for (const auto& [id, container] : change.left) {
    watch_->close(id);
    quotas_.erase(id);
  }
  const auto open = [&](InstanceId id) {
    const foreign::FoundContainer& container = roster_.members().at(id);
    watch_->open(id, container.pid(), container.name.cgroup, now);
  };
  for (const InstanceId id : change.joined) open(id);
  for (const InstanceId id : change.changed) {
    const ContainerWatch::Seen* seen = watch_->seen(id);
    if (seen == nullptr || !seen->cpu) open(id);  // its first process was not in its cgroup yet
  }
}

// Threads are looked at where something ran; each look is some small reads for every one of them.
void NodeAgent::measureContainer(InstanceId id, const foreign::FoundContainer& container, Instant now, Nanos span) {
  foreign::UseMeter& meter = meters_.try_emplace(id, Nanos{config_.window}).first->second;
  const auto ran = watch_ ? watch_->takeRan(id) : std::nullopt;
  if (ran && *ran * kRestShare < span && now - meter.lastThreads() < kThreadsEach) return meter.rest(now, *ran);
  std::vector<ThreadTimes> threads;
  for (const SeenProcess& process : container.processes) {
    const std::vector<ThreadTimes> more = ports_.processes.threads(process.pid);
    threads.insert(threads.end(), more.begin(), more.end());
  }
  meter.look(now, threads);
}

std::int64_t NodeAgent::pressureOf(InstanceId id) const {
  const ContainerWatch::Seen* seen = watch_ ? watch_->seen(id) : nullptr;
  return seen != nullptr && seen->pressure ? seen->pressure->somePermille : 0;
}

// A quota that was meant for a shared machine holds a container back on CPUs that nobody else uses.
void NodeAgent::throttled(InstanceId id) {
  const auto limit = ports_.meter->quota(id);
  QuotaState& state = quotas_[id];
  state.above = !limit || limit->cpus.value == 0 || (state.raised.value > 0 && limit->cpus >= state.raised);
  if (state.above) return;
  if (state.raised.value == 0) state.found = limit->cpus;
  state.raised = {};  // it is not in force
  matchQuota(id);
}

// The quota follows the CPUs that the container owns; one in the pool keeps what it was given.
void NodeAgent::matchQuota(InstanceId id) {
  const auto known = quotas_.find(id);
  if (mode_ != Mode::Enforce || known == quotas_.end() || known->second.found.value == 0) return;
  QuotaState& state = known->second;
  const CpuSet home = drc_->plannedHome(id);
  const auto loans = lending_.loans().find(id);
  const bool own = !home.empty() && home != drc_->view().pool;
  const MilliCpu least{own ? 1000LL * (loans == lending_.loans().end() ? home : home | loans->second).count() : 0};
  const MilliCpu wanted = least > state.found ? least : MilliCpu{};
  if (wanted == state.raised) return;
  auto prepared = actuators_.controller->prepareQuota(id, least);
  state.refused = !prepared.ok();
  if (!prepared) {
    if (warned_.insert(prepared.error().message).second) log::warning("agent", prepared.error().message);
    return;
  }
  const bool first = wanted.value > 0 && !state.said;
  state.said = wanted.value > 0;
  state.raised = wanted;
  if (const foreign::FoundContainer* container = member(id); container != nullptr && first) log::info("agent", throttleText(id, *container));
  if (prepared->writes.empty()) return;
  submit(std::move(*prepared));
}

// Why it is, or was, held back, and by whom; empty: it is not.
std::string NodeAgent::throttleText(InstanceId id, const foreign::FoundContainer& container) const {
  const auto state = quotas_.find(id);
  const ContainerWatch::Seen* seen = watch_ ? watch_->seen(id) : nullptr;
  if (state == quotas_.end() || seen == nullptr) return {};
  const std::string who = containerName(container);
  const auto runtime = container.name.runtime;
  const std::string setter = runtime == foreign::Runtime::None ? "whoever made its cgroup" : std::string(foreign::runtimeName(runtime));
  const std::string quota = "its quota of " + cpusText(state->second.found) + " CPUs, which " + setter + " set";
  if (state->second.raised.value > 0)
    return who + " owns " + cpusText(state->second.raised) + " CPUs and was throttled by " + quota + ": raised while it owns them";
  if (seen->throttledLately == 0) return {};
  if (state->second.above) return who + " is throttled by a limit above its own cgroup (its pod's or slice's), which is left as it is";
  const char* const then = state->second.refused    ? "; it cannot be raised"
                           : mode_ == Mode::Observe ? "; enforcing would raise it while the container owns more CPUs"
                                                    : "; it has no CPUs of its own, so the quota stays";
  return who + " is throttled by " + quota + then;
}

std::string NodeAgent::limitText(const ContainerReport& container) const {
  const char* const cannot = mode_ == Mode::Enforce ? " cannot have " : " could not be given ";
  const std::string stays = container.now.empty() ? "" : "; it runs on " + cpusNamed(container.now);
  return container.name + cannot + cpusNamed(container.planned) + ": " + container.limit + stays + ". Widen that cgroup's cpuset.cpus";
}

// Of one that waits and keeps what it had, before that was reserved; empty: it is not there, or was never given a set.
std::string NodeAgent::reservedText(const ContainerReport& container) const {
  const CpuSet reserved = container.now & reserved_;
  if (mode_ != Mode::Enforce || reserved.empty() || machine_.allowed.isSubsetOf(container.now)) return {};
  return container.name + " still runs on " + cpusNamed(reserved) + (reserved.count() == 1 ? ", which is reserved now" : ", which are reserved now") +
         ": it keeps the CPUs it had until its group fits";
}

HintSeen NodeAgent::hintSeen(InstanceId id, const foreign::Use& last) const {
  const auto told = hints_.find(id);
  if (told == hints_.end() || told->second.threads == 0) return HintSeen::None;
  const auto when = toldAt_.find(id);
  const bool young = when == toldAt_.end() || ports_.loop.clock().now() - when->second < kHintSettles;
  if (young || !last.known() || last.busyThreads == 0) return HintSeen::Told;
  return last.busyThreads <= told->second.threads ? HintSeen::TakenUp : HintSeen::NotTakenUp;
}

void NodeAgent::addWatched(ContainerReport& report, const foreign::Use& last) const {
  report.hint = hintSeen(report.id, last);
  if (const ContainerWatch::Seen* seen = watch_ ? watch_->seen(report.id) : nullptr; seen != nullptr) report.seen = *seen;
  const auto state = quotas_.find(report.id);
  if (state == quotas_.end()) return;
  report.quota = state->second.found;
  report.quotaRaised = state->second.raised;
}

}  // namespace coterie::node_agent
