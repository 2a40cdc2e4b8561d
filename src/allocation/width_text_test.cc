#include "allocation/width_text.h"

#include <gtest/gtest.h>

namespace coterie::allocation {
namespace {

TEST(WidthText, TimesHaveThreeDigits) {
  EXPECT_EQ(millisText(Micros(80'120)), "80.1 ms");
  EXPECT_EQ(millisText(Millis(45)), "45 ms");
  EXPECT_EQ(millisText(Micros(140)), "0.14 ms");
  EXPECT_EQ(millisText(Micros(1'050)), "1.05 ms");
  EXPECT_EQ(millisText(Millis(1234)), "1234 ms");
  EXPECT_EQ(millisText(kEndless), "without end");
}

TEST(WidthText, ACurveIsOneSentence) {
  EXPECT_EQ(curveText({{1, Millis(80), Millis(81)}, {2, Millis(45), Millis(46)}, {4, Millis(30), Millis(31)}}),
            "a run takes 80 ms by 1 thread, 45 ms by 2, 30 ms by 4");
}

TEST(WidthText, EveryReasonHasANameAndASentence) {
  WidthQuestion question;
  question.curve = {{1, Millis(80), Millis(82)}, {2, Millis(45), Millis(47)}};
  question.cpus = 2;
  question.mostAtOnce = 1;
  const auto said = [&] { return widthReasonText(chooseWidth(question), question.objective, question.quantile); };
  EXPECT_EQ(said(), "there is no objective, and 2 servers of 1 thread have most capacity, 25 requests/s");
  question.objective = Millis(60);
  EXPECT_EQ(said(),
            "1 server of 2 threads answers in 47 ms at p99, within the objective of 60 ms, and no other width that does has more capacity, 22.2 "
            "requests/s");
  question.objective = Millis(20);
  EXPECT_EQ(said(), "no width that was measured meets the objective of 20 ms; 1 server of 2 threads answers in 47 ms at p99, the soonest");
  question.mostAtOnce.reset();
  question.arrivals = MilliRps(100'000);
  EXPECT_EQ(said(), "more arrives than any width can serve; 2 servers of 1 thread have most capacity, 25 requests/s");
  question.cpus = 0;
  EXPECT_EQ(said(), "it has less than one CPU: one server of 1 thread");
  question.curve.clear();
  EXPECT_EQ(said(), "no run time is known yet: 1 thread");
  for (int reason = 0; reason <= static_cast<int>(WidthReason::NothingWasMeasured); ++reason)
    EXPECT_NE(widthReasonName(static_cast<WidthReason>(reason)), "Unknown");
}

}  // namespace
}  // namespace coterie::allocation
