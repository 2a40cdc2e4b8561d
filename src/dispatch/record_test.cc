// Records: what is written can be read; what is replayed is the same; what is damaged is a fault; a free run follows from arrivals and costs.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "dispatch/recorded_station.h"
#include "dispatch/replay.h"

namespace coterie::dispatch {
namespace {

// Two stations under a load that overruns them now and then, recorded.
class Recorded {
 public:
  explicit Recorded(std::uint64_t seed, int batch = 4)
      : rng_(seed),
        log_([this](std::string_view more) { bytes += more; }),
        a_({.caps = {30, {}}}, "vision/resnet", &log_),
        b_({}, "audio/speech", &log_) {
    for (RecordedStation* each : {&a_, &b_}) {
      for (int i = 0; i < kTenants; ++i) {
        TenantOptions options;
        options.weight = 100 * (i + 1);
        options.band = i == 2 ? Band::Low : Band::Normal;
        options.sharesBatches = i != 1;
        each->setTenant(TenantId(i), "tenant-" + std::to_string(i), options);
      }
      ServiceOptions options;
      options.maxBatch = batch;
      const ServiceId service = each->addService(options);
      for (std::uint64_t i = 0; i < 2; ++i) each->addSlot(service, i == 0 ? SlotClass::Own : SlotClass::Loan, i);
    }
  }
  void play(Nanos length, int arrivalsPerSecond) {
    const Instant end = now_ + length;
    Instant arrival = now_;
    while (now_ < end) {
      if (!ends_.empty() && ends_.begin()->first <= arrival) {
        now_ = ends_.begin()->first;
        const auto [station, handle, run] = ends_.begin()->second;
        ends_.erase(ends_.begin());
        const auto outcome = rng_.chance(3) ? static_cast<Outcome>(rng_.between(1, 4)) : Outcome::Succeeded;
        station->completed(handle, {run, {}, run}, outcome, now_);
        step(*station);
        continue;
      }
      now_ = arrival;
      RecordedStation& station = rng_.chance(60) ? a_ : b_;
      const int tenant = static_cast<int>(rng_.between(0, kTenants - 1));
      Request request;
      request.tenant = TenantId(tenant);
      request.service = ServiceId(0);
      request.deadline = now_ + Millis(rng_.between(5, 3000));
      request.inputElements = std::uint64_t{1} << tenant;
      request.bytes = Bytes(1000);
      request.cookie = ++cookies_;
      request.batchKey = 1;
      const Admission admission = station.enqueue(request, now_);
      if (admission.accepted() && rng_.chance(2)) (void)station.cancel(admission.handle, now_);
      if (rng_.chance(1)) station.setSlotOpen(SlotId(1), rng_.chance(70));
      step(station);
      arrival += Nanos(static_cast<std::int64_t>(-std::log(static_cast<double>(rng_.between(1, 1'000'000)) / 1e6) * 1e9 / arrivalsPerSecond));
    }
  }
  std::string bytes;

 private:
  static constexpr int kTenants = 3;
  struct Running {
    RecordedStation* station;
    RequestHandle handle;
    Nanos run;
  };
  void step(RecordedStation& station) {
    decisions_.clear();
    station.next(now_, decisions_);
    for (const Dispatch& each : decisions_.dispatches) {
      if (each.together) continue;
      const Nanos run = Micros(rng_.between(3000, 20'000));
      ends_.emplace(now_ + run, Running{&station, each.request, run});
    }
  }

  Rng rng_;
  StationLog log_;
  RecordedStation a_;
  RecordedStation b_;
  Instant now_{Seconds(1000)};
  std::multimap<Instant, Running> ends_;
  std::uint64_t cookies_{0};
  Decisions decisions_;
};

TEST(Record, AReplayDecidesTheSameByteForByte) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Recorded recorded(seed);
    recorded.play(Seconds(10), 300);
    const ReplayResult result = replay(recorded.bytes);
    EXPECT_TRUE(result.identical()) << result.fault << result.difference;
    EXPECT_EQ(result.stations, 2);
    EXPECT_GT(result.dispatches, 1000);
    EXPECT_GT(result.arrivals, result.dispatches) << "some are refused, some cancelled";
    EXPECT_FALSE(result.cutOff);
  }
}

TEST(Record, AnAnswerThatDiffersIsFoundAndSaid) {
  Recorded recorded(1);
  recorded.play(Seconds(2), 300);
  RecordReader reader(recorded.bytes);
  RecordWriter writer;
  std::string forged(kRecordMagic);
  std::int64_t at = 0;
  while (auto frame = reader.next()) {
    if (auto* next = std::get_if<calls::Next>(&frame->call);
        next != nullptr && at == 0 && reader.frames() > 300 && !next->answer.dispatches.empty()) {
      next->answer.dispatches[0].slot = SlotId(1 - next->answer.dispatches[0].slot.value);
      at = reader.frames();
    }
    writer.append(forged, *frame);
  }
  const ReplayResult result = replay(forged);
  EXPECT_EQ(result.different, at);
  EXPECT_NE(result.difference.find("on slot"), std::string::npos) << result.difference;
}

TEST(Record, WhatIsReadIsWhatWasWritten) {
  Recorded recorded(2);
  recorded.play(Seconds(2), 300);
  RecordReader reader(recorded.bytes);
  RecordWriter writer;
  std::string again(kRecordMagic);
  while (const auto frame = reader.next()) writer.append(again, *frame);
  EXPECT_EQ(reader.fault(), "");
  EXPECT_EQ(again, recorded.bytes);
}

// A server that was killed leaves half a frame.
TEST(Record, ACutOffEndIsNoFault) {
  Recorded recorded(3);
  recorded.play(Seconds(1), 300);
  const ReplayResult whole = replay(recorded.bytes);
  for (std::size_t cut = 1; cut < 40; ++cut) {
    const ReplayResult result = replay(std::string_view(recorded.bytes).substr(0, recorded.bytes.size() - cut));
    EXPECT_TRUE(result.identical()) << result.fault;
    EXPECT_LE(result.frames, whole.frames);
  }
}

TEST(Record, WhatIsNoRecordIsToldSo) {
  EXPECT_NE(replay("").fault, "");
  EXPECT_NE(replay("something else\n").fault, "");
  EXPECT_TRUE(replay(kRecordMagic).identical()) << "empty, not wrong";
  std::string unknown(kRecordMagic);
  unknown += std::string("\x02\x00\x63", 3);
  EXPECT_EQ(replay(unknown).fault, "frame 1 is of kind 99, which this Coterie does not know");
  std::string unopened(kRecordMagic);
  RecordWriter writer;
  writer.append(unopened, {7, calls::Next{Instant(Seconds(1)), {}}});
  EXPECT_EQ(replay(unopened).fault, "frame 1 is for a station that was not opened");
}

RC_GTEST_PROP(Record, DamageIsAFaultOrADifferenceNeverMisuse, ()) {
  Recorded recorded(*rc::gen::inRange<std::uint64_t>(0, 5));
  recorded.play(Millis(300), 300);
  std::string bytes = recorded.bytes;
  for (int i = *rc::gen::inRange(1, 6); i > 0; --i) {
    const std::size_t at = *rc::gen::inRange<std::size_t>(kRecordMagic.size(), bytes.size());
    bytes[at] = static_cast<char>(*rc::gen::inRange(0, 256));
  }
  (void)replay(bytes);
  (void)freeRun(bytes);
}

// Issue 5, done when 8: arrivals and costs alone give the shares and the median wait of what was recorded.
TEST(Record, AFreeRunGivesTheSharesOfTheRecordedOne) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Recorded recorded(seed, 1);
    recorded.play(Seconds(60), 250);
    const FreeRunResult result = freeRun(recorded.bytes);
    ASSERT_EQ(result.fault, "");
    ASSERT_EQ(result.recorded.size(), 6U);
    for (std::size_t i = 0; i < result.recorded.size(); ++i) {
      EXPECT_EQ(result.free[i].arrivals, result.recorded[i].arrivals);
      EXPECT_NEAR(result.free[i].share, result.recorded[i].share, .02) << result.recorded[i].station << " " << result.recorded[i].tenant;
      const auto then = static_cast<double>(result.recorded[i].medianWait.count());
      EXPECT_NEAR(static_cast<double>(result.free[i].medianWait.count()), then, .15 * then + 1e6)
          << result.recorded[i].station << " " << result.recorded[i].tenant;
    }
  }
}

}  // namespace
}  // namespace coterie::dispatch
