#include "agent/class_keeper.h"

#include <algorithm>
#include <bit>
#include <sstream>
#include <utility>

#include "base/log.h"

namespace coterie::agent {

namespace {

constexpr Seconds kRetryAfter{60};
constexpr int kMostRepairs = 6;
constexpr const char* kRest = "rest";

bool shrinks(const ClassShares& from, const ClassShares& to) {
  return std::all_of(to.begin(), to.end(), [&](const auto& entry) {
    const auto before = from.find(entry.first);
    return before != from.end() && (entry.second.ways & ~before->second.ways) == 0;
  });
}

// What is planned and not said by the kernel as planned.
bool differs(const ClassShares& planned, const ClassShares& seen) {
  return std::any_of(planned.begin(), planned.end(), [&](const auto& entry) {
    const auto found = seen.find(entry.first);
    return found == seen.end() || (entry.second.ways != 0 && found->second.ways != entry.second.ways) ||
           (entry.second.bandwidth != 0 && found->second.bandwidth != entry.second.bandwidth);
  });
}

const CacheClass* named(const std::vector<CacheClass>& classes, const std::string& name) {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const CacheClass& one) { return one.name == name; });
  return found == classes.end() ? nullptr : &*found;
}

}  // namespace

ClassKeeper::ClassKeeper(CacheClasses& classes, CacheClassMode mode, allocation::ClassConfig config)
    : classes_(classes), mode_(mode), config_(config), control_(CacheControl{}) {
  lookAgain();
}

void ClassKeeper::lookAgain() {
  control_ = classes_.read();
  looked_ = true;
}

std::string ClassKeeper::nameOf(const allocation::ClassTarget& target) { return target.tenant ? "t" + std::to_string(target.tenant->value) : kRest; }

// One claim of each tenant with CPUs of its own, and one of nobody for the pool.
std::vector<allocation::ClassClaim> ClassKeeper::claims(const Machine& machine) const {
  std::map<TenantId, allocation::ClassClaim> claims;
  std::map<TenantId, CpuSet> homes;
  for (const ClassedContainer& container : containers_) {
    const TenantId tenant = container.inPool ? TenantId() : container.tenant;
    allocation::ClassClaim& claim = claims[tenant];
    claim.tenant = tenant;
    homes[tenant] |= container.home;
    if (container.inPool) continue;
    claim.own = claim.own || mode_ == CacheClassMode::All || container.isolation != Isolation::None;
    claim.bandwidth = claim.bandwidth || container.isolation == Isolation::Cache || container.isolation == Isolation::Node;
  }
  std::vector<allocation::ClassClaim> all;
  for (auto& [tenant, claim] : claims) {
    for (const int cpu : homes[tenant]) {
      const Cpu* found = machine.findCpu(cpu);
      const auto below = [&](const CacheInstance& cache) { return cache.cpus.contains(cpu); };
      const auto cache = std::find_if(control_->caches.begin(), control_->caches.end(), below);
      if (found != nullptr && cache != control_->caches.end()) claim.owned[cache->id] += found->capacity;
    }
    for (const MemoryNode& node : machine.memoryNodes) {
      if (node.cpus.intersects(homes[tenant])) claim.near |= node.cpus;
    }
    all.push_back(std::move(claim));
  }
  return all;
}

bool ClassKeeper::asks() const {
  return std::any_of(containers_.begin(), containers_.end(), [this](const ClassedContainer& one) {
    return !one.inPool && (mode_ == CacheClassMode::All || one.isolation != Isolation::None);
  });
}

void ClassKeeper::say(const std::string& condition) {
  if (std::find(conditions_.begin(), conditions_.end(), condition) != conditions_.end()) return;
  conditions_.push_back(condition);
  if (said_.insert(condition).second) log::warning("agent", "cache classes: " + condition);
}

void ClassKeeper::plan(const Machine& machine) {
  conditions_.clear();
  allocation::ClassPlan next;
  if (asks() && !control_) say(control_.error().message);
  if (asks() && control_) {
    for (const std::string& lack : control_->lacks) say(lack);
    next = allocation::planClasses(*control_, claims(machine), plan_, config_);
    if (!next.without.empty()) {
      say(std::to_string(next.without.size()) + " tenant" + (next.without.size() == 1 ? " shares" : "s share") +
          " the cache with all others: the kernel has classes for " + std::to_string(control_->classes) + ", of " +
          std::to_string(control_->leastWays) + (control_->leastWays == 1 ? " way" : " ways") + " at least");
    }
  }
  if (next == plan_) return;
  plan_ = std::move(next);
  repairs_ = 0;
}

void ClassKeeper::follow(const Machine& machine, std::vector<ClassedContainer> containers, Instant now) {
  const bool looked = std::exchange(looked_, false);
  if (containers == containers_ && !looked) return;
  containers_ = std::move(containers);
  if (!asks() && plan_.classes.empty()) return conditions_.clear();
  plan(machine);
  apply(now);
  if (!retryAt_) return;
  const Result<CacheControl> before = std::exchange(control_, classes_.read());  // perhaps others have taken classes meanwhile
  if (!control_ || (before && *before == *control_)) return;
  plan(machine);
  apply(now);
}

void ClassKeeper::apply(Instant now) {
  std::set<std::string> wanted;
  for (const allocation::ClassTarget& target : plan_.classes) wanted.insert(nameOf(target));
  const std::vector<CacheClass> before = made_.empty() && wanted.empty() ? std::vector<CacheClass>{} : classes_.list();
  for (const CacheClass& one : before) {
    if (wanted.count(one.name) == 0) classes_.remove(one.name);
  }
  made_.clear();
  std::vector<const allocation::ClassTarget*> order;
  const auto givesUp = [&](const allocation::ClassTarget& target) {
    const CacheClass* old = named(before, nameOf(target));
    return old != nullptr && shrinks(old->shares, target.shares);
  };
  for (const bool first : {true, false}) {
    for (const allocation::ClassTarget& target : plan_.classes) {
      if (givesUp(target) == first) order.push_back(&target);
    }
  }
  retryAt_.reset();
  for (const allocation::ClassTarget* target : order) {
    const std::string name = nameOf(*target);
    const CacheClass* old = named(before, name);
    if (old == nullptr) std::erase_if(joined_, [&](const auto& entry) { return entry.second.name == name; });  // it has gone, or is new
    const bool same = old != nullptr && !differs(target->shares, old->shares);
    const Status set = same ? Status{} : classes_.set({name, target->shares});
    if (set.ok()) {
      made_.insert(name);
      continue;
    }
    say(set.error().message);
    retryAt_ = now + kRetryAfter;
  }
  joinAll(now);
}

// Its tenant's own class, or the rest's; none: no classes are planned.
const allocation::ClassTarget* ClassKeeper::targetOf(TenantId tenant, Place place) const {
  const allocation::ClassTarget* own = place == Place::OwnCpus ? plan_.of(tenant) : nullptr;
  return own != nullptr ? own : plan_.of(std::nullopt);
}

void ClassKeeper::joinAll(Instant now) {
  std::set<InstanceId> here;
  for (const ClassedContainer& container : containers_) here.insert(container.id);
  std::erase_if(joined_, [&](const auto& entry) {
    if (here.count(entry.first) > 0) return false;
    static_cast<void>(classes_.join("", entry.second.processes));  // who lives on is not ours any more; of who has ended there is nothing to move
    return true;
  });
  for (const ClassedContainer& container : containers_) {
    const allocation::ClassTarget* target = targetOf(container.tenant, container.inPool ? Place::Pool : Place::OwnCpus);
    const std::string name = target != nullptr ? nameOf(*target) : std::string();
    if (made_.count(name) == 0 || container.processes.empty()) continue;
    Joined& joined = joined_[container.id];
    if (joined.name != name || joined.processes != container.processes) {
      const auto moved = classes_.join(name, container.processes);
      if (!moved) {
        say(moved.error().message);
        retryAt_ = now + kRetryAfter;
        joined_.erase(container.id);
        continue;
      }
      joined = {name, container.processes, !moved->empty()};
    }
    if (joined.someStayed) say("some processes are in classes of somebody else's (a container runtime's, perhaps), and stay there");
  }
}

// Somebody else wrote or removed a class of ours.
void ClassKeeper::repair(Instant now) {
  const std::vector<CacheClass> seen = classes_.list();
  const bool off = std::any_of(plan_.classes.begin(), plan_.classes.end(), [&](const allocation::ClassTarget& target) {
    const std::string name = nameOf(target);
    const CacheClass* found = named(seen, name);
    return made_.count(name) > 0 && (found == nullptr || differs(target.shares, found->shares));
  });
  if (!off) return;
  if (++repairs_ > kMostRepairs) return say("somebody else keeps writing our classes: they are left so until the next plan");
  apply(now);
}

void ClassKeeper::check(const Machine& machine, Instant now) {
  if (retryAt_ && now >= *retryAt_) {
    lookAgain();
    plan(machine);
    return apply(now);
  }
  if (plan_.classes.empty()) return;
  repair(now);
}

void ClassKeeper::shutDown() {
  containers_.clear();
  plan_ = {};
  made_.clear();
  joined_.clear();
  conditions_.clear();
  retryAt_.reset();
  classes_.restore();
}

ClassesView ClassKeeper::view() const {
  ClassesView view;
  view.conditions = conditions_;
  if (!control_) return view;
  view.ways = control_->dividesCaches();
  if (control_->leastBandwidth > 0) view.othersBandwidth = allocation::heldBandwidth(*control_, config_);
  return view;
}

std::string ClassKeeper::textOf(TenantId tenant, Place place) const {
  const allocation::ClassTarget* target = targetOf(tenant, place);
  if (target == nullptr || made_.count(nameOf(*target)) == 0) return {};
  std::ostringstream text;
  text << (target->tenant ? "its tenant has a cache class of its own" : "it shares a cache class with all tenants that have none of their own");
  const char* separator = ": ";
  for (const auto& [cache, share] : target->shares) {
    text << std::exchange(separator, "; ") << "cache " << cache;
    if (share.ways != 0) text << ", " << std::popcount(share.ways) << (std::popcount(share.ways) == 1 ? " way" : " ways");
    if (share.bandwidth != 0) text << ", bandwidth of a core " << share.bandwidth << " %";
  }
  return text.str();
}

}  // namespace coterie::agent
