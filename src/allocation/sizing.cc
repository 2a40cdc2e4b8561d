#include "allocation/sizing.h"

#include <algorithm>
#include <numeric>

#include "allocation/floor_room.h"
#include "model/owned_floor.h"

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
  if (isolated(group)) {
    wholeCpus += cpusForFloor(group, *units);
  } else {
    addFloor(group.floor);
  }
}

void FloorCount::addFloor(MilliCpu floor) {
  if (floor.value >= kCpu) {
    wholeCpus += cpusForFloor(floor);
  } else {
    poolFloor += std::max<std::int64_t>(floor.value, 0);
    ++poolGroups;
  }
}

void FloorCount::remove(const GroupState& group) {
  if (isolated(group)) {
    wholeCpus -= cpusForFloor(group, *units);
  } else if (group.floor.value >= kCpu) {
    wholeCpus -= cpusForFloor(group.floor);
  } else {
    poolFloor -= std::max<std::int64_t>(group.floor.value, 0);
    --poolGroups;
  }
}

std::int64_t FloorCount::cpus() const { return wholeCpus + (poolGroups > 0 ? std::max<std::int64_t>(1, cpusForFloor(MilliCpu(poolFloor))) : 0); }

std::vector<bool> choosePending(const std::vector<const GroupState*>& groups, FloorRoom room) {
  std::vector<bool> pending(groups.size(), false);
  for (const GroupState* group : groups) room.add(*group);
  if (room.fits()) return pending;
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) room.removeLast(**group);

  std::vector<int> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const GroupState& left = *groups[at(a)];
    const GroupState& right = *groups[at(b)];
    if (left.band != right.band) return left.band < right.band;
    if (left.joined != right.joined) return left.joined < right.joined;
    return left.id < right.id;
  });
  // The most deserving first: each stays who fits beside those that do. What fits does so without its last ones: so as many as fit are found by
  // halving.
  int choices = 4 * kPackingChoices;
  for (std::size_t next = 0; next < order.size();) {
    std::size_t fit = 0;
    std::size_t added = 0;
    const auto addUpTo = [&](std::size_t count) {
      for (; added < count; ++added) room.add(*groups[at(order[next + added])]);
      for (; added > count; --added) room.removeLast(*groups[at(order[next + added - 1])]);
    };
    for (std::size_t below = order.size() - next; fit < below;) {
      const std::size_t middle = fit + (below - fit + 1) / 2;
      addUpTo(middle);
      if (room.fits(choices)) {
        fit = middle;
      } else {
        below = middle - 1;
      }
    }
    addUpTo(fit);
    next += fit;
    if (next < order.size()) pending[at(order[next++])] = true;
  }
  return pending;
}

namespace {
struct Bounds {
  std::int64_t low;
  std::int64_t high;
};

// A floor counts in whole CPUs, whatever the ceiling: they are owned. Everybody is entitled to a thousandth at least, so that nobody's share of the
// pool is nothing.
struct Terms {
  std::int64_t capacity{0};
  const UnitCounts* units{nullptr};
  const std::vector<std::int64_t>* atLeast{nullptr};  // per group: floors of isolated ones; may be empty
  const std::vector<std::int64_t>* inUnits{nullptr};  // per group: what isolated ones are entitled to, once that is known
  std::int64_t scale{1};                              // bounds and results are in so many parts of a milli-CPU
  [[nodiscard]] std::int64_t whole() const { return capacity * scale; }
};

Bounds milliBoundsOf(const GroupState& group, std::size_t index, const Terms& terms) {
  if (isolated(group)) {
    if (terms.inUnits != nullptr) return {(*terms.inUnits)[index], (*terms.inUnits)[index]};
    const std::int64_t floor = cpusForFloor(group, *terms.units) * kCpu;
    const std::int64_t low = std::min(terms.atLeast->empty() ? floor : std::max(floor, (*terms.atLeast)[index]), terms.capacity);
    const std::int64_t ceiling =
        group.ceiling.value >= terms.capacity ? terms.capacity : terms.units->least(group.isolation, cpusForFloor(group.ceiling)) * kCpu;
    return {low, std::clamp(ceiling, low, terms.capacity)};
  }
  const std::int64_t low = std::clamp<std::int64_t>(ownedFloor(group.floor).value, 1, terms.capacity);
  return {low, std::clamp(group.ceiling.value, low, terms.capacity)};
}

Bounds boundsOf(const GroupState& group, std::size_t index, const Terms& terms) {
  const Bounds milli = milliBoundsOf(group, index, terms);
  return {milli.low * terms.scale, milli.high * terms.scale};
}

// The floors alone exceed the capacity: band by band, in proportion within the band that runs short.
std::vector<std::int64_t> floorsByBand(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending, const Terms& terms) {
  std::vector<std::int64_t> result(groups.size(), 0);
  std::int64_t left = terms.whole();
  for (const Band band : {Band::High, Band::Normal, Band::Low}) {
    std::vector<Share> shares;
    std::vector<int> of;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (pending[i] || groups[i]->band != band) continue;
      const std::int64_t low = boundsOf(*groups[i], i, terms).low;
      shares.push_back({low / terms.scale, 0, low});
      of.push_back(static_cast<int>(i));
    }
    const std::vector<std::int64_t> filled = waterFill(shares, left);
    for (std::size_t i = 0; i < of.size(); ++i) left -= result[at(of[i])] = filled[i];
  }
  return result;
}

// A tenant's part of the machine and its groups' parts of that.
struct Part {
  std::vector<int> members;  // indices of groups, ascending
  std::vector<Share> shares;
  Share share;  // of the machine
  std::int64_t cap{kNoCap};
  bool capped{false};  // the cap ends it before its ceilings and the machine do
};

std::vector<Part> partsOf(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending, const Terms& terms) {
  std::vector<std::pair<TenantId, int>> order;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!pending[i]) order.emplace_back(groups[i]->tenant, static_cast<int>(i));
  }
  std::sort(order.begin(), order.end());
  std::vector<Part> parts;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const GroupState& group = *groups[at(order[i].second)];
    if (i == 0 || order[i - 1].first != order[i].first) {
      parts.emplace_back();
      parts.back().share.weight = group.tenantWeight;
    }
    Part& part = parts.back();
    const Bounds bounds = boundsOf(group, at(order[i].second), terms);
    part.members.push_back(order[i].second);
    part.shares.push_back({group.weight, bounds.low, bounds.high});
    part.share.low += bounds.low;
    part.share.high = std::min(terms.whole(), part.share.high + bounds.high);
    if (group.tenantCap.value > 0) part.cap = std::min(part.cap, group.tenantCap.value * terms.scale);
  }
  return parts;
}

// Ends the tenant and its groups where the cap does. Of what the exclusive groups get under it, only a multiple of the grain can be owned.
void applyCap(Part& part, std::int64_t grain, std::int64_t cpu) {
  if (part.cap >= part.share.high) return;
  part.capped = true;
  std::vector<std::int64_t> filled = waterFill(part.shares, std::max(part.cap, part.share.low));
  std::vector<Share> exclusive;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < filled.size(); ++i) {
    if (filled[i] < cpu) continue;
    exclusive.push_back({part.shares[i].weight, std::max(part.shares[i].low, cpu), part.shares[i].high});
    sum += filled[i];
  }
  if (sum % grain != 0) {
    const std::vector<std::int64_t> whole = waterFill(exclusive, sum - sum % grain);
    auto next = whole.begin();
    for (std::int64_t& amount : filled) {
      if (amount >= cpu) amount = *next++;
    }
  }
  part.share.high = 0;
  for (std::size_t i = 0; i < filled.size(); ++i) part.share.high += part.shares[i].high = filled[i];
}

void fillPart(const std::vector<const GroupState*>& groups, const Part& part, std::int64_t amount, const Terms& terms, Entitlements& result) {
  const std::vector<std::int64_t> filled = waterFill(part.shares, amount);
  const bool atCap = part.capped && amount >= part.share.high;
  for (std::size_t i = 0; i < filled.size(); ++i) {
    const int group = part.members[i];
    result.milli[at(group)] = filled[i];
    result.stoppedByCap[at(group)] = atCap && filled[i] < boundsOf(*groups[at(group)], at(group), terms).high;
  }
}
Entitlements fillAll(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending, std::int64_t grain, const Terms& terms) {
  Entitlements result{
      std::vector<std::int64_t>(groups.size(), 0), {}, std::vector<bool>(groups.size(), false), std::vector<int>(groups.size(), -1), {}};
  std::vector<Part> parts = partsOf(groups, pending, terms);
  std::int64_t floors = 0;
  for (const Part& part : parts) {
    for (const int member : part.members) result.tenantOf[at(member)] = static_cast<int>(result.tenants.size());
    result.tenants.push_back({part.cap, std::max(part.cap, part.share.low), 0});
    floors += part.share.low;
  }
  if (floors > terms.whole()) {
    result.milli = floorsByBand(groups, pending, terms);
  } else {
    std::vector<Share> shares;
    for (Part& part : parts) {
      applyCap(part, grain * terms.scale, kCpu * terms.scale);
      shares.push_back(part.share);
    }
    const std::vector<std::int64_t> amounts = waterFill(shares, terms.whole());
    for (std::size_t i = 0; i < parts.size(); ++i) fillPart(groups, parts[i], amounts[i], terms, result);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (result.tenantOf[i] >= 0) result.tenants[at(result.tenantOf[i])].total += result.milli[i];
  }
  return result;
}

// Before isolated groups' shares are rounded down to units: one that lacks only the milli-CPUs that integer division took, once of its tenant's share
// and once of its own, must not lose a unit for it. It is shared out again in finer parts, where the same error is too small to matter.
std::vector<std::int64_t> exactlyBeforeUnits(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending, std::int64_t grain,
                                             const Terms& terms, std::vector<std::int64_t> milli) {
  constexpr std::int64_t kFiner = 1000;
  constexpr std::int64_t kDivisions = 2;
  const auto lacks = [&](std::size_t i) { return !pending[i] && isolated(*groups[i]) && (milli[i] + kDivisions) / kCpu > milli[i] / kCpu; };
  std::vector<std::size_t> lacking;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (lacks(i)) lacking.push_back(i);
  }
  if (lacking.empty()) return milli;
  Terms fine = terms;
  fine.scale = kFiner;
  const Entitlements finer = fillAll(groups, pending, grain, fine);
  for (const std::size_t i : lacking) milli[i] = std::max(milli[i], (finer.milli[i] + kDivisions) / kFiner);
  return milli;
}
}  // namespace

Entitlements entitlements(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending, std::int64_t capacity, std::int64_t grain,
                          const UnitCounts& units, const std::vector<std::int64_t>& known, const std::vector<std::int64_t>& atLeast) {
  Terms terms{capacity, &units, &atLeast, nullptr};
  Entitlements first = fillAll(groups, pending, grain, terms);
  first.plain = first.milli;
  std::vector<std::int64_t> inUnits = known.empty() ? exactlyBeforeUnits(groups, pending, grain, terms, first.milli) : first.milli;
  bool any = false;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (pending[i] || !isolated(*groups[i])) continue;
    any = true;
    if (!known.empty()) {
      inUnits[i] = known[i];
      continue;
    }
    inUnits[i] = std::max(units.most(groups[i]->isolation, inUnits[i] / kCpu) * kCpu, std::min(milliBoundsOf(*groups[i], i, terms).low, inUnits[i]));
  }
  if (!any) return first;
  terms.inUnits = &inUnits;
  Entitlements second = fillAll(groups, pending, grain, terms);
  for (std::size_t t = 0; t < second.tenants.size(); ++t) second.tenants[t].limit = first.tenants[t].limit;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (isolated(*groups[i])) second.stoppedByCap[i] = first.stoppedByCap[i];
  }
  second.plain = std::move(first.plain);
  return second;
}

}  // namespace coterie::allocation
