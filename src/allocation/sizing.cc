#include "allocation/sizing.h"

#include <algorithm>
#include <numeric>

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
constexpr std::int64_t kMaxWeight = 1'000'000;  // keeps products of weight and capacity within 64 bits

std::size_t at(int index) { return static_cast<std::size_t>(index); }
std::int64_t clampWeight(std::int64_t weight) { return std::clamp<std::int64_t>(weight, 1, kMaxWeight); }

// A level (amount per weight) at which one share starts or stops rising.
struct Breakpoint {
  std::int64_t amount;
  std::int64_t weight;
  int share;
  bool starts;
};

std::vector<Breakpoint> breakpointsOf(const std::vector<Share>& shares) {
  std::vector<Breakpoint> points;
  points.reserve(shares.size() * 2);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Share& share = shares[i];
    if (share.low >= share.high) continue;
    points.push_back({share.low, clampWeight(share.weight), static_cast<int>(i), true});
    points.push_back({share.high, clampWeight(share.weight), static_cast<int>(i), false});
  }
  std::sort(points.begin(), points.end(), [](const Breakpoint& a, const Breakpoint& b) {
    const std::int64_t left = a.amount * b.weight;
    const std::int64_t right = b.amount * a.weight;
    if (left != right) return left < right;
    return a.share != b.share ? a.share < b.share : a.starts > b.starts;
  });
  return points;
}
}  // namespace

std::vector<std::int64_t> waterFill(const std::vector<Share>& shares, std::int64_t capacity) {
  std::vector<std::int64_t> result(shares.size());
  std::int64_t fixed = 0;  // of shares that stand at a bound
  for (std::size_t i = 0; i < shares.size(); ++i) fixed += result[i] = shares[i].low;
  if (fixed >= capacity) return result;

  std::vector<bool> rising(shares.size(), false);
  std::int64_t weights = 0;
  for (const Breakpoint& point : breakpointsOf(shares)) {
    // Total at this point's level: fixed + weights * amount / weight. If it passes the capacity, the level lies before.
    if (weights > 0 && (capacity - fixed) * point.weight < weights * point.amount) break;
    const Share& share = shares[at(point.share)];
    rising[at(point.share)] = point.starts;
    weights += point.starts ? point.weight : -point.weight;
    fixed += point.starts ? -share.low : share.high;
    result[at(point.share)] = point.starts ? share.low : share.high;
  }
  if (weights == 0) return result;
  std::int64_t left = capacity - fixed;
  const std::int64_t volume = left;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!rising[i]) continue;
    result[i] = std::clamp(clampWeight(shares[i].weight) * volume / weights, shares[i].low, shares[i].high);
    left -= result[i];
  }
  for (std::size_t i = 0; i < shares.size() && left > 0; ++i) {
    if (rising[i] && result[i] < shares[i].high) ++result[i], --left;
  }
  return result;
}

std::int64_t cpusForFloor(MilliCpu floor) { return (std::max<std::int64_t>(floor.value, 0) + kCpu - 1) / kCpu; }

void FloorCount::add(const GroupState& group) {
  if (group.floor.value >= kCpu) {
    wholeCpus += cpusForFloor(group.floor);
  } else {
    poolFloor += std::max<std::int64_t>(group.floor.value, 0);
    ++poolGroups;
  }
}

void FloorCount::remove(const GroupState& group) {
  if (group.floor.value >= kCpu) {
    wholeCpus -= cpusForFloor(group.floor);
  } else {
    poolFloor -= std::max<std::int64_t>(group.floor.value, 0);
    --poolGroups;
  }
}

std::int64_t FloorCount::cpus() const { return wholeCpus + (poolGroups > 0 ? std::max<std::int64_t>(1, cpusForFloor(MilliCpu(poolFloor))) : 0); }

std::vector<bool> choosePending(const std::vector<const GroupState*>& groups, int cpus) {
  std::vector<bool> pending(groups.size(), false);
  FloorCount count;
  for (const GroupState* group : groups) count.add(*group);
  if (count.cpus() <= cpus) return pending;

  std::vector<int> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const GroupState& left = *groups[at(a)];
    const GroupState& right = *groups[at(b)];
    if (left.band != right.band) return left.band > right.band;
    if (left.joined != right.joined) return left.joined > right.joined;
    return left.id > right.id;
  });
  std::size_t taken = 0;
  for (; taken < order.size() && count.cpus() > cpus; ++taken) {
    count.remove(*groups[at(order[taken])]);
    pending[at(order[taken])] = true;
  }
  // Who was taken out without need comes back, the most deserving first.
  for (std::size_t i = taken; i > 0; --i) {
    const int index = order[i - 1];
    count.add(*groups[at(index)]);
    if (count.cpus() <= cpus) {
      pending[at(index)] = false;
    } else {
      count.remove(*groups[at(index)]);
    }
  }
  return pending;
}

namespace {
struct Bounds {
  std::int64_t low;
  std::int64_t high;
};

// A floor counts in whole CPUs; everybody is entitled to a thousandth at least, so that nobody's share of the pool is nothing.
Bounds boundsOf(const GroupState& group, std::int64_t capacity) {
  const std::int64_t high = std::clamp<std::int64_t>(group.ceiling.value, 1, capacity);
  const std::int64_t floor = group.floor.value >= kCpu ? cpusForFloor(group.floor) * kCpu : group.floor.value;
  return {std::clamp<std::int64_t>(floor, 1, high), high};
}

// The floors alone exceed the capacity: band by band, in proportion within the band that runs short.
std::vector<std::int64_t> floorsByBand(const std::vector<const GroupState*>& groups, const std::vector<int>& members, std::int64_t capacity) {
  std::vector<std::int64_t> result(groups.size(), 0);
  std::int64_t left = capacity;
  for (const Band band : {Band::High, Band::Normal, Band::Low}) {
    std::vector<Share> shares;
    std::vector<int> of;
    for (const int index : members) {
      if (groups[at(index)]->band != band) continue;
      const std::int64_t low = boundsOf(*groups[at(index)], capacity).low;
      shares.push_back({low, 0, low});
      of.push_back(index);
    }
    const std::vector<std::int64_t> filled = waterFill(shares, left);
    for (std::size_t i = 0; i < of.size(); ++i) left -= result[at(of[i])] = filled[i];
  }
  return result;
}
}  // namespace

std::vector<std::int64_t> entitlements(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending, std::int64_t capacity) {
  std::vector<int> members;
  std::int64_t floors = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (pending[i]) continue;
    members.push_back(static_cast<int>(i));
    floors += boundsOf(*groups[i], capacity).low;
  }
  if (floors > capacity) return floorsByBand(groups, members, capacity);

  // Members by tenant; the groups of a tenant stay ascending.
  std::sort(members.begin(), members.end(), [&](int a, int b) { return std::pair(groups[at(a)]->tenant, a) < std::pair(groups[at(b)]->tenant, b); });
  std::vector<Share> tenants;
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const GroupState& group = *groups[at(members[i])];
    if (i == 0 || groups[at(members[i - 1])]->tenant != group.tenant) {
      tenants.push_back({group.tenantWeight, 0, 0});
      starts.push_back(i);
    }
    const Bounds bounds = boundsOf(group, capacity);
    tenants.back().low += bounds.low;
    tenants.back().high = std::min(capacity, tenants.back().high + bounds.high);
  }
  starts.push_back(members.size());
  const std::vector<std::int64_t> perTenant = waterFill(tenants, capacity);

  std::vector<std::int64_t> result(groups.size(), 0);
  for (std::size_t tenant = 0; tenant < tenants.size(); ++tenant) {
    std::vector<Share> shares;
    for (std::size_t i = starts[tenant]; i < starts[tenant + 1]; ++i) {
      const GroupState& group = *groups[at(members[i])];
      const Bounds bounds = boundsOf(group, capacity);
      shares.push_back({group.weight, bounds.low, bounds.high});
    }
    const std::vector<std::int64_t> filled = waterFill(shares, perTenant[tenant]);
    for (std::size_t i = 0; i < filled.size(); ++i) result[at(members[starts[tenant] + i])] = filled[i];
  }
  return result;
}

}  // namespace coterie::allocation
