// Exact enumeration as the oracle on small machines: who becomes Pending (L1) is always the best choice, and the placement's cost J is near the least
// there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <set>
#include <tuple>

#include "allocation/decide.h"
#include "allocation/sizing.h"
#include "allocation/snapshot_builder.h"
#include "base/rng.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

// ---- L1 ----
TEST(Quality, PendingIsTheBestOfAllSubsets) {
  static const Machine machine = testing::machineNamed("flat-2");
  Rng rng(1);
  for (int round = 0; round < 3000; ++round) {
    SnapshotBuilder builder(machine);
    const int count = static_cast<int>(rng.between(1, 7));
    std::vector<const GroupState*> groups;
    for (int i = 0; i < count; ++i) {
      GroupState& group = builder.group(0);
      group.band = static_cast<Band>(rng.between(0, 2));
      group.floor = MilliCpu(rng.chance(40) ? 0 : rng.between(1, 3500));
      group.joined = Instant(Seconds(rng.between(0, 3)));
      groups.push_back(&group);
    }
    const int cpus = static_cast<int>(rng.between(1, 8));
    // The most deserving first; the best subset is the greatest as a word of kept flags in that order.
    std::vector<std::size_t> order(groups.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(groups[a]->band, groups[a]->joined, groups[a]->id) < std::tuple(groups[b]->band, groups[b]->joined, groups[b]->id);
    });
    std::vector<bool> best;
    for (unsigned subset = 0; subset < 1U << groups.size(); ++subset) {
      FloorCount floors;
      std::vector<bool> kept;
      for (std::size_t i = 0; i < order.size(); ++i) {
        kept.push_back((subset >> i & 1U) != 0);
        if (kept.back()) floors.add(*groups[order[i]]);
      }
      if (floors.cpus() <= cpus && kept > best) best = kept;
    }
    const std::vector<bool> pending = choosePending(groups, cpus);
    for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(pending[order[i]], !best[i]) << "round " << round;
  }
}

// ---- J, straight from its definition ----
struct Piece {
  int group;
  int tenant;
  int size;
};

std::int64_t spanOfSet(const Machine& machine, const CpuSet& cpus) {
  std::set<int> caches;
  std::set<int> nodes;
  std::set<int> sockets;
  for (const int id : cpus) {
    const Cpu& cpu = *machine.findCpu(id);
    caches.insert(cpu.cache), nodes.insert(cpu.node), sockets.insert(cpu.socket);
  }
  return caches.size() <= 1 ? 0 : nodes.size() <= 1 ? 1 : sockets.size() <= 1 ? 4 : 16;
}

// In quarters.
std::int64_t costOf(const Machine& machine, const std::vector<Piece>& pieces, const std::vector<CpuSet>& homes) {
  std::int64_t cost = 0;
  std::vector<CpuSet> groups;
  std::vector<int> tenants;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    cost += 4 * homes[i].count() * spanOfSet(machine, homes[i]);
    if (static_cast<std::size_t>(pieces[i].group) >= groups.size()) groups.emplace_back(), tenants.push_back(pieces[i].tenant);
    groups[static_cast<std::size_t>(pieces[i].group)] |= homes[i];
  }
  CpuSet used;
  for (const CpuSet& home : groups) {
    cost += home.count() * spanOfSet(machine, home);
    used |= home;
  }
  std::set<int> caches;
  for (const Cpu& cpu : machine.cpus) caches.insert(cpu.cache);
  for (std::size_t d = 0; d < machine.domains.size(); ++d) {
    const Domain& domain = machine.domains[d];
    const bool core = domain.level == DomainLevel::Core;
    const bool cache = caches.count(static_cast<int>(d)) > 0;
    std::set<int> here;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].intersects(domain.cpus)) here.insert(tenants[g]);
    }
    const auto pairs = static_cast<std::int64_t>(here.size() * (here.size() > 0 ? here.size() - 1 : 0) / 2);
    if (core) cost += 16 * pairs;
    if (cache) cost += 4 * pairs;
    const int free = (domain.cpus - used).count();
    if (cache && free > 0 && free < domain.cpus.count()) cost += 4;
  }
  return cost;
}

std::int64_t leastCost(const Machine& machine, const std::vector<Piece>& pieces, std::vector<CpuSet>& homes, std::size_t piece, int after,
                       const CpuSet& free) {
  if (piece == pieces.size()) return costOf(machine, pieces, homes);
  if (homes[piece].count() == pieces[piece].size) return leastCost(machine, pieces, homes, piece + 1, -1, free);
  std::int64_t least = INT64_MAX;
  for (int cpu = free.next(after); cpu >= 0; cpu = free.next(cpu)) {
    homes[piece].add(cpu);
    CpuSet rest = free;
    rest.remove(cpu);
    least = std::min(least, leastCost(machine, pieces, homes, piece, cpu, rest));
    homes[piece].remove(cpu);
  }
  return least;
}

TEST(Quality, PlacementIsNearTheLeastCost) {
  const std::vector<Machine> machines{
      testing::regularMachine("1x4-smt", {1, 1, 1, 4, 2}), testing::regularMachine("2x2-caches", {1, 2, 2, 2, 1}),
      testing::regularMachine("2-nodes", {1, 2, 0, 4, 1}), testing::regularMachine("4-sockets", {4, 1, 0, 2, 1}),
      testing::regularMachine("2x2-smt", {2, 1, 0, 2, 2}),
  };
  Rng rng(7);
  std::vector<double> gaps;
  for (int round = 0; round < 120; ++round) {
    const Machine& machine = machines[static_cast<std::size_t>(round) % machines.size()];
    SnapshotBuilder builder(machine);
    const int groups = static_cast<int>(rng.between(1, 3));
    for (int g = 0; g < groups; ++g) {
      GroupState& group = builder.group(static_cast<int>(rng.between(0, 1)), rng.chance(75) ? 1 : 2);
      group.floor = MilliCpu(2000);
      group.ceiling = MilliCpu(1000 * rng.between(2, 5));
      group.tenantWeight = 100;
    }
    const Plan plan = decide(builder.snapshot, {});
    std::vector<Piece> pieces;
    std::vector<CpuSet> homes;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      for (const ContainerTarget& container : plan.groups[g].containers) {
        pieces.push_back({static_cast<int>(g), builder.snapshot.groups[g].tenant.value, container.home.count()});
        homes.push_back(container.home);
      }
    }
    const std::int64_t got = costOf(machine, pieces, homes);
    std::vector<CpuSet> scratch(pieces.size());
    const std::int64_t least = leastCost(machine, pieces, scratch, 0, -1, machine.online);
    ASSERT_GE(got, least);
    gaps.push_back(static_cast<double>(got - least) / static_cast<double>(std::max<std::int64_t>(least, 4)));
  }
  std::sort(gaps.begin(), gaps.end());
  const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size());
  RecordProperty("optimality_gap_mean", std::to_string(mean));
  std::cout << "optimality gap of J: mean " << mean << ", worst " << gaps.back() << ", exact in " << std::count(gaps.begin(), gaps.end(), 0.0)
            << " of " << gaps.size() << "\n";
  EXPECT_LE(mean, 0.15);
}

}  // namespace
}  // namespace coterie::allocation
