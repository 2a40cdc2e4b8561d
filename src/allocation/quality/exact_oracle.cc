#include "allocation/quality/exact_oracle.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "allocation/quality/tree.h"

namespace coterie::allocation::quality {

namespace {
constexpr double kCpu = 1000;

// What sets of whole units come to, by trying all of them.
std::set<int> sumsOfUnits(const Tree& tree, Isolation isolation) {
  std::set<int> sums{0};
  for (const Tree::Span& span : tree.spans(unitDepth(isolation))) {
    const std::set<int> before = sums;
    for (const int sum : before) sums.insert(sum + span.end - span.begin);
  }
  return sums;
}
// No less than asked for; more than there is: all of them over and over.
int leastInUnits(const Tree& tree, Isolation isolation, int cpus) {
  const std::set<int> sums = sumsOfUnits(tree, isolation);
  const auto found = sums.lower_bound(cpus);
  return found == sums.end() ? cpus : *found;
}

int wholeCpus(const Tree& tree, const GroupState& group) {
  const int cpus = static_cast<int>((group.floor.value + 999) / 1000);
  return group.isolation == Isolation::None ? cpus : leastInUnits(tree, group.isolation, std::max(1, cpus));
}

bool belowOneCpu(const GroupState& group) { return group.isolation == Isolation::None && group.floor.value < 1000; }

// The weighted max-min vector: everybody at the same level per weight, within his bounds.
struct Claim {
  double weight{1};
  double low{0};
  double high{0};
};
std::vector<double> maxMin(const std::vector<Claim>& claims, double amount) {
  double below = 0;
  double above = amount;  // weights are 1 at least
  std::vector<double> shares(claims.size());
  for (int round = 0; round < 100; ++round) {
    const double level = (below + above) / 2;
    double sum = 0;
    for (std::size_t i = 0; i < claims.size(); ++i) sum += shares[i] = std::clamp(level * claims[i].weight, claims[i].low, claims[i].high);
    (sum < amount ? below : above) = level;
  }
  return shares;
}

struct Bounds {
  std::vector<double> low;
  std::vector<double> high;
};

Bounds boundsOf(const Snapshot& snapshot, const Tree& tree) {
  Bounds bounds;
  for (const GroupState& group : snapshot.groups) {
    double low = static_cast<double>(group.floor.value);
    double high = static_cast<double>(group.ceiling.value);
    if (group.isolation != Isolation::None) {
      low = kCpu * wholeCpus(tree, group);
      const int ceiling = static_cast<int>(std::min<std::int64_t>(tree.size(), (group.ceiling.value + 999) / 1000));
      high = kCpu * leastInUnits(tree, group.isolation, ceiling);
    } else if (group.floor.value >= 1000) {
      low = kCpu * wholeCpus(tree, group);
    }
    bounds.low.push_back(std::clamp(low, 1.0, tree.capacity()));
    bounds.high.push_back(std::clamp(high, bounds.low.back(), tree.capacity()));
  }
  return bounds;
}

std::vector<double> shareByBand(const Snapshot& snapshot, const std::vector<bool>& pending, const Bounds& bounds, double capacity) {
  std::vector<double> shares(snapshot.groups.size(), 0);
  for (const Band band : {Band::High, Band::Normal, Band::Low}) {
    std::vector<Claim> claims;
    std::vector<std::size_t> of;
    for (std::size_t g = 0; g < shares.size(); ++g) {
      if (pending[g] || snapshot.groups[g].band != band) continue;
      claims.push_back({bounds.low[g], 0, bounds.low[g]});
      of.push_back(g);
    }
    const std::vector<double> filled = maxMin(claims, capacity);
    for (std::size_t i = 0; i < of.size(); ++i) capacity -= shares[of[i]] = filled[i];
  }
  return shares;
}

std::vector<double> shareAll(const Snapshot& snapshot, const std::vector<bool>& pending, const Bounds& bounds, double capacity) {
  struct Tenant {
    Claim claim;
    std::vector<Claim> claims;
    std::vector<std::size_t> groups;
  };
  std::map<TenantId, Tenant> tenants;
  double floors = 0;
  for (std::size_t g = 0; g < snapshot.groups.size(); ++g) {
    if (pending[g]) continue;
    const GroupState& group = snapshot.groups[g];
    Tenant& tenant = tenants[group.tenant];
    tenant.claim.weight = static_cast<double>(group.tenantWeight);
    tenant.claim.low += bounds.low[g];
    tenant.claim.high += bounds.high[g];
    tenant.claims.push_back({static_cast<double>(group.weight), bounds.low[g], bounds.high[g]});
    tenant.groups.push_back(g);
    floors += bounds.low[g];
  }
  if (floors > capacity) return shareByBand(snapshot, pending, bounds, capacity);
  std::vector<Claim> claims;
  for (const auto& [id, tenant] : tenants) claims.push_back(tenant.claim);
  const std::vector<double> amounts = maxMin(claims, capacity);
  std::vector<double> shares(snapshot.groups.size(), 0);
  std::size_t next = 0;
  for (const auto& [id, tenant] : tenants) {
    const std::vector<double> filled = maxMin(tenant.claims, amounts[next++]);
    for (std::size_t i = 0; i < filled.size(); ++i) shares[tenant.groups[i]] = filled[i];
  }
  return shares;
}
}  // namespace

CpuSet Owner::all() const {
  CpuSet set;
  for (const CpuSet& home : homes) set |= home;
  return set;
}

namespace {
// All ways to take whole units for one group after the other, by the places that are taken.
class UnitSearch {
 public:
  UnitSearch(const Tree& tree, int othersCpus) : tree_(tree), others_(othersCpus) {}

  bool find(const std::vector<const GroupState*>& groups, std::size_t next, std::vector<bool>& taken) const {
    const auto free = static_cast<int>(std::count(taken.begin(), taken.end(), false));
    if (free < others_) return false;
    if (next == groups.size()) return true;
    const int need = std::max(1, static_cast<int>((groups[next]->floor.value + 999) / 1000));
    return takeUnits(groups, next, 0, need, taken);
  }

 private:
  bool takeUnits(const std::vector<const GroupState*>& groups, std::size_t group, std::size_t unit, int missing, std::vector<bool>& taken) const {
    if (missing <= 0) return find(groups, group + 1, taken);
    const auto& units = tree_.spans(unitDepth(groups[group]->isolation));
    if (unit == units.size()) return false;
    const auto begin = taken.begin() + units[unit].begin;
    const auto end = taken.begin() + units[unit].end;
    if (std::none_of(begin, end, [](bool one) { return one; })) {
      std::fill(begin, end, true);
      if (takeUnits(groups, group, unit + 1, missing - (units[unit].end - units[unit].begin), taken)) return true;
      std::fill(begin, end, false);
    }
    return takeUnits(groups, group, unit + 1, missing, taken);
  }

  const Tree& tree_;
  int others_;  // CPUs that those who are not isolated need
};
}  // namespace

bool unitsExist(const Snapshot& snapshot, const std::vector<bool>& present) {
  const Tree tree(snapshot);
  std::vector<const GroupState*> isolated;
  int whole = 0;
  std::int64_t small = 0;
  bool anySmall = false;
  for (std::size_t g = 0; g < snapshot.groups.size(); ++g) {
    const GroupState& group = snapshot.groups[g];
    if (!present[g]) continue;
    if (group.isolation != Isolation::None) {
      isolated.push_back(&group);
    } else if (belowOneCpu(group)) {
      anySmall = true;
      small += group.floor.value;
    } else {
      whole += wholeCpus(tree, group);
    }
  }
  if (anySmall) whole += std::max(1, static_cast<int>((small + 999) / 1000));
  std::vector<bool> taken(static_cast<std::size_t>(tree.size()), false);
  return UnitSearch(tree, whole).find(isolated, 0, taken);
}

std::vector<bool> bestPending(const Snapshot& snapshot) {
  std::vector<std::size_t> order(snapshot.groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const GroupState& left = snapshot.groups[a];
    const GroupState& right = snapshot.groups[b];
    return std::tuple(left.band, left.joined, left.id) < std::tuple(right.band, right.joined, right.id);
  });
  std::vector<bool> best;
  for (unsigned subset = 0; subset < 1U << order.size(); ++subset) {
    std::vector<bool> kept;
    std::vector<bool> present(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      kept.push_back((subset >> i & 1U) != 0);
      present[order[i]] = kept.back();
    }
    if (kept > best && unitsExist(snapshot, present)) best = kept;
  }
  std::vector<bool> pending(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) pending[order[i]] = !best[i];
  return pending;
}

bool floorsMet(const Snapshot& snapshot, const Plan& plan) {
  const Tree tree(snapshot);
  std::int64_t small = 0;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const GroupTarget& target = plan.groups[g];
    const GroupState& group = snapshot.groups[g];
    if (target.pending) continue;
    if (target.inPool) {
      small += group.floor.value;
      continue;
    }
    CpuSet home;
    for (const ContainerTarget& container : target.containers) home |= container.home;
    if (home.empty() || home.count() < wholeCpus(tree, group)) return false;
  }
  return small <= 1000 * plan.pool.count();
}

std::vector<double> fairShares(const Snapshot& snapshot, const std::vector<bool>& pending) {
  const Tree tree(snapshot);
  Bounds bounds = boundsOf(snapshot, tree);
  std::vector<double> shares = shareAll(snapshot, pending, bounds, tree.capacity());
  bool any = false;
  for (std::size_t g = 0; g < shares.size(); ++g) {
    const GroupState& group = snapshot.groups[g];
    if (pending[g] || group.isolation == Isolation::None) continue;
    any = true;
    const std::set<int> sums = sumsOfUnits(tree, group.isolation);
    const int most = *std::prev(sums.upper_bound(static_cast<int>((shares[g] + 1e-6) / kCpu)));
    bounds.low[g] = bounds.high[g] = std::max(most * kCpu, std::min(kCpu * wholeCpus(tree, group), shares[g]));
  }
  return any ? shareAll(snapshot, pending, bounds, tree.capacity()) : shares;
}

std::vector<Owner> ownersOf(const Snapshot& snapshot, const Plan& plan) {
  std::vector<Owner> owners;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const GroupTarget& target = plan.groups[g];
    if (target.pending || target.inPool) continue;
    Owner& owner = owners.emplace_back();
    owner.tenant = snapshot.groups[g].tenant.value;
    owner.isolation = snapshot.groups[g].isolation;
    for (const ContainerTarget& container : target.containers) owner.homes.push_back(container.home);
    for (const Device& device : snapshot.machine->devices) {
      if (!snapshot.groups[g].device.empty() && device.name == snapshot.groups[g].device) owner.device = device.cpus;
    }
  }
  if (!plan.pool.empty()) owners.push_back({0, true, Isolation::None, {plan.pool}});
  return owners;
}

std::int64_t costOf(const Snapshot& snapshot, const std::vector<Owner>& owners) {
  const Machine& machine = *snapshot.machine;
  const Tree tree(snapshot);
  const auto span = [&](const CpuSet& cpus) -> std::int64_t {
    std::set<int> caches;
    std::set<int> nodes;
    std::set<int> sockets;
    for (const int id : cpus) {
      const Cpu& cpu = *machine.findCpu(id);
      caches.insert(cpu.cache), nodes.insert(cpu.node), sockets.insert(cpu.socket);
    }
    return caches.size() <= 1 ? 0 : nodes.size() <= 1 ? 1 : sockets.size() <= 1 ? 4 : 16;
  };
  std::int64_t cost = 0;
  CpuSet used;
  for (const Owner& owner : owners) {
    const CpuSet all = owner.all();
    for (const CpuSet& home : owner.homes) cost += 4 * home.count() * span(home);
    cost += all.count() * span(all);
    std::int64_t away = owner.device.empty() ? 0 : 16;
    for (const int one : all) {
      for (const int near : owner.device) away = std::min(away, span(CpuSet{one, near}));
    }
    cost += 4 * 2 * away;
    used |= all;
  }
  std::map<int, CpuSet> cores;
  std::map<int, CpuSet> caches;
  for (const Cpu& cpu : machine.cpus) {
    if (tree.usable().contains(cpu.id)) cores[cpu.core].add(cpu.id), caches[cpu.cache].add(cpu.id);
  }
  const auto pairs = [&](const CpuSet& cpus) {
    std::set<std::pair<bool, int>> tenants;
    for (const Owner& owner : owners) {
      if (owner.all().intersects(cpus)) tenants.emplace(owner.pool, owner.tenant);
    }
    const auto count = static_cast<std::int64_t>(tenants.size());
    return count * (count - 1) / 2;
  };
  for (const auto& [core, cpus] : cores) cost += 4 * 4 * pairs(cpus);
  for (const auto& [cache, cpus] : caches) {
    const int free = (cpus - used).count();
    cost += 4 * pairs(cpus) + (free > 0 && free < cpus.count() ? 4 : 0);
  }
  return cost;
}

}  // namespace coterie::allocation::quality
