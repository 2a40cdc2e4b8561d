#include "allocation/cache_classes.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

namespace coterie::allocation {

namespace {

constexpr int kAllBandwidth = 100;

MilliCpu ownedIn(const ClassClaim& claim, int cache) {
  const auto found = claim.owned.find(cache);
  return found == claim.owned.end() ? MilliCpu{} : found->second;
}

MilliCpu ownedOf(const ClassClaim& claim) {
  MilliCpu sum;
  for (const auto& [cache, cpus] : claim.owned) sum += cpus;
  return sum;
}

// Has the kernel, and has every cache, room for a class of each of these and one for all others?
bool roomFor(const CacheControl& control, const std::vector<ClassClaim>& claims, const std::vector<bool>& own, std::size_t most) {
  const auto classesOf = [&](const auto& counts) {
    std::size_t all = 0;
    std::size_t owners = 0;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (!counts(claims[i])) continue;
      ++all;
      owners += own[i] ? 1 : 0;
    }
    return owners + (owners < all ? 1 : 0);
  };
  if (classesOf([](const ClassClaim&) { return true; }) > most) return false;
  return std::all_of(control.caches.begin(), control.caches.end(), [&](const CacheInstance& cache) {
    const std::size_t classes = classesOf([&](const ClassClaim& claim) { return ownedIn(claim, cache.id).value > 0; });
    return cache.ways == 0 || static_cast<int>(classes) * control.leastWays <= std::popcount(cache.ways);
  });
}

// Whose classes are their own: one after the other, the first in rank first, whoever there is still room for. More never need fewer classes, so
// whoever was chosen is chosen again.
std::vector<bool> chooseOwn(const CacheControl& control, const std::vector<ClassClaim>& claims, const ClassPlan& before, const ClassConfig& config) {
  std::vector<std::size_t> asking;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (claims[i].own && ownedOf(claims[i]).value > 0) asking.push_back(i);
  }
  std::sort(asking.begin(), asking.end(), [&](std::size_t a, std::size_t b) {
    const MilliCpu left = ownedOf(claims[a]);
    const MilliCpu right = ownedOf(claims[b]);
    if (left != right) return left > right;
    const bool had = before.of(claims[a].tenant) != nullptr, otherHad = before.of(claims[b].tenant) != nullptr;
    return had != otherHad ? had : a < b;
  });
  const std::size_t most = std::min(static_cast<std::size_t>(std::max(0, control.classes)), config.mostClasses);
  std::vector<bool> own(claims.size(), false);
  for (const std::size_t i : asking) {
    own[i] = true;
    own[i] = roomFor(control, claims, own, most);
  }
  return own;
}

void shareWays(const CacheControl& control, const CacheInstance& cache, const std::vector<ClassClaim>& members, const ClassPlan& before,
               std::vector<ClassTarget>& targets) {
  const int ways = std::popcount(cache.ways);
  std::vector<std::size_t> owners;
  std::vector<MilliCpu> weights;
  std::vector<CacheWays> masks;
  const CacheWays visitor = runOf(std::countr_zero(cache.ways) + ways - control.leastWays, control.leastWays);
  for (std::size_t i = 0; i < members.size(); ++i) {
    targets[i].shares[cache.id].ways = visitor;
    if (ownedIn(members[i], cache.id).value <= 0) continue;
    owners.push_back(i);
    weights.push_back(ownedIn(members[i], cache.id));
    const ClassTarget* old = before.of(targets[i].tenant);
    const auto share = old != nullptr ? old->shares.find(cache.id) : ClassShares::const_iterator{};
    masks.push_back(old != nullptr && share != old->shares.end() ? share->second.ways : 0);
  }
  const std::vector<CacheWays> laid = layWays(cache.ways, divideWays(ways, control.leastWays, weights), masks);
  for (std::size_t i = 0; i < owners.size(); ++i) targets[owners[i]].shares[cache.id].ways = laid[i];
}

void shareBandwidth(const CacheControl& control, const CacheInstance& cache, const std::vector<ClassClaim>& members, const ClassConfig& config,
                    std::vector<ClassTarget>& targets) {
  const int held = heldBandwidth(control, config);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool holdsBack = !members[i].bandwidth && std::any_of(members.begin(), members.end(), [&](const ClassClaim& other) {
      return other.bandwidth && other.near.intersects(cache.cpus);
    });
    targets[i].shares[cache.id].bandwidth = holdsBack ? held : kAllBandwidth;
  }
}

}  // namespace

const ClassTarget* ClassPlan::of(std::optional<TenantId> tenant) const {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const ClassTarget& one) { return one.tenant == tenant; });
  return found == classes.end() ? nullptr : &*found;
}

int heldBandwidth(const CacheControl& control, const ClassConfig& config) {
  const int steps = (config.othersBandwidth + control.bandwidthStep - 1) / control.bandwidthStep;
  return std::clamp(steps * control.bandwidthStep, control.leastBandwidth, kAllBandwidth);
}

std::vector<int> divideWays(int ways, int least, const std::vector<MilliCpu>& weights) {
  std::vector<int> given(weights.size(), least);
  const std::int64_t sum = std::accumulate(weights.begin(), weights.end(), MilliCpu{}).value;
  for (int left = ways - least * static_cast<int>(weights.size()); left > 0 && !weights.empty(); --left) {
    std::size_t neediest = 0;
    std::int64_t missing = std::numeric_limits<std::int64_t>::min();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::int64_t misses = ways * weights[i].value - given[i] * sum;  // of its exact share, times the sum
      if (misses > missing) missing = misses, neediest = i;
    }
    ++given[neediest];
  }
  return given;
}

std::vector<CacheWays> layWays(CacheWays room, const std::vector<int>& lengths, const std::vector<CacheWays>& before) {
  if (lengths.empty()) return {};
  const std::size_t count = lengths.size();
  const int first = std::countr_zero(room);
  CacheWays held = 0;
  bool fits = true;
  for (std::size_t i = 0; i < count; ++i) {
    fits = fits && isRun(before[i]) && std::popcount(before[i]) == lengths[i] && (held & before[i]) == 0;
    held |= before[i];
  }
  if (fits && held == room) return before;
  // Whoever is laid next begins where those before it end, whatever their order: one number for each set of them.
  const std::size_t sets = std::size_t{1} << count;
  std::vector<int> begins(sets, first);
  std::vector<std::uint8_t> most(sets, 0);  // masks that stay among those not in the set
  for (std::size_t set = 1; set < sets; ++set) {
    const int lowest = std::countr_zero(set);
    begins[set] = begins[set & (set - 1)] + lengths[static_cast<std::size_t>(lowest)];
  }
  const auto laid = [&](std::size_t set, std::size_t i) { return runOf(begins[set], lengths[i]); };
  const auto stays = [&](std::size_t set, std::size_t i) {
    return static_cast<std::uint8_t>(most[set | (std::size_t{1} << i)] + (laid(set, i) == before[i] ? 1 : 0));
  };
  for (std::size_t set = sets - 1; set-- > 0;) {
    for (std::size_t i = 0; i < count; ++i) {
      if ((set >> i & 1) == 0) most[set] = std::max(most[set], stays(set, i));
    }
  }
  std::vector<CacheWays> masks(count);
  for (std::size_t set = 0; set + 1 < sets;) {
    std::size_t next = 0;
    while ((set >> next & 1) != 0 || stays(set, next) != most[set]) ++next;
    masks[next] = laid(set, next);
    set |= std::size_t{1} << next;
  }
  return masks;
}

ClassPlan planClasses(const CacheControl& control, std::vector<ClassClaim> claims, const ClassPlan& before, const ClassConfig& config) {
  std::sort(claims.begin(), claims.end(), [](const ClassClaim& a, const ClassClaim& b) { return a.tenant < b.tenant; });
  const std::vector<bool> own = chooseOwn(control, claims, before, config);
  ClassPlan plan;
  std::vector<ClassClaim> members;
  ClassClaim rest;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (own[i]) {
      plan.classes.push_back({claims[i].tenant, {}});
      members.push_back(claims[i]);
      continue;
    }
    for (const auto& [cache, cpus] : claims[i].owned) rest.owned[cache] += cpus;
    if (claims[i].own && ownedOf(claims[i]).value > 0) plan.without.push_back(claims[i].tenant);
  }
  const std::size_t chosen = members.size();
  if (chosen < claims.size()) {
    plan.classes.push_back({std::nullopt, {}});
    members.push_back(std::move(rest));
  }
  if (chosen == 0 || plan.classes.size() < 2) return {{}, std::move(plan.without)};
  for (const CacheInstance& cache : control.caches) {
    if (cache.ways != 0) shareWays(control, cache, members, before, plan.classes);
    if (control.leastBandwidth > 0) shareBandwidth(control, cache, members, config, plan.classes);
  }
  return plan;
}

}  // namespace coterie::allocation
