#include "allocation/width.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"

namespace coterie::allocation {
namespace {

Nanos millis(double ms) { return Nanos(std::llround(ms * 1e6)); }

std::vector<RunTime> curveOf(const std::vector<std::pair<int, double>>& runsPerSecond) {
  std::vector<RunTime> curve;
  for (const auto& [width, rate] : runsPerSecond) curve.push_back({width, millis(1000 / rate), millis(1000 / rate)});
  return curve;
}

// ResNet50 on 32 CPUs, one request at a time, pinned in CPUs and memory (the seed system's published results; in-node-facts, section 1).
WidthQuestion seed() {
  WidthQuestion question;
  question.curve = curveOf({{1, 4.6}, {2, 8.6}, {4, 11.6}, {8, 16.9}, {16, 21.6}, {32, 20.4}});
  question.cpus = 32;
  question.arrivals = MilliRps(1000);
  question.nodesSpanned = 2;
  question.maxContainers = 32;
  return question;
}

TEST(Width, ThroughputAloneWantsManyServers) {
  const WidthChoice choice = chooseWidth(seed());
  EXPECT_EQ(choice.chosen.width, 1);
  EXPECT_EQ(choice.chosen.servers, 32);
  EXPECT_EQ(choice.reason, WidthReason::MostCapacity);
  EXPECT_EQ(choice.containers, 2);  // one per node
  ASSERT_EQ(choice.ratings.size(), 6u);
  for (std::size_t i = 1; i < choice.ratings.size(); ++i) EXPECT_LT(choice.ratings[i].capacity, choice.ratings[i - 1].capacity);
}

TEST(Width, AStreamOfSingleRequestsWantsFewAndWideOnes) {
  WidthQuestion question = seed();
  question.objective = millis(50);
  EXPECT_EQ(chooseWidth(question).chosen.width, 16);  // 46 ms; two servers
  question.objective = millis(65);
  EXPECT_EQ(chooseWidth(question).chosen.width, 8);  // 59 ms, and twice the servers
  question.objective = millis(250);
  EXPECT_EQ(chooseWidth(question).chosen.width, 1);
}

TEST(Width, WhatNoWidthMeetsIsSaidWithTheNearest) {
  WidthQuestion question = seed();
  question.objective = millis(20);
  const WidthChoice choice = chooseWidth(question);
  EXPECT_EQ(choice.reason, WidthReason::ObjectiveNotMet);
  EXPECT_EQ(choice.chosen.width, 16);
  EXPECT_GT(choice.chosen.latency, millis(46));
}

TEST(Width, MoreLoadNarrowsTheRuns) {
  WidthQuestion question = seed();
  question.objective = millis(100);
  for (const auto& [arrivals, width] : std::vector<std::pair<int, int>>{{5, 4}, {30, 4}, {60, 2}, {140, 1}}) {
    question.arrivals = MilliRps(arrivals * 1000);
    EXPECT_EQ(chooseWidth(question).chosen.width, width) << arrivals;
  }
  question.arrivals = MilliRps(200'000);
  EXPECT_EQ(chooseWidth(question).reason, WidthReason::Overloaded);
  EXPECT_EQ(chooseWidth(question).chosen.width, 1);
  EXPECT_EQ(chooseWidth(question).chosen.latency, kEndless);
}

TEST(Width, AMemberOfThePoolHasOneServerAsSlowAsItsShareIsSmall) {
  WidthQuestion question = seed();
  question.cpus = 0;
  question.poolShare = MilliCpu(250);
  question.arrivals = MilliRps(100);
  const WidthChoice choice = chooseWidth(question);
  EXPECT_EQ(choice.reason, WidthReason::PoolMember);
  EXPECT_EQ(choice.chosen.servers, 1);
  EXPECT_EQ(choice.chosen.capacity, 1150);  // a quarter of 4.6
}

TEST(Width, NothingMeasuredIsWidthOne) {
  WidthQuestion question;
  EXPECT_EQ(chooseWidth(question).chosen.width, 1);
  EXPECT_EQ(chooseWidth(question).reason, WidthReason::NothingWasMeasured);
  question.curve = {{4, millis(10), millis(10)}};  // wider than what is owned
  EXPECT_EQ(chooseWidth(question).reason, WidthReason::NothingWasMeasured);
}

TEST(Width, ContainersAreWithinWhatTheServiceAllows) {
  WidthQuestion question = seed();
  question.maxContainers = 1;
  EXPECT_EQ(chooseWidth(question).containers, 1);
  question.minContainers = question.maxContainers = 3;
  EXPECT_EQ(chooseWidth(question).containers, 3);
}

// Two CPUs; a run takes 80 ms by one thread, 45 ms by two.
WidthQuestion twoCpus(double objectiveMs, double arrivals) {
  WidthQuestion question;
  question.curve = {{1, millis(80), millis(82)}, {2, millis(45), millis(47)}};
  question.cpus = 2;
  question.objective = millis(objectiveMs);
  question.arrivals = MilliRps(std::llround(arrivals * 1000));
  return question;
}

TEST(Width, AClosedLoopOfOneClientIsNoOverload) {
  struct Row {
    const char* what;
    int clients;
    double objective, arrivals;
    int width;
    WidthReason reason;
  };
  const Row rows[] = {
      {"served by one thread", 1, 60, 12.5, 2, WidthReason::MeetsObjective},
      {"served by two, which its rate fills", 1, 60, 22.4, 2, WidthReason::MeetsObjective},
      {"two clients fit on two servers, at the time of one thread", 2, 100, 25, 1, WidthReason::MeetsObjective},
      {"two clients, and no width is soon enough for both", 2, 60, 25, 1, WidthReason::ObjectiveNotMet},
      {"eight clients want capacity", 8, 60, 25, 1, WidthReason::ObjectiveNotMet},
      {"nobody comes", 0, 60, 0, 2, WidthReason::MeetsObjective},
  };
  for (const Row& row : rows) {
    WidthQuestion question = twoCpus(row.objective, row.arrivals);
    question.mostAtOnce = row.clients;
    const WidthChoice choice = chooseWidth(question);
    EXPECT_EQ(choice.chosen.width, row.width) << row.what;
    EXPECT_EQ(choice.reason, row.reason) << row.what;
    EXPECT_LT(choice.chosen.latency, kEndless) << row.what;
  }
  WidthQuestion unknown = twoCpus(60, 25);  // without having seen how many there are, it is one
  EXPECT_EQ(chooseWidth(unknown).reason, WidthReason::Overloaded);
}

TEST(Width, AWidthInForceKeepsBeingChosenByTheLoopThatItServes) {
  // Whatever width serves one client, its rate is that width's; the choice must not depend on it.
  for (const double served : {12.5, 22.2, 22.6}) {
    WidthQuestion question = twoCpus(60, served);
    question.mostAtOnce = 1;
    EXPECT_EQ(chooseWidth(question).chosen.width, 2) << served;
  }
}

TEST(Width, WithoutSharedWeightsWideServersAreAsManyAsContainers) {
  WidthQuestion question = seed();
  question.objective = millis(65);
  question.mostWideServers = 2;
  question.maxContainers = 2;
  const WidthChoice choice = chooseWidth(question);
  for (const WidthRating& rating : choice.ratings) EXPECT_LE(rating.servers, rating.width == 1 ? 32 : 2);
  EXPECT_EQ(choice.chosen.width, 16);  // two servers of eight threads would leave half of the CPUs idle
  EXPECT_EQ(choice.containers, 2);
  question.nodesSpanned = 1;
  question.mostWideServers = 4;
  question.maxContainers = 4;
  EXPECT_EQ(chooseWidth(question).chosen.width, 8);
  EXPECT_EQ(chooseWidth(question).containers, 4);
}

TEST(Width, ARunTimeOfAnotherQuantileLiesBetween) {
  const RunTime run{1, millis(80), millis(178)};
  EXPECT_EQ(atQuantile(run, 0.99).atQuantile, millis(178));
  EXPECT_EQ(atQuantile(run, 0.999).atQuantile, millis(178));
  EXPECT_EQ(atQuantile(run, 0.5).atQuantile, millis(80));
  EXPECT_EQ(atQuantile(run, 0.75).atQuantile, millis(130));
}

TEST(Width, WhatIsMeasuredFitsWhatMayBeOwned) {
  EXPECT_EQ(widthsToMeasure(0), std::vector<int>{});
  EXPECT_EQ(widthsToMeasure(1), std::vector<int>{});
  EXPECT_EQ(widthsToMeasure(2), std::vector<int>{2});
  EXPECT_EQ(widthsToMeasure(3), (std::vector<int>{2, 3}));
  EXPECT_EQ(widthsToMeasure(8), (std::vector<int>{2, 4, 8}));
  EXPECT_EQ(widthsToMeasure(12), (std::vector<int>{2, 4, 8, 12}));
}

TEST(Width, MeasuringIsWantedWhereOneThreadDoesNotDo) {
  WidthQuestion question = twoCpus(60, 1);
  question.curve.resize(1);
  EXPECT_TRUE(wantsMeasuring(question));
  question.objective = millis(1000);
  EXPECT_FALSE(wantsMeasuring(question)) << "one thread meets it";
  question.objective.reset();
  EXPECT_FALSE(wantsMeasuring(question)) << "nobody asks for it";
  question.objective = millis(60);
  question.cpus = 1;
  EXPECT_FALSE(wantsMeasuring(question)) << "one CPU";
  question.cpus = 0;
  EXPECT_FALSE(wantsMeasuring(question)) << "a member of the pool";
  question = twoCpus(60, 1);
  EXPECT_FALSE(wantsMeasuring(question)) << "it is known";
  question.curve.clear();
  EXPECT_FALSE(wantsMeasuring(question)) << "it never ran";
}

// The exact wait of M/M/c: Erlang's C, and an exponential tail.
double erlangWait(double rho, int servers, double service, double tail) {
  double term = 1, sum = 1;  // (c rho)^k / k!
  for (int k = 1; k < servers; ++k) sum += term *= servers * rho / k;
  const double last = term * servers * rho / servers / (1 - rho);
  const double chance = last / (sum + last);
  return chance <= tail ? 0 : service / (servers * (1 - rho)) * std::log(chance / tail);
}

TEST(Width, WaitsAreErlangsOrALittleMore) {
  for (const int servers : {1, 2, 4, 8, 16, 32}) {
    for (const double rho : {0.3, 0.5, 0.7, 0.8, 0.9, 0.95}) {
      WidthQuestion question;
      question.curve = {{1, millis(10), millis(10)}};
      question.cpus = servers;
      question.serviceVariation = 1;
      question.arrivals = MilliRps(std::llround(rho * servers * 100 * 1000));
      const double wait = static_cast<double>(chooseWidth(question).chosen.wait.count()) / 1e6;
      const double exact = erlangWait(rho, servers, 10, 0.01);
      EXPECT_GE(wait, exact - 0.2) << servers << " servers at " << rho;
      EXPECT_LE(wait, 1.1 * exact + 3) << servers << " servers at " << rho;
    }
  }
}

TEST(Width, TheChoiceIsTheBestOfItsRatings) {
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    WidthQuestion question;
    double time = static_cast<double>(rng.between(1, 200));
    for (int width = 1; width <= 64; width *= 2) {
      question.curve.push_back({width, millis(time), millis(time * (1 + rng.unit()))});
      time /= 1 + rng.unit();
    }
    question.cpus = static_cast<int>(rng.between(1, 64));
    question.arrivals = MilliRps(rng.between(1, 2'000'000));
    question.serviceVariation = rng.unit();
    if (rng.chance(70)) question.objective = millis(static_cast<double>(rng.between(1, 500)));
    const WidthChoice choice = chooseWidth(question);
    for (const WidthRating& rating : choice.ratings) {
      EXPECT_LE(rating.width * rating.servers, question.cpus);
      EXPECT_TRUE(!rating.feasible || !rating.overloaded);
      if (rating.feasible) {
        EXPECT_TRUE(choice.chosen.feasible);
        EXPECT_GE(choice.chosen.capacity, rating.capacity);
      }
      if (!choice.chosen.feasible && !rating.overloaded && question.objective) {
        EXPECT_LE(choice.chosen.latency, rating.latency);
      }
    }
  }
}

WidthChoice choiceOf(std::vector<WidthRating> ratings, std::size_t chosen, WidthReason reason = WidthReason::MeetsObjective) {
  WidthChoice choice;
  choice.ratings = std::move(ratings);
  choice.chosen = choice.ratings[chosen];
  choice.reason = reason;
  return choice;
}
WidthRating rated(int width, std::int64_t capacity, bool feasible, double latency = 10) {
  WidthRating rating;
  rating.width = width;
  rating.capacity = capacity;
  rating.feasible = feasible;
  rating.latency = millis(latency);
  return rating;
}

TEST(WidthWatch, InfeasibleInThreeWindowsChanges) {
  WidthWatch watch(1);
  const WidthChoice late = choiceOf({rated(1, 100, false), rated(2, 80, true)}, 1);
  EXPECT_FALSE(watch.window(late));
  EXPECT_FALSE(watch.window(late));
  EXPECT_FALSE(watch.window(choiceOf({rated(1, 100, true), rated(2, 80, true)}, 0)));  // a gust
  EXPECT_FALSE(watch.window(late));
  EXPECT_FALSE(watch.window(late));
  EXPECT_TRUE(watch.window(late));
  EXPECT_EQ(watch.width(), 2);
}

TEST(WidthWatch, ATenthBetterForAWindowChanges) {
  WidthWatch watch(2);
  const WidthChoice little = choiceOf({rated(1, 109, true), rated(2, 100, true)}, 0);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(watch.window(little));
  const WidthChoice tenth = choiceOf({rated(1, 110, true), rated(2, 100, true)}, 0);
  EXPECT_FALSE(watch.window(tenth));
  EXPECT_FALSE(watch.window(little));
  EXPECT_FALSE(watch.window(tenth));
  EXPECT_TRUE(watch.window(tenth));
  EXPECT_EQ(watch.width(), 1);
}

TEST(WidthWatch, WhereTheObjectiveIsNotMetLatencyCounts) {
  WidthWatch watch(1);
  const WidthChoice sooner = choiceOf({rated(1, 100, false, 20), rated(2, 80, false, 18)}, 1, WidthReason::ObjectiveNotMet);
  EXPECT_FALSE(watch.window(sooner));
  EXPECT_TRUE(watch.window(sooner));
}

TEST(WidthWatch, AWidthThatNoLongerFitsGoesAtOnce) {
  WidthWatch watch(8);
  EXPECT_TRUE(watch.window(choiceOf({rated(1, 100, true)}, 0)));
  EXPECT_EQ(watch.width(), 1);
}

}  // namespace
}  // namespace coterie::allocation
