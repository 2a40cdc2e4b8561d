// Loans against the rule taken literally, CPU by CPU. The stories are in decide_test.cc.
#include "allocation/loans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "allocation/isolation.h"
#include "base/rng.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Groups of one container each, with homes that do not overlap, some in the pool, some CPUs nobody's; all want what their demand is worth.
struct Market {
  Market(const Machine& machine, std::uint64_t seed) : layout(makeLayout(machine, {})) {
    Rng rng(seed);
    const bool anyIsolated = rng.chance(40);
    const auto count = rng.between(1, 9);
    std::vector<int> cpus = layout.ids;
    for (std::size_t i = cpus.size(); i > 1; --i)
      std::swap(cpus[i - 1], cpus[at(static_cast<int>(rng.between(0, static_cast<std::int64_t>(i) - 1)))]);
    const auto take = [&](std::int64_t most) {
      CpuSet home;
      for (; most > 0 && !cpus.empty(); --most) home.add(cpus.back()), cpus.pop_back();
      return home;
    };
    for (std::int64_t g = 0; g < count; ++g) {
      GroupState& group = snapshot.groups.emplace_back();
      group.id = GroupId(static_cast<int>(g));
      group.tenant = TenantId(static_cast<int>(rng.between(0, 2)));
      group.tenantWeight = rng.chance(50) ? 100 : rng.between(1, 300);
      group.weight = rng.chance(50) ? 100 : rng.between(1, 300);
      group.ceiling = MilliCpu(1'000'000);
      group.demand = MilliCpu(rng.chance(30) ? 0 : rng.between(0, 9000));
      group.queuedBeyondOwnLanes = true;
      group.loanLanes = static_cast<int>(rng.between(0, 9));
      group.lend = rng.chance(20) ? Lend::Never : Lend::WhenIdle;
      ContainerState& container = group.containers.emplace_back();
      container.id = InstanceId(static_cast<int>(g));
      for (const int cpu : layout.ids) {
        if (rng.chance(8)) container.loans.add(cpu);
      }
      GroupTarget& target = targets.emplace_back();
      target.id = group.id;
      target.entitlement = MilliCpu(rng.between(1, 4000));
      target.inPool = rng.chance(25);
      if (anyIsolated && !target.inPool && rng.chance(40)) group.isolation = static_cast<Isolation>(rng.between(1, 3));
      target.containers.emplace_back().id = container.id;
      if (!target.inPool) target.containers.back().home = take(rng.between(1, 4));
    }
    if (std::any_of(targets.begin(), targets.end(), [](const GroupTarget& target) { return target.inPool; })) pool = take(rng.between(1, 6));
    for (GroupTarget& target : targets) {
      if (target.inPool) target.containers.front().home = pool;
    }
  }

  const Layout layout;
  Snapshot snapshot;
  std::vector<GroupTarget> targets;
  CpuSet pool;
};

class Literally {
 public:
  explicit Literally(const Market& market) : market_(market), loans_(market.targets.size()), given_(market.layout.positions.size(), 0) {}

  std::vector<CpuSet> run() {
    std::vector<int> wanted;
    for (std::size_t g = 0; g < loans_.size(); ++g) {
      const std::int64_t excess = group(g).demand.value - market_.targets[g].entitlement.value;
      wanted.push_back(excess <= 0 ? 0 : static_cast<int>(std::min<std::int64_t>((excess + 999) / 1000, group(g).loanLanes)));
    }
    while (true) {
      std::size_t next = loans_.size();
      for (std::size_t g = 0; g < loans_.size(); ++g) {
        if (loans_[g].count() < wanted[g] && (next == loans_.size() || before(g, next))) next = g;
      }
      if (next == loans_.size()) return loans_;
      const int cpu = best(next);
      if (cpu < 0) {
        wanted[next] = 0;
        continue;
      }
      loans_[next].add(cpu);
      ++given_[at(cpu)];
    }
  }

 private:
  [[nodiscard]] const GroupState& group(std::size_t g) const { return market_.snapshot.groups[g]; }
  [[nodiscard]] bool before(std::size_t a, std::size_t b) const {
    return (loans_[a].count() + 1) * group(b).tenantWeight * group(b).weight < (loans_[b].count() + 1) * group(a).tenantWeight * group(a).weight;
  }
  [[nodiscard]] bool owns(std::size_t g, int cpu) const { return !market_.targets[g].inPool && home(g).contains(cpu); }
  [[nodiscard]] const CpuSet& home(std::size_t g) const { return market_.targets[g].containers.front().home; }

  [[nodiscard]] int best(std::size_t g) const {
    std::tuple<bool, int, std::int64_t, int, int> least;
    int found = -1;
    for (const int cpu : market_.layout.ids) {
      if (loans_[g].contains(cpu) || home(g).contains(cpu)) continue;
      std::int64_t demand = 0;
      std::int64_t entitled = 1;
      bool lends = !market_.pool.contains(cpu) || !isolated(group(g));
      bool owned = false;
      for (std::size_t other = 0; other < loans_.size(); ++other) {
        const bool member = market_.targets[other].inPool && market_.pool.contains(cpu);
        if (!member && !owns(other, cpu)) continue;
        if (!owned) entitled = 0;
        owned = true;
        demand += group(other).demand.value;
        entitled += market_.targets[other].entitlement.value;
        lends = lends && group(other).lend != Lend::Never;
        if (!member) lends = lends && mayTouch(group(g), group(other)) && group(other).isolation >= group(g).isolation;
      }
      if (!owned) lends = !isolated(group(g));
      if (!lends) continue;
      const std::tuple key(!group(g).containers.front().loans.contains(cpu), given_[at(cpu)], std::min<std::int64_t>(1000, demand * 1000 / entitled),
                           -depth(cpu, home(g)), cpu);
      if (found < 0 || key < least) found = cpu, least = key;
    }
    return found;
  }

  [[nodiscard]] int depth(int cpu, const CpuSet& home) const {
    int deepest = 0;
    for (const int own : home) {
      const auto& here = market_.layout.paths[at(market_.layout.positionOf(cpu))];
      const auto& there = market_.layout.paths[at(market_.layout.positionOf(own))];
      for (int level = deepest + 1; level < kLevels; ++level) {
        if (here[at(level)] == there[at(level)]) deepest = level;
      }
    }
    return deepest;
  }

  const Market& market_;
  std::vector<CpuSet> loans_;
  std::vector<int> given_;
};

TEST(LoansOracle, AreTheRuleTakenLiterally) {
  const std::vector<Machine> machines{testing::regularMachine("2x2x2x2x2", {2, 2, 2, 2, 2}), testing::machineNamed("flat-2"),
                                      testing::regularMachine("8-sockets", {8, 1, 1, 2, 1})};
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Market market(machines[seed % machines.size()], seed);
    const std::vector<CpuSet> expected = Literally(market).run();
    HomeMap homes(market.layout, market.targets, market.pool);
    std::vector<LoanParty> parties;
    for (std::size_t g = 0; g < market.targets.size(); ++g) parties.push_back({&market.snapshot.groups[g], &market.targets[g]});
    std::vector<Reason> reasons;
    std::optional<Instant> again;
    planLoans(market.layout, homes, parties, market.snapshot, {}, reasons, again);
    for (std::size_t g = 0; g < expected.size(); ++g) {
      EXPECT_EQ(market.targets[g].containers.front().loans.toString(), expected[g].toString()) << "seed " << seed << ", group " << g;
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace coterie::allocation
