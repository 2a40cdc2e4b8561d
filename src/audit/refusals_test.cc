#include "audit/refusals.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "testing/manual_loop.h"

namespace coterie::audit {
namespace {

class AuditRefusals : public ::testing::Test {
 protected:
  AuditRefusals() {
    refusals_ = std::make_unique<Refusals>(loop_, Through::Gateway, [this](std::vector<Entry> lines) {
      for (Entry& line : lines) lines_.push_back(std::move(line));
    });
  }
  void refuse(const std::string& who, const std::string& reason = "InvalidKey", const std::string& object = "speech") {
    refusals_->add(who, reason, [&] {
      Entry entry;
      entry.actor = {Actor::Kind::Source, who, {}, {}};
      entry.verb = "infer";
      entry.object = object;
      return entry;
    });
  }

  testing::ManualLoop loop_;
  std::vector<Entry> lines_;
  std::unique_ptr<Refusals> refusals_;
};

TEST_F(AuditRefusals, OneLineForEachWhoAndReasonInTenSeconds) {
  const WallTime began = loop_.clock().wall();
  refuse("192.0.2.7", "InvalidKey", "first");
  loop_.advance(Seconds(4));
  for (int i = 0; i < 99; ++i) refuse("192.0.2.7", "InvalidKey", "later");
  refuse("192.0.2.7", "NoKey");
  refuse("192.0.2.8");
  loop_.advance(Seconds(6) - Nanos(1));
  EXPECT_TRUE(lines_.empty());
  loop_.advance(Nanos(1));
  ASSERT_EQ(lines_.size(), 1U);
  const Entry& line = lines_[0];
  EXPECT_EQ(line.count, 100);
  EXPECT_EQ(line.outcome, Outcome::Refused);
  EXPECT_EQ(line.through, Through::Gateway);
  EXPECT_EQ(line.reason, "InvalidKey");
  EXPECT_EQ(line.object, "first");
  EXPECT_EQ(line.since, began);
  EXPECT_EQ(line.time.micros, began.micros + 4'000'000) << "of the last";
  loop_.advance(Seconds(4));
  ASSERT_EQ(lines_.size(), 3U);
  EXPECT_EQ(lines_[1].reason, "NoKey");
  EXPECT_EQ(lines_[2].actor.id, "192.0.2.8");
  EXPECT_EQ(loop_.pendingTimers(), 0U);
  refuse("192.0.2.7");
  loop_.advance(Seconds(10));
  EXPECT_EQ(lines_.back().count, 1) << "a window of its own";
}

TEST_F(AuditRefusals, ManySourcesFillNoTable) {
  constexpr int kMany = 5000;
  for (int i = 0; i < kMany; ++i) {
    refuse("source-" + std::to_string(i), "InvalidKey");
    refuse("source-" + std::to_string(i), "NoKey");
  }
  loop_.advance(Seconds(10));
  EXPECT_EQ(lines_.size(), Refusals::kMostRows + 2);
  std::int64_t all = 0;
  for (const Entry& line : lines_) all += line.count;
  EXPECT_EQ(all, 2 * kMany) << "every one is counted somewhere";
  EXPECT_EQ(lines_.back().actor.id, "others");
  EXPECT_TRUE(lines_.back().object.empty()) << "of whom nothing more is told";
  lines_.clear();
  refuse("source-1");
  loop_.advance(Seconds(10));
  EXPECT_EQ(lines_.at(0).actor.id, "source-1") << "there is room again";
}

TEST_F(AuditRefusals, ManyReasonsFillNoTable) {
  for (std::size_t i = 0; i < Refusals::kMostRows; ++i) refuse("source-" + std::to_string(i));
  for (int i = 0; i < 1000; ++i) refuse("late", "Reason" + std::to_string(i));
  loop_.advance(Seconds(10));
  EXPECT_EQ(lines_.size(), Refusals::kMostRows + Refusals::kMostOthers);
  EXPECT_EQ(lines_.back().reason, "Various");
}

TEST_F(AuditRefusals, TheEndHandsOnWhatIsOpen) {
  refuse("192.0.2.7");
  refuse("192.0.2.7");
  refusals_.reset();
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_[0].count, 2);
  loop_.advance(Seconds(60));
  EXPECT_EQ(lines_.size(), 1U);
}

TEST_F(AuditRefusals, NoSecretIsTold) {
  refuse("192.0.2.7", "InvalidKey", "models/ctk_4fR2xQ9LmT0a_SECRET_CRC/infer");
  refusals_->flush();
  EXPECT_EQ(lines_.at(0).object, "models/(cut)/infer");
}

}  // namespace
}  // namespace coterie::audit
