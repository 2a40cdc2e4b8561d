#include "worker/measure_widths.h"

#include <gtest/gtest.h>

#include <vector>

namespace coterie::worker {
namespace {

struct Row {
  const char* what;
  std::vector<std::int32_t> widths;
  std::vector<int> runMillis;  // of each width in turn
  int turnMillis;
  int timeMillis;
  std::vector<int> measured;
};

TEST(MeasureWidths, WhatFitsIntoTheTimeAndStillGains) {
  const Row rows[] = {
      {"nothing to measure", {}, {}, 100, 1000, {}},
      {"all fit", {2, 4, 8}, {50, 25, 12}, 100, 1000, {2, 4, 8}},
      {"the first always", {2, 4, 8}, {50, 25, 12}, 2000, 1000, {2}},
      {"the next would end too late", {2, 4, 8}, {50, 25, 12}, 400, 1000, {2, 4}},
      {"to the end of the time", {2, 4}, {50, 25}, 500, 1000, {2, 4}},
      {"one step without a gain may be followed by one with", {2, 4, 8, 16}, {50, 49, 20, 10}, 10, 1000, {2, 4, 8, 16}},
      {"what is disturbed ends it", {1, 2, 4}, {50, 0, 20}, 10, 1000, {1}},
      {"two in a row end it", {2, 4, 8, 16, 32}, {50, 49, 48, 20, 10}, 10, 1000, {2, 4, 8}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Nanos now{};
    std::size_t turn = 0;
    const auto one = [&](int width) -> Result<std::optional<WidthSpeed>> {
      now += Millis(row.turnMillis);
      const Nanos run = Millis(row.runMillis.at(turn++));
      if (run == Nanos{}) return std::optional<WidthSpeed>();
      return std::optional(WidthSpeed{width, run, run, {}});
    };
    const auto speeds = measureWithin(row.widths, Millis(row.timeMillis), one, [&] { return now; });
    ASSERT_TRUE(speeds.ok());
    std::vector<int> measured;
    for (const WidthSpeed& speed : *speeds) measured.push_back(speed.width);
    EXPECT_EQ(measured, row.measured);
  }
}

TEST(MeasureWidths, AFaultEndsItAndIsTold) {
  int asked = 0;
  const auto speeds = measureWithin({2, 4}, Seconds(1), [&](int) -> Result<std::optional<WidthSpeed>> {
    ++asked;
    return Error{Code::InvalidArgument, "ProbeFailed", "why"};
  });
  EXPECT_FALSE(speeds.ok());
  EXPECT_EQ(speeds.error().reason, "ProbeFailed");
  EXPECT_EQ(asked, 1);
}

TEST(MeasureWidths, WaitingForMoreThanASixteenthIsADisturbance) {
  EXPECT_FALSE(disturbed(Nanos(0), Millis(16), 1));
  EXPECT_FALSE(disturbed(Millis(1), Millis(16), 1));
  EXPECT_TRUE(disturbed(Micros(1001), Millis(16), 1));
  EXPECT_FALSE(disturbed(Millis(2), Millis(16), 2)) << "of two threads, a sixteenth each";
  const Nanos before = waitedForCpus();
  EXPECT_GE(waitedForCpus(), before);
}

}  // namespace
}  // namespace coterie::worker
