#include "allocation/reason_text.h"

#include <gtest/gtest.h>

#include <set>

namespace coterie::allocation {
namespace {

TEST(ReasonText, EveryReasonHasASentenceOfItsOwn) {
  std::set<std::string> sentences;
  for (int code = 0; code <= static_cast<int>(ReasonCode::SharesFloat); ++code) {
    const ReasonText text = reasonText({GroupId(1), static_cast<ReasonCode>(code), 2, 3, {}}, "audio");
    EXPECT_FALSE(text.sentence.empty()) << code;
    EXPECT_NE(text.sentence.back(), '.') << text.sentence;
    EXPECT_TRUE(sentences.insert(text.sentence).second) << text.sentence;
  }
}

TEST(ReasonText, NumbersStandAsPeopleReadThem) {
  struct Case {
    Reason reason;
    Question question;
    const char* sentence;
  };
  const Case cases[] = {
      {{{}, ReasonCode::EntitledByWeight, 1500, 125, {}},
       Question::WhyThisMany,
       "its weight entitles it to 1.5 CPUs (12.5 % of the machine's share)"},
      {{{}, ReasonCode::PlacedTogether, 2, 33, {}}, Question::WhyThese, "they lie together in NUMA node 33"},
      {{{}, ReasonCode::KeptInPlace, 1, 0, {}}, Question::WhyThese, "it keeps 1 CPU it had: moving costs more than it gains"},
      {{{}, ReasonCode::KeptInPlace, 2, 0, {}}, Question::WhyThese, "it keeps 2 CPUs it had: moving costs more than it gains"},
      {{{}, ReasonCode::MoveDeferred, 12'340'000'000, 0, {}}, Question::WhyThese, "a better place is known; the move waits 12.3 s more"},
      {{{}, ReasonCode::MoveDeferred, 1, 0, {}}, Question::WhyThese, "a better place is known; the move waits 0.0 s more"},
      {{{}, ReasonCode::PendingInsufficientCpu, 3000, 500, {}},
       Question::WhyNotMore,
       "it waits: it needs 3 CPUs (minCpus, or what its init and sidecar containers need with it, in whole CPUs, 1 at least); 0.5 CPUs are free of "
       "guarantees"},
      {{{}, ReasonCode::SharesFloat, 14, 1, {}}, Question::WhyThese, "it has no CPU of its own under this policy: it floats over the pool, 14 CPUs"},
      {{{}, ReasonCode::SharesFloat, 16, 0, {}}, Question::WhyThese, "this policy pins nothing: it floats over all CPUs"},
      {{{}, ReasonCode::PendingInsufficientCpu, 4000, 6000, {}, 1},
       Question::WhyNotMore,
       "it waits: there would be room for it, but isolated groups that cannot leave their units are in the way"},
      {{{}, ReasonCode::SizedByInit, 2000, 1000, {}},
       Question::WhyThisMany,
       "its init container needs 2 CPUs, 1 CPU is needed afterwards: the rest is given back then"},
      {{{}, ReasonCode::CappedByQuota, 2500, 2000, {}},
       Question::WhyNotMore,
       "quota.cpus of tenant audio is 2.5 CPUs; its services are entitled to 2 CPUs together"},
      {{{}, ReasonCode::LoanWoken, 3, 0, {}}, Question::WhyThisMany, "requests wait, so 3 loan lanes run on idle CPUs of others"},
      {{{}, ReasonCode::MemoryWidened, 1, 0, {}},
       Question::WhyThese,
       "its memory nodes are wider by 1: those nearest to its CPUs have no room for all that is there"},
      {{{}, ReasonCode::MemoryShort, std::int64_t{5} << 29, 0, {}},
       Question::WhyNotMore,
       "no memory node that it may use has room for 2.5 GiB of what it needs"},
      {{{}, ReasonCode::MemoryTierAbsent, static_cast<int>(MemoryKind::HighBandwidth), 0, {}},
       Question::WhyThese,
       "it asks for high-bandwidth memory, of which this machine has none"},
      {{{}, ReasonCode::MemoryNarrowDeferred, 12'340'000'000, std::int64_t{3} << 30, {}},
       Question::WhyThese,
       "its memory nodes are to be narrowed; 3.0 GiB of pages wait 12.3 s more for the budget of moves"},
  };
  for (const Case& one : cases) {
    const ReasonText text = reasonText(one.reason, "audio");
    EXPECT_EQ(text.sentence, one.sentence);
    EXPECT_EQ(text.question, one.question) << one.sentence;
  }
}

TEST(ReasonText, CpusReadAsPeopleWriteThem) {
  EXPECT_EQ(cpusText(MilliCpu(1000)), "1 CPU");
  EXPECT_EQ(cpusText(MilliCpu(250)), "0.25 CPUs");
  EXPECT_EQ(cpusText(MilliCpu(12034)), "12.034 CPUs");
  EXPECT_EQ(cpusText(MilliCpu(0)), "0 CPUs");
  EXPECT_EQ(cpusText(MilliCpu(7)), "0.007 CPUs");
}

}  // namespace
}  // namespace coterie::allocation
