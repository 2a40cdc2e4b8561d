#include "dispatch/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/rng.h"

namespace coterie::dispatch {
namespace {

constexpr InstanceId kOne{1};
constexpr InstanceId kTwo{2};
constexpr SequenceRequest kStart{true, false, 1};

SequenceKey key(int tenant, std::string id = "s") { return {TenantId(tenant), ServiceId(0), 1, std::move(id)}; }
SequenceRequest plain(std::uint64_t cookie) { return {false, false, cookie}; }

class Sequences : public ::testing::Test {
 protected:
  std::optional<SequenceRefusal> arrive(const SequenceKey& of, const SequenceRequest& request) { return table.arrive(of, request, limits, now); }
  void started(const SequenceKey& of) {
    ASSERT_EQ(arrive(of, kStart), std::nullopt);
    ASSERT_TRUE(table.run(of, kOne));
    ASSERT_TRUE(table.finish(of, SequenceOutcome::Succeeded, now, out));
  }

  SequenceTable table;
  SequenceLimits limits;
  Instant now{Seconds(1)};
  std::vector<std::uint64_t> out;
};

TEST_F(Sequences, AnotherTenantsIdIsUnknown) {
  started(key(0));
  EXPECT_EQ(arrive(key(1), plain(2)), SequenceRefusal::Unknown);
  EXPECT_EQ(arrive(key(0), plain(2)), std::nullopt);
}

TEST_F(Sequences, ALaterRequestGoesOnlyWhereTheStateIsAndOneAtATime) {
  started(key(0));
  ASSERT_EQ(arrive(key(0), plain(2)), std::nullopt);
  ASSERT_EQ(arrive(key(0), plain(3)), std::nullopt);
  ASSERT_TRUE(table.turn(key(0)));
  EXPECT_EQ(table.turn(key(0))->instance, kOne);
  EXPECT_FALSE(table.run(key(0), kTwo));
  ASSERT_TRUE(table.run(key(0), kOne));
  EXPECT_FALSE(table.turn(key(0)));
  ASSERT_TRUE(table.finish(key(0), SequenceOutcome::Succeeded, now, out));
  ASSERT_TRUE(table.turn(key(0)));
  EXPECT_EQ(table.turn(key(0))->cookie, 3u);
}

TEST_F(Sequences, ALostInstanceIsNeverSilentlyAFreshState) {
  started(key(0));
  ASSERT_EQ(arrive(key(0), plain(2)), std::nullopt);
  table.lose(kOne, now, out);
  EXPECT_EQ(out, std::vector<std::uint64_t>{2});
  EXPECT_EQ(arrive(key(0), plain(3)), SequenceRefusal::Lost);
  EXPECT_EQ(arrive(key(0), plain(4)), SequenceRefusal::Lost);
  EXPECT_EQ(sequenceRefusalCode(SequenceRefusal::Lost), Code::Conflict);
  EXPECT_EQ(arrive(key(0), kStart), std::nullopt);
  EXPECT_TRUE(table.turn(key(0))->fresh);
}

TEST_F(Sequences, AStartThatWaitsOutlivesTheInstanceOfTheStateBefore) {
  started(key(0));
  ASSERT_EQ(arrive(key(0), plain(2)), std::nullopt);
  ASSERT_EQ(arrive(key(0), {true, false, 3}), std::nullopt);
  table.lose(kOne, now, out);
  EXPECT_EQ(out, std::vector<std::uint64_t>{2});
  EXPECT_TRUE(table.run(key(0), kTwo));
}

TEST_F(Sequences, AfterTheEndItIsUnknownAndNoLongerCounts) {
  started(key(0));
  ASSERT_EQ(arrive(key(0), {false, true, 2}), std::nullopt);
  EXPECT_EQ(arrive(key(0), plain(3)), SequenceRefusal::Unknown);
  ASSERT_TRUE(table.run(key(0), kOne));
  ASSERT_TRUE(table.finish(key(0), SequenceOutcome::Succeeded, now, out));
  EXPECT_EQ(table.live(TenantId(0), ServiceId(0)), 0);
}

TEST_F(Sequences, TheirNumberIsOneTenantsTheirBytesAreAllTenants) {
  limits.maxSequences = 1;
  started(key(0));
  EXPECT_EQ(arrive(key(0, "t"), kStart), SequenceRefusal::Limit);
  EXPECT_EQ(arrive(key(1, "t"), kStart), std::nullopt);
  limits = {.stateBytes = Bytes(6), .maxBytes = Bytes(35)};
  EXPECT_EQ(arrive(key(0, "t"), kStart), SequenceRefusal::Limit);
  limits.maxBytes = Bytes(36);
  EXPECT_EQ(arrive(key(0, "t"), kStart), std::nullopt);
  limits.maxWaiting = 1;
  EXPECT_EQ(arrive(key(0, "t"), plain(2)), SequenceRefusal::Backlog);
}

TEST_F(Sequences, IdleIsFreedAtTheLimitAndThenUnknown) {
  started(key(0));
  EXPECT_EQ(table.expire(now + limits.maxIdle - Nanos(1)), now + limits.maxIdle);
  EXPECT_TRUE(table.takeFreed().empty());
  EXPECT_EQ(table.expire(now + limits.maxIdle), std::nullopt);
  const std::vector<FreedState> freed = table.takeFreed();
  ASSERT_EQ(freed.size(), 1u);
  EXPECT_EQ(freed[0].key, key(0));
  EXPECT_EQ(freed[0].instance, kOne);
  EXPECT_TRUE(table.takeFreed().empty());
  EXPECT_EQ(arrive(key(0), plain(2)), SequenceRefusal::Unknown);
}

TEST_F(Sequences, BehindAFailedStartNobodyRunsOnAFreshState) {
  ASSERT_EQ(arrive(key(0), kStart), std::nullopt);
  ASSERT_EQ(arrive(key(0), plain(2)), std::nullopt);
  ASSERT_TRUE(table.run(key(0), kOne));
  ASSERT_TRUE(table.finish(key(0), SequenceOutcome::Failed, now, out));
  EXPECT_EQ(out, std::vector<std::uint64_t>{2});
  EXPECT_EQ(arrive(key(0), plain(3)), SequenceRefusal::Unknown);
}

TEST_F(Sequences, WhatCountedOnAStartThatLeftIsNotRunOnTheOldState) {
  started(key(0));
  ASSERT_EQ(arrive(key(0), {true, false, 2}), std::nullopt);
  ASSERT_EQ(arrive(key(0), plain(3)), std::nullopt);
  ASSERT_TRUE(table.cancel(key(0), 2, out, now));
  EXPECT_EQ(out, std::vector<std::uint64_t>{3});
  EXPECT_EQ(arrive(key(0), plain(4)), std::nullopt);
}

TEST_F(Sequences, AStartElsewhereLeavesNoStateBehind) {
  started(key(0));
  ASSERT_EQ(arrive(key(0), {true, false, 2}), std::nullopt);
  const auto run = table.run(key(0), kTwo);
  ASSERT_TRUE(run);
  EXPECT_TRUE(run->fresh);
  const std::vector<FreedState> freed = table.takeFreed();
  ASSERT_EQ(freed.size(), 1u);
  EXPECT_EQ(freed[0].instance, kOne);
  EXPECT_NE(freed[0].handle, run->handle);
  EXPECT_EQ(table.instanceOf(key(0)), kTwo);
}

TEST_F(Sequences, WhatNobodyWasToldIsTakenBack) {
  started(key(0));
  ASSERT_EQ(arrive(key(0), plain(2)), std::nullopt);
  ASSERT_EQ(arrive(key(0), plain(3)), std::nullopt);
  ASSERT_FALSE(table.run(key(0), kOne)->takesBack);
  ASSERT_TRUE(table.finish(key(0), SequenceOutcome::Untold, now, out));
  ASSERT_TRUE(table.run(key(0), kOne)->takesBack);
  ASSERT_TRUE(table.finish(key(0), SequenceOutcome::Failed, now, out));
  ASSERT_EQ(arrive(key(0), plain(4)), std::nullopt);
  ASSERT_TRUE(table.run(key(0), kOne)->takesBack) << "a run that failed has taken nothing back";
  ASSERT_TRUE(table.finish(key(0), SequenceOutcome::Succeeded, now, out));
  ASSERT_EQ(arrive(key(0), plain(5)), std::nullopt);
  EXPECT_FALSE(table.run(key(0), kOne)->takesBack);
}

TEST_F(Sequences, OneWhoseStateIsNotKnownIsLostAndFreed) {
  started(key(0));
  started(key(0, "t"));
  ASSERT_EQ(arrive(key(0), plain(2)), std::nullopt);
  table.lose(key(0), now, out);
  EXPECT_EQ(out, std::vector<std::uint64_t>{2});
  EXPECT_EQ(table.takeFreed().size(), 1u);
  EXPECT_EQ(arrive(key(0), plain(3)), SequenceRefusal::Lost);
  EXPECT_EQ(arrive(key(0, "t"), plain(3)), std::nullopt);
}

TEST_F(Sequences, AnEndThatFailedLeavesAStateToBeFreed) {
  started(key(0));
  ASSERT_EQ(arrive(key(0), {false, true, 2}), std::nullopt);
  ASSERT_TRUE(table.run(key(0), kOne));
  ASSERT_TRUE(table.finish(key(0), SequenceOutcome::Failed, now, out));
  EXPECT_EQ(table.takeFreed().size(), 1u);
  EXPECT_EQ(arrive(key(0), plain(3)), SequenceRefusal::Unknown);
}

// The oracle is the state itself: each instance keeps, by handle, the cookie of who wrote last. Whoever is not a start must find there the request
// accepted before it that did not leave; all that were accepted end once; and no instance keeps a state of no live sequence.
TEST(SequenceHistories, EachRequestFindsTheStateOfTheOneBefore) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    SequenceTable table;
    const SequenceLimits limits{.maxSequences = 3, .maxIdle = Millis(40), .maxWaiting = 4};
    std::map<std::pair<InstanceId, std::uint64_t>, std::uint64_t> state;  // by instance and handle
    std::map<std::pair<InstanceId, std::uint64_t>, std::uint64_t> before;
    std::map<SequenceKey, std::vector<std::uint64_t>> order;
    struct Running {
      InstanceId instance;
      SequenceRun run;
      std::uint64_t cookie{0};
    };
    std::map<SequenceKey, Running> running;
    std::set<std::uint64_t> pending;
    Instant now{};
    const auto leave = [&](const std::vector<std::uint64_t>& gone) {
      for (const std::uint64_t cookie : gone) {
        ASSERT_EQ(pending.erase(cookie), 1u);
        for (auto& each : order) std::erase(each.second, cookie);
      }
    };
    for (std::uint64_t step = 1; step <= 400; ++step) {
      now += Millis(1);
      const SequenceKey of = key(static_cast<int>(rng.between(0, 1)), std::string(1, static_cast<char>('a' + rng.between(0, 3))));
      const InstanceId instance(static_cast<int>(rng.between(1, 3)));
      std::vector<std::uint64_t> gone;
      const std::int64_t what = rng.between(0, 99);
      if (what < 45) {
        if (!table.arrive(of, {rng.chance(25), rng.chance(10), step}, limits, now)) {
          pending.insert(step);
          order[of].push_back(step);
        }
      } else if (what < 70) {
        const std::optional<SequenceTurn> turn = table.turn(of);
        const InstanceId at = turn ? turn->instance.value_or(instance) : instance;
        const auto run = table.run(of, at);
        ASSERT_EQ(run.has_value(), turn.has_value());
        if (!run) continue;
        const std::vector<std::uint64_t>& all = order[of];
        const auto own = std::find(all.begin(), all.end(), turn->cookie);
        ASSERT_NE(own, all.end());
        if (!turn->fresh) {
          ASSERT_NE(own, all.begin());
          ASSERT_EQ((run->takesBack ? before : state)[std::pair(at, run->handle)], *std::prev(own));
        }
        ASSERT_TRUE(running.emplace(of, Running{at, *run, turn->cookie}).second);
      } else if (what < 92) {
        const auto at = running.find(of);
        const auto outcome = rng.chance(80) ? SequenceOutcome::Succeeded : rng.chance(50) ? SequenceOutcome::Failed : SequenceOutcome::Untold;
        ASSERT_EQ(table.finish(of, outcome, now, gone), at != running.end());
        if (at == running.end()) continue;
        const auto& [where, run, cookie] = at->second;
        if (outcome != SequenceOutcome::Failed && run.end) {
          state.erase({where, run.handle});
          before.erase({where, run.handle});
        } else if (outcome != SequenceOutcome::Failed) {
          // As an instance does: what it keeps, and what it kept before, which a run may begin with.
          const auto was = std::exchange(state[{where, run.handle}], cookie);
          if (!run.takesBack) before[{where, run.handle}] = was;
        }
        if (outcome != SequenceOutcome::Succeeded) std::erase(order[of], cookie);
        ASSERT_EQ(pending.erase(cookie), 1u);
        running.erase(at);
      } else if (what < 96) {
        const std::uint64_t cookie = order[of].empty() ? 0 : order[of].back();
        if (table.cancel(of, cookie, gone, now)) gone.push_back(cookie);
      } else if (what < 98) {
        table.lose(instance, now, gone);
        std::erase_if(state, [&](const auto& each) { return each.first.first == instance; });
        std::erase_if(running, [&](const auto& each) { return each.second.instance == instance && pending.erase(each.second.cookie) == 1; });
      } else {
        static_cast<void>(table.expire(now));
      }
      leave(gone);
      for (const FreedState& freed : table.takeFreed()) state.erase({freed.instance, freed.handle});
      ASSERT_LE(static_cast<std::int64_t>(state.size()), table.live(ServiceId(0)));
      ASSERT_LE(table.live(of.tenant, of.service), limits.maxSequences);
    }
  }
}

}  // namespace
}  // namespace coterie::dispatch
