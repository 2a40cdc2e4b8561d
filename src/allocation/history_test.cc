// Random histories: groups come, go, resize and crash, CPUs and allowances vanish, plans are applied step by step with steps that fail, hang or are
// cut; H1-H7 hold after every step, no plan's targets and no settled state give a tenant more than its cap (quotas come, shrink below use and go),
// plans are fixpoints, optional moves stay within bucket and interval, order of groups does not matter, a floor is unmet only if the floors exceed
// what is left, and a planner that is kept through the whole history always answers as decide() does.
//
// COTERIE_HISTORIES: how many (2,000). COTERIE_HISTORY_SEED: replay one seed, verbosely. A failure prints the seed that replays it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "allocation/decide.h"
#include "allocation/floor_room.h"
#include "allocation/history_world.h"
#include "allocation/invariants.h"
#include "allocation/layout.h"
#include "allocation/planner.h"
#include "allocation/quality/snapshot_text.h"
#include "allocation/replay.h"
#include "allocation/roles.h"

namespace coterie::allocation {
namespace {

constexpr int kMostRounds = 40;                     // until whatever waits has gone: a container each, at worst
constexpr Bytes kManyBytes{std::int64_t{1} << 50};  // more than any budget

class History : private HistoryWorld {
 public:
  History(std::uint64_t seed, bool verbose) : HistoryWorld(seed), verbose_(verbose) {}

  // Events, decisions and steps of plans so far.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  // Decisions by which the move budget was judged.
  [[nodiscard]] std::int64_t calm() const { return calm_; }

  // Empty if all went well, else what went wrong.
  std::string run() {
    const int events = static_cast<int>(rng_.between(4, 16));
    for (int i = 0; i < events && problem_.empty(); ++i) {
      const int changes = rng_.chance(25) ? 3 : 1;
      for (int change = 0; change < changes; ++change) {
        ++steps_;
        event();
      }
      snapshot_.now += Millis(rng_.chance(30) ? rng_.between(0, 40'000) : rng_.between(0, 300));
      decideAndApply();
    }
    return problem_;
  }

 private:
  void fail(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }
  void report(const char* when, const std::vector<Violation>& violations, const Plan& plan) {
    for (const Violation& one : violations) {
      std::ostringstream out;
      out << (one.rule == 0 ? "cap" : "H" + std::to_string(one.rule)) << " " << when << ": " << one.what << " (group " << one.group.value
          << ", container " << one.container.value << ", " << one.cpu << ")\nbefore " << text(before_) << text(plan) << "now " << text(snapshot_);
      return fail(out.str());
    }
  }

  // What decide() answers, and an agent's planner, whatever it was asked before.
  Plan decided(const Snapshot& snapshot) {
    ++steps_;
    Plan plan = decide(snapshot, config_);
    if (const Plan& kept = planner_.decide(snapshot, config_); kept != plan)
      fail("a planner that was asked before answers otherwise\n" + text(snapshot) + text(plan) + text(kept));
    return plan;
  }

  void decideAndApply() {
    before_ = snapshot_;
    const Plan plan = decided(snapshot_);
    if (verbose_) std::cerr << "----\n" << text(snapshot_) << text(plan);
    report("in the plan", checkPlan(snapshot_, plan, config_), plan);
    checkFloors(plan);
    checkMoveBudget(plan);
    if (!plan.steps.empty() && rng_.chance(30)) checkPermutation(plan);
    if (!problem_.empty()) return;
    const bool complete = applyWithFaults(plan);
    if (!problem_.empty()) return;
    remember(plan);
    if (complete) {
      report("after the plan", checkDone(plan, snapshot_, config_), plan);
      checkFixpoint(plan);
    }
    endPending(plan);
  }

  bool applyWithFaults(const Plan& plan) {
    const bool faulty = rng_.chance(40);
    const std::size_t cut =
        faulty && rng_.chance(50) ? static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(plan.steps.size()))) : plan.steps.size();
    std::vector<bool> done(plan.steps.size(), false);
    std::vector<std::size_t> hanging;
    for (std::size_t s = 0; s < cut && problem_.empty(); ++s) {
      const Step& step = plan.steps[s];
      if (!std::all_of(step.waitsFor.begin(), step.waitsFor.end(), [&](int wait) { return done[static_cast<std::size_t>(wait)]; })) continue;
      if (faulty && rng_.chance(20)) {
        if (rng_.chance(50)) hanging.push_back(s);
        continue;
      }
      done[s] = true;
      ++steps_;
      applyStep(snapshot_, step);
      report("after a step", checkState(before_, plan, snapshot_, config_), plan);
    }
    for (const std::size_t s : hanging) {  // a write that hung lands late
      if (!problem_.empty() || rng_.chance(50)) continue;
      applyStep(snapshot_, plan.steps[s]);
      report("after a late step", checkState(before_, plan, snapshot_, config_), plan);
    }
    return std::all_of(done.begin(), done.end(), [](bool one) { return one; });
  }

  void remember(const Plan& plan) {
    snapshot_.pool = poolReadBack(before_, plan, snapshot_);
    snapshot_.bucket = plan.bucket;
    snapshot_.migration = plan.migration;
    for (GroupState& group : snapshot_.groups) {
      for (const GroupTarget& target : plan.groups) {
        if (target.id == group.id && target.moved) group.lastOptionalMove = snapshot_.now;
      }
    }
  }

  // It cannot get to where its floor is met without standing beside somebody, or somebody beside it.
  static bool stays(const Plan& plan, GroupId group) {
    return std::any_of(plan.reasons.begin(), plan.reasons.end(),
                       [&](const Reason& reason) { return reason.code == ReasonCode::IsolationBlocked && reason.group == group; });
  }

  [[nodiscard]] const GroupState& stateOf(GroupId id) const {
    return *std::find_if(snapshot_.groups.begin(), snapshot_.groups.end(), [&](const GroupState& one) { return one.id == id; });
  }
  // Without its pause containers.
  [[nodiscard]] CpuSet ownedBy(const GroupTarget& target) const {
    const GroupState& group = stateOf(target.id);
    CpuSet home;
    for (std::size_t c = 0; c < target.containers.size(); ++c) {
      if (group.containers[c].role != ContainerRole::Pause) home |= target.containers[c].home;
    }
    return home;
  }

  void checkFloors(const Plan& plan) {
    const Layout layout = makeLayout(machine_, snapshot_.reserved);
    const UnitCounts units(layout);
    FloorRoom floors(layout, units);
    std::int64_t poolFloor = 0;
    for (const GroupState& group : snapshot_.groups) floors.add(shapeOf(group));
    bool pending = false;
    for (const GroupTarget& target : plan.groups) {
      const GroupState group = shapeOf(stateOf(target.id));
      pending = pending || target.pending;
      if (target.pending) continue;
      const CpuSet home = ownedBy(target);
      if (target.inPool) {
        poolFloor += group.floor.value;
      } else if (home.count() < cpusForFloor(group.floor) && !stays(plan, target.id)) {
        fail("a floor is unmet: group " + std::to_string(group.id.value) + "\n" + text(snapshot_) + text(plan));
      }
    }
    checkRounding(plan);
    if (poolFloor > 1000 * plan.pool.count()) fail("the pool's floors are unmet\n" + text(snapshot_) + text(plan));
    // Those who cannot leave their units may be in others' way.
    const bool inTheWay = std::any_of(plan.reasons.begin(), plan.reasons.end(),
                                      [](const Reason& one) { return one.code == ReasonCode::PendingInsufficientCpu && one.c != 0; });
    if (pending == floors.fits() && !(pending && inTheWay)) fail("Pending does not follow Admission\n" + text(snapshot_) + text(plan));
  }

  // Whole CPUs are within one CPU of the entitlement, unless floors or a pool say otherwise (kinds apart: not checked on mixed machines).
  void checkRounding(const Plan& plan) {
    const bool plain = plan.pool.empty() && std::all_of(snapshot_.groups.begin(), snapshot_.groups.end(), [](const GroupState& group) {
                         return group.floor.value == 0 && !hasRoles(group) && !isolated(group);
                       });
    if (!plain || mixed()) return;
    for (const GroupTarget& target : plan.groups) {
      const std::int64_t cpus = ownedBy(target).count();
      if (!target.pending && std::abs(1000 * cpus - target.entitlement.value) >= 1000) fail("rounding beyond a CPU\n" + text(snapshot_) + text(plan));
    }
  }

  [[nodiscard]] bool mixed() const {
    return std::any_of(whole_.cpus.begin(), whole_.cpus.end(), [&](const Cpu& one) { return one.capacity != whole_.cpus.front().capacity; });
  }

  // The bucket is refilled by an eighth of the machine a minute, up to that, and never overdrawn. Where nobody comes, goes or changes in size,
  // whoever runs on a CPU and loses it was moved for a better fit: that costs tokens, one for each CPU of one side, and not within the group's
  // interval.
  void checkMoveBudget(const Plan& plan) {
    const std::int64_t depth = std::max<std::int64_t>(2, makeLayout(machine_, snapshot_.reserved).size() / 8) * 1000;
    const std::int64_t elapsed = std::min<std::int64_t>((snapshot_.now - snapshot_.bucket.updated).count(), Nanos(Seconds(60)).count());
    const std::int64_t full = std::min(depth, snapshot_.bucket.level.value + depth * (elapsed / 1000) / (Nanos(Seconds(60)).count() / 1000));
    const std::int64_t used = full - plan.bucket.level.value;
    if (plan.bucket.level.value < 0 || used < 0) return fail("the move bucket is overdrawn, or filled too fast\n" + text(snapshot_) + text(plan));
    if (mixed()) return;  // numbers of each kind may change as well
    std::int64_t lost = 0;
    bool movedTooSoon = false;
    for (std::size_t g = 0; g < snapshot_.groups.size(); ++g) {
      const GroupState& group = snapshot_.groups[g];
      const GroupTarget& target = *std::find_if(plan.groups.begin(), plan.groups.end(), [&](const GroupTarget& one) { return one.id == group.id; });
      if (target.pending || isolated(group)) return;
      if (target.inPool) {
        if (!std::all_of(group.containers.begin(), group.containers.end(), [&](const ContainerState& one) { return one.home == snapshot_.pool; }))
          return;
        continue;
      }
      CpuSet before;
      CpuSet after;
      for (std::size_t c = 0; c < group.containers.size(); ++c) {
        if (group.containers[c].role == ContainerRole::Pause) continue;  // owns nothing, and follows the pool
        if (group.containers[c].home.count() != target.containers[c].home.count()) return;
        before |= group.containers[c].home;
        after |= target.containers[c].home;
      }
      if (before.count() != after.count() || before.intersects(snapshot_.pool) || !before.isSubsetOf(usableCpus(machine_, snapshot_.reserved)))
        return;
      const std::int64_t lostHere = (before - after).count();
      lost += lostHere;
      if (lostHere > 0 && group.lastOptionalMove && *group.lastOptionalMove + config_.optionalMoveInterval > snapshot_.now) movedTooSoon = true;
    }
    lost += (snapshot_.pool - plan.pool).count();
    if (snapshot_.pool.count() != plan.pool.count() || !snapshot_.pool.isSubsetOf(usableCpus(machine_, snapshot_.reserved)) || sharedHomes()) return;
    ++calm_;
    if (lost * 1000 > 2 * used) return fail("moves beyond the bucket\n" + text(snapshot_) + text(plan));
    if (movedTooSoon) fail("moved within the interval\n" + text(snapshot_) + text(plan));
  }

  // After a cut plan two may stand on one CPU: one of them has to leave it.
  [[nodiscard]] bool sharedHomes() const {
    CpuSet all = snapshot_.pool;
    for (const GroupState& group : snapshot_.groups) {
      for (const ContainerState& one : group.containers) {
        if (one.home == snapshot_.pool) continue;
        if (one.home.intersects(all)) return true;
        all |= one.home;
      }
    }
    return false;
  }

  void checkPermutation(const Plan& plan) {
    Snapshot shuffled = snapshot_;
    for (std::size_t i = shuffled.groups.size(); i > 1; --i)
      std::swap(shuffled.groups[i - 1], shuffled.groups[static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(i) - 1))]);
    const Plan other = decided(shuffled);
    if (other.steps != plan.steps || other.reasons != plan.reasons || other.pool != plan.pool)
      fail("the order of the groups matters\n" + text(snapshot_) + text(plan) + text(other));
  }

  void checkFixpoint(const Plan& plan) {
    Snapshot again = snapshot_;
    again.bucket.level = MilliCpu(1'000'000);
    again.migration.level = kManyBytes;
    // Moves that wait, isolated groups that wait for room, and takers that wait for a Pending group's end, may need several decisions; they settle
    // all the same.
    const bool deferred = std::any_of(plan.reasons.begin(), plan.reasons.end(),
                                      [](const Reason& reason) {
                                        return reason.code == ReasonCode::MoveDeferred || reason.code == ReasonCode::IsolationBlocked ||
                                               reason.code == ReasonCode::MemoryNarrowDeferred;
                                      }) ||
                          std::any_of(plan.groups.begin(), plan.groups.end(), [](const GroupTarget& target) { return target.pending; });
    for (int round = 0; round < (deferred ? kMostRounds : 1); ++round) {
      const Plan next = decided(again);
      if (next.steps.empty()) {
        const bool pending = std::any_of(next.groups.begin(), next.groups.end(), [](const GroupTarget& target) { return target.pending; });
        if (!pending && next.pool != again.pool) fail("the pool changes without a step\n" + text(again) + text(next));
        return;
      }
      if (deferred && round + 1 < kMostRounds) {
        applyAll(again, next);
        again.bucket.level = MilliCpu(1'000'000);
        again.migration.level = kManyBytes;
        continue;
      }
      return fail("not a fixpoint\nbefore " + text(before_) + text(plan) + "then " + text(again) + text(next));
    }
  }

  // What the agent does with Pending groups: ends their containers, sooner or later.
  void endPending(const Plan& plan) {
    std::erase_if(snapshot_.groups, [&](const GroupState& group) {
      return rng_.chance(70) &&
             std::any_of(plan.groups.begin(), plan.groups.end(), [&](const GroupTarget& target) { return target.id == group.id && target.pending; });
    });
  }

  bool verbose_;
  Snapshot before_;
  Planner planner_;
  std::int64_t steps_{0};
  std::int64_t calm_{0};
  std::string problem_;
};

TEST(Histories, HardRulesHoldAfterEveryStepOfEveryPlan) {
  if (const char* seed = std::getenv("COTERIE_HISTORY_SEED")) {
    const std::string problem = History(std::strtoull(seed, nullptr, 10), true).run();
    EXPECT_TRUE(problem.empty()) << problem;
    return;
  }
  const char* wanted = std::getenv("COTERIE_HISTORIES");
  const std::uint64_t histories = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 2000;
  std::int64_t steps = 0;
  std::int64_t calm = 0;
  for (std::uint64_t seed = 0; seed < histories; ++seed) {
    History history(seed, false);
    const std::string problem = history.run();
    steps += history.steps();
    calm += history.calm();
    ASSERT_TRUE(problem.empty()) << "on " << machineOf(seed).name << ", after " << steps << " steps; replay with COTERIE_HISTORY_SEED=" << seed
                                 << " allocation_test --gtest_filter=Histories.*\n"
                                 << problem;
  }
  std::cout << steps << " steps in " << histories << " histories on " << machines().size() << " shapes; move budget judged in " << calm
            << " decisions\n";
  EXPECT_GT(calm, 0);
}

}  // namespace
}  // namespace coterie::allocation
