#include "controller/service_plan.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <utility>

#include "controller/backoff.h"
#include "controller/memory.h"

namespace coterie::controller {
namespace {

using S = InstanceState;
constexpr Bytes kPlenty{INT64_MAX};

// "3s" = current instance 3 Starting, "2R!" = old instance 2 Ready; s R S D X for the states.
std::vector<PlannedInstance> instances(const std::string& text) {
  std::vector<PlannedInstance> result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    PlannedInstance instance;
    instance.id = InstanceId(text[i] - '0');
    instance.state = static_cast<S>(std::string("sRSDX").find(text[++i]));
    instance.current = i + 1 >= text.size() || text[i + 1] != '!';
    if (!instance.current) ++i;
    result.push_back(instance);
  }
  return result;
}
std::string text(const ServiceSteps& steps) {
  std::string out = "start " + std::to_string(steps.start) + " serve";
  for (const InstanceId id : steps.serve) out += " " + std::to_string(id.value);
  out += " end";
  for (const InstanceId id : steps.end) out += " " + std::to_string(id.value);
  return out;
}

TEST(ServicePlan, Table) {
  struct Case {
    const char* story;
    int desired;
    bool mayStart;
    int fits;  // instances that fit
    const char* present;
    const char* steps;
  };
  const Case cases[] = {
      {"a new service", 2, true, 9, "", "start 2 serve end"},
      {"loading", 2, true, 9, "1s 2s", "start 0 serve end"},
      {"a loaded one serves at once", 2, true, 9, "1R 2s", "start 0 serve 1 end"},
      {"scale up", 3, true, 9, "1S", "start 2 serve end"},
      {"scale down ends the youngest", 1, true, 9, "1S 2S 3S", "start 0 serve end 3 2"},
      {"scale down ends who loads before who serves", 1, true, 9, "1s 2S", "start 0 serve end 1"},
      {"stop", 0, true, 9, "1S 2s 3R 4D 5X", "start 0 serve end 1 2 3"},
      {"those that leave do not count", 1, true, 9, "1D 2X", "start 1 serve end"},
      {"in back-off", 2, false, 9, "1S", "start 0 serve end"},
      {"only one fits", 3, true, 1, "", "start 1 serve end"},
      {"a changed model is loaded beside the old one", 1, true, 9, "1S!", "start 1 serve end"},
      {"both load beside both old ones", 2, true, 9, "1S! 2S!", "start 2 serve end"},
      {"no switch before the new ones are complete", 2, true, 9, "1S! 2S! 3R 4s", "start 0 serve end"},
      {"the switch", 2, true, 9, "1S! 2S! 3R 4R", "start 0 serve 3 4 end 1 2"},
      {"room for one: switch with one", 2, true, 0, "1S! 2S! 3R", "start 0 serve 3 end 1 2"},
      {"no room beside the old one: it stays", 1, true, 0, "1S!", "start 0 serve end"},
      {"the new one does not load: the old one stays", 1, false, 9, "1S!", "start 0 serve end"},
      {"an old one that never served goes", 1, true, 9, "1s! 2R!", "start 1 serve end 1 2"},
      {"scale down and another model at once", 1, true, 9, "1S! 2S!", "start 1 serve end 2"},
      {"the rest of a switch", 2, true, 9, "1D! 2D! 3S", "start 1 serve end"},
      {"the old ones crashed meanwhile", 2, true, 9, "3R 4s", "start 0 serve 3 end"},
  };
  for (const Case& c : cases) {
    ServiceSituation situation{c.desired, c.mayStart, Bytes(10), Bytes(10LL * c.fits), kPlenty, instances(c.present)};
    EXPECT_EQ(text(planService(situation)), c.steps) << c.story;
  }
}

TEST(ServicePlan, MissingBytesAreThoseOfTheScarcerSide) {
  const ServiceSteps machine = planService({1, true, Bytes(100), Bytes(70), Bytes(90), {}});
  EXPECT_EQ(machine.missing, Bytes(30));
  EXPECT_FALSE(machine.missingInQuota);
  const ServiceSteps quota = planService({2, true, Bytes(100), Bytes(1000), Bytes(150), {}});
  EXPECT_EQ(quota.start, 1);
  EXPECT_EQ(quota.missing, Bytes(50));
  EXPECT_TRUE(quota.missingInQuota);
}

// Any situation, worked on until nothing more happens while workers load and end at random: ends complete if everything fits, never over `desired`
// current ones, never more memory than there is, never without service while an old one could serve.
RC_GTEST_PROP(ServicePlan, ConvergesWithoutGapAndWithinMemory, ()) {
  const int desired = *rc::gen::inRange(0, 5);
  const std::int64_t room = *rc::gen::inRange<std::int64_t>(0, 9);
  const int oldOnes = *rc::gen::inRange(0, static_cast<int>(std::min<std::int64_t>(room, 4)) + 1);
  std::vector<PlannedInstance> present;
  for (int i = 0; i < oldOnes; ++i) present.push_back({InstanceId(i), S::Serving, false});
  int next = 10;
  const auto serving = [&] { return std::count_if(present.begin(), present.end(), [](const PlannedInstance& i) { return i.state == S::Serving; }); };
  const auto before = std::min<std::int64_t>(serving(), desired);
  for (int round = 0; round < 100; ++round) {
    const ServiceSteps steps = planService({desired, true, Bytes(1), Bytes(room - static_cast<std::int64_t>(present.size())), kPlenty, present});
    const bool quiet = steps.start == 0 && steps.serve.empty() && steps.end.empty();
    for (int i = 0; i < steps.start; ++i) present.push_back({InstanceId(next++), S::Starting, true});
    RC_ASSERT(static_cast<std::int64_t>(present.size()) <= room);
    for (PlannedInstance& i : present) {
      if (std::find(steps.serve.begin(), steps.serve.end(), i.id) != steps.serve.end()) i.state = S::Serving;
      if (std::find(steps.end.begin(), steps.end.end(), i.id) != steps.end.end()) i.state = i.state == S::Serving ? S::Draining : S::Stopping;
    }
    // A switch for want of memory may serve with fewer for a while, but never with none.
    if (before > 0) RC_ASSERT(serving() >= 1);
    RC_ASSERT(std::count_if(present.begin(), present.end(), [](const PlannedInstance& i) { return i.current && i.state <= S::Serving; }) <= desired);
    if (quiet && std::none_of(present.begin(), present.end(), [](const PlannedInstance& i) { return i.state != S::Serving; })) break;
    for (std::size_t i = 0; i < present.size();) {
      const bool now = *rc::gen::arbitrary<bool>() || round > 60;
      if (now && present[i].state == S::Starting) present[i].state = S::Ready;
      if (now && present[i].state >= S::Draining) {
        present.erase(present.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
  const auto current = std::count_if(present.begin(), present.end(), [](const PlannedInstance& i) { return i.current && i.state == S::Serving; });
  const bool fitsBeside = std::max(oldOnes - std::max(oldOnes - desired, 0), 0) + 1 <= room;
  if (desired > 0 && fitsBeside) RC_ASSERT(current == std::min<std::int64_t>(desired, room));
}

TEST(Backoff, DoublesToAMinuteAndForgetsAfterTenGoodMinutes) {
  Backoff backoff;
  Instant now{};
  std::vector<std::int64_t> seconds;
  for (int i = 0; i < 8; ++i) seconds.push_back(std::chrono::duration_cast<Seconds>(backoff.failed(now, Seconds(5))).count());
  EXPECT_EQ(seconds, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 60, 60}));
  EXPECT_TRUE(backoff.waits(now + Seconds(59)));
  EXPECT_FALSE(backoff.waits(now + Seconds(60)));
  EXPECT_EQ(backoff.failed(now, Seconds(600)), Nanos(Seconds(1)));
  for (int i = 0; i < 100; ++i) EXPECT_LE(backoff.failed(now, Seconds(0)), Nanos(Seconds(60)));
}

TEST(Memory, NeedAndLimit) {
  const ModelFile file{"/m", "x", Bytes(100'000'000), Bytes(50'000'000)};
  const MemoryNeed estimated = memoryNeed(file, std::nullopt, Bytes(0), 4, Bytes(8'000'000));
  EXPECT_EQ(estimated.need, Bytes(428'000'000));
  EXPECT_EQ(estimated.limit, Bytes(513'600'000));
  const MemoryNeed byLanes = memoryNeed(file, Measurement{Bytes(200'000'000), Bytes(210'000'000)}, Bytes(0), 4, Bytes(8'000'000));
  EXPECT_EQ(byLanes.need, Bytes(232'000'000)) << "steady and lanes beyond the load's peak";
  const MemoryNeed byPeak = memoryNeed(file, Measurement{Bytes(200'000'000), Bytes(300'000'000)}, Bytes(0), 4, Bytes(8'000'000));
  EXPECT_EQ(byPeak.limit, Bytes(360'000'000));
  const MemoryNeed tooLittle = memoryNeed(file, std::nullopt, Bytes(400'000'000), 4, Bytes(8'000'000));
  EXPECT_EQ(tooLittle.missing, Bytes(28'000'000));
  EXPECT_EQ(tooLittle.limit, Bytes(400'000'000));
  const Measurement proven{Bytes(200'000'000), Bytes(300'000'000), Bytes(250'000'000)};
  for (const auto& [wanted, missing] : {std::pair(249, 51), std::pair(250, 0), std::pair(299, 0)}) {
    EXPECT_EQ(memoryNeed(file, proven, Bytes(wanted * 1'000'000), 4, Bytes(8'000'000)).missing, Bytes(missing * 1'000'000)) << wanted;
  }
  const Measurement unproven{Bytes(1), Bytes(2), Bytes(0)};
  EXPECT_EQ(merged(unproven, proven).provenLimit, proven.provenLimit);
  EXPECT_EQ(merged(proven, unproven).provenLimit, proven.provenLimit);
  EXPECT_EQ(merged(proven, Measurement{Bytes(1), Bytes(2), Bytes(240'000'000)}).provenLimit, Bytes(240'000'000));
  EXPECT_GT(memoryNeed({"/m", "x", Bytes(INT64_MAX), Bytes(INT64_MAX)}, std::nullopt, Bytes(0), 1, Bytes(0)).limit.value, 0) << "no overflow";
  EXPECT_EQ(memoryText(Bytes(1)), "1 MiB");
  EXPECT_EQ(memoryText(Bytes(3LL << 29)), "1.5 GiB");
}

}  // namespace
}  // namespace coterie::controller
