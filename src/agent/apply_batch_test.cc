#include "agent/apply_batch.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "agent/demand.h"
#include "agent/spsc_queue.h"
#include "base/rng.h"

namespace coterie::agent {
namespace {

using namespace std::chrono_literals;

// A write that answers what its payload says, and counts itself.
int answer(const PreparedWrite& write) noexcept {
  if (write.context != nullptr) static_cast<std::atomic<int>*>(write.context)->fetch_add(1);
  return write.target;
}
ApplyStep step(int error, std::vector<int> waits, std::atomic<int>* count = nullptr) {
  ApplyStep made;
  made.change.writes.push_back({PreparedWrite::Kind::Call, error, "", nullptr, count});
  made.waitsFor = std::move(waits);
  return made;
}

TEST(ApplyBatch, OrderFailuresAndSkips) {
  std::vector<ApplyStep> steps;
  steps.push_back(step(0, {}));
  steps.push_back(step(EIO, {}));
  steps.push_back(step(0, {0}));
  steps.push_back(step(0, {1}));     // waits for the failure
  steps.push_back(step(0, {3, 0}));  // and so does this
  ApplyBatch batch(std::move(steps));
  while (batch.workOne(answer)) {
  }
  EXPECT_TRUE(batch.allFinal());
  const ApplyState wanted[] = {ApplyState::Done, ApplyState::Failed, ApplyState::Done, ApplyState::Skipped, ApplyState::Skipped};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(batch.state(i), wanted[i]) << i;
  EXPECT_EQ(batch.error(1), EIO);
}

TEST(ApplyBatch, TheFirstFailedWriteEndsAStep) {
  std::atomic<int> made{0};
  ApplyStep three = step(0, {}, &made);
  three.change.writes.push_back({PreparedWrite::Kind::Call, EPERM, "", nullptr, &made});
  three.change.writes.push_back({PreparedWrite::Kind::Call, 0, "", nullptr, &made});
  std::vector<ApplyStep> steps;
  steps.push_back(std::move(three));
  ApplyBatch batch(std::move(steps));
  EXPECT_TRUE(batch.workOne(answer));
  EXPECT_EQ(made.load(), 2);
  EXPECT_EQ(batch.error(0), EPERM);
}

TEST(ApplyBatch, WhatRunsElsewhereBlocksOnlyItsTakers) {
  std::vector<ApplyStep> steps;
  steps.push_back(step(0, {}));
  steps.push_back(step(0, {0}));
  steps.push_back(step(0, {}));
  ApplyBatch batch(std::move(steps));
  EXPECT_EQ(batch.claim(), 0);  // somebody has it, and is stuck
  while (batch.workOne(answer)) {
  }
  EXPECT_EQ(batch.state(1), ApplyState::Waiting);
  EXPECT_EQ(batch.state(2), ApplyState::Done);
  batch.cancelWaiting();
  batch.finish(0, 0);
  EXPECT_TRUE(batch.allFinal());
  EXPECT_EQ(batch.state(1), ApplyState::Skipped);
}

RC_GTEST_PROP(ApplyBatch, ThreadsTogetherRunEachStepOnceAndNoneBeforeWhatItWaitsFor, (std::uint32_t seed)) {
  Rng rng(seed);
  const int count = static_cast<int>(rng.between(1, 40));
  struct Watch {
    std::atomic<int> runs{0};
    std::atomic<bool> early{false};
    std::vector<Watch*> before;
  };
  std::vector<std::unique_ptr<Watch>> watches;
  std::vector<ApplyStep> steps;
  for (int i = 0; i < count; ++i) {
    watches.push_back(std::make_unique<Watch>());
    ApplyStep made;
    for (int other = 0; other < i; ++other) {
      if (!rng.chance(15)) continue;
      made.waitsFor.push_back(other);
      watches.back()->before.push_back(watches[static_cast<std::size_t>(other)].get());
    }
    made.change.writes.push_back({PreparedWrite::Kind::Call, rng.chance(5) ? EIO : 0, "", nullptr, watches.back().get()});
    steps.push_back(std::move(made));
  }
  const auto execute = [](const PreparedWrite& write) noexcept {
    auto* watch = static_cast<Watch*>(write.context);
    for (const Watch* before : watch->before) {
      if (before->runs.load() != 1) watch->early.store(true);
    }
    watch->runs.fetch_add(1);
    return write.target;
  };
  ApplyBatch batch(std::move(steps));
  const auto work = [&] {
    while (batch.workOne(execute)) {
    }
  };
  std::thread helper(work);
  work();
  helper.join();
  RC_ASSERT(batch.allFinal());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    RC_ASSERT(!watches[i]->early.load());
    RC_ASSERT(watches[i]->runs.load() == (batch.state(i) == ApplyState::Skipped ? 0 : 1));
  }
}

TEST(SpscQueue, KeepsOrderAcrossThreadsAndRefusesWhenFull) {
  SpscQueue<int, 4> small;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(small.push(i));
  EXPECT_FALSE(small.push(4));
  EXPECT_EQ(small.pop(), 0);
  EXPECT_TRUE(small.push(4));

  SpscQueue<int, 64> queue;
  constexpr int kCount = 20000;
  std::thread producer([&] {
    for (int i = 0; i < kCount;) i += queue.push(i) ? 1 : (std::this_thread::yield(), 0);
  });
  bool ordered = true;
  for (int expected = 0; expected < kCount;) {
    const auto got = queue.pop();
    if (!got) {
      std::this_thread::yield();
      continue;
    }
    ordered = ordered && *got == expected;
    ++expected;
  }
  producer.join();
  EXPECT_TRUE(ordered);
  EXPECT_FALSE(queue.pop().has_value());
}

struct DemandCase {
  std::int64_t milliRps;
  Nanos run;
  std::int64_t queued;
  bool critical;
  std::optional<Nanos> objective;
  std::int64_t milliCpus;
};

TEST(Demand, Table) {
  const DemandCase cases[] = {
      {0, 0ms, 0, true, {}, 0},
      {10'000, 70ms, 0, true, {}, 1200},   // 10/s x 70 ms = 0.7 CPU at 70 % = 1 CPU, times 1.2
      {10'000, 95ms, 0, false, {}, 1200},  // batch runs at 95 %
      {0, 100ms, 10, true, {}, 1200},      // one second of queue in one second
      {0, 100ms, 10, true, 200ms, 12000},  // in half the objective
      {10'000, 70ms, 10, true, 1400ms, 2400},
      {1'000'000'000, 300s, 1'000'000, true, 1ms, 1'000'000'000},  // saturates
      {5'000, 0ms, 100, true, {}, 0},                              // no figure yet for a run
  };
  for (const DemandCase& expected : cases) {
    EXPECT_EQ(demandOf({MilliRps(expected.milliRps), expected.run, expected.queued, false}, expected.critical, expected.objective).value,
              expected.milliCpus);
  }
}

RC_GTEST_PROP(Demand, NeverNegativeAndMonotone, (std::uint32_t rate, std::uint32_t micros, std::uint16_t queued)) {
  const DemandSample sample{MilliRps(rate), Micros{micros}, queued, true};
  DemandSample more = sample;
  more.arrivals += MilliRps(1000);
  more.queued += 1;
  const MilliCpu demand = demandOf(sample, true, 100ms);
  RC_ASSERT(demand.value >= 0);
  RC_ASSERT(demandOf(more, true, 100ms) >= demand);
  RC_ASSERT(demandOf(sample, false, 100ms) <= demand);
}

}  // namespace
}  // namespace coterie::agent
