// What a service says of an instance that lives and does nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/controller_fixture.h"

namespace coterie::controller {
namespace {

using ::testing::HasSubstr;

class Silence : public ::testing::Test, public ControllerFixture {
 protected:
  void SetUp() override {
    files.put("a.onnx", "sum-a");
    putTenant("t", {"n"});
    start();
  }
  void fallSilent(int instance) {
    runtime.listener()->instanceSilent(InstanceId(instance), "a signal has stopped it");
    loop.runUntilIdle();
  }
  void answer(int instance) {
    runtime.listener()->instanceAnswers(InstanceId(instance));
    loop.runUntilIdle();
  }
};

TEST_F(Silence, TheOnlyInstanceIsNotReadyWhileItIsSilent) {
  putService("a");
  settle();
  ASSERT_EQ(condition("a", "Ready"), "True/Serving");
  fallSilent(1);
  EXPECT_EQ(condition("a", "Ready"), "False/Unresponsive");
  EXPECT_THAT(message("a", "Ready"), HasSubstr("instance 1 does not answer: a signal has stopped it"));
  EXPECT_EQ(gateway.suspended, std::set<InstanceId>{InstanceId(1)});
  EXPECT_EQ(gateway.services.begin()->second.notReadyReason, "Unresponsive");
  EXPECT_EQ(status("a", "readyInstances"), 0);
  EXPECT_EQ(runtime.starts.size(), 1U) << "it may come back: nothing is started beside it";
  fallSilent(1);
  EXPECT_EQ(gateway.errors, 0) << "said twice, done once";
  answer(1);
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  EXPECT_TRUE(gateway.suspended.empty());
  EXPECT_TRUE(gateway.services.begin()->second.notReadyReason.empty());
  answer(1);
  EXPECT_EQ(gateway.errors, 0);
}

TEST_F(Silence, OneOfTwoIsNamed) {
  putService("a", [](ModelServiceSpec& s) { s.instances = 2; });
  settle();
  fallSilent(2);
  EXPECT_EQ(status("a", "readyInstances"), 1);
  EXPECT_THAT(condition("a", "Ready"), HasSubstr("PartlyServing"));
  EXPECT_THAT(message("a", "Ready"), HasSubstr("1 of 2 instances serve; instance 2 does not answer"));
  EXPECT_EQ(gateway.suspended, std::set<InstanceId>{InstanceId(2)});
}

TEST_F(Silence, WhoStaysSilentIsEndedAndStartedAgain) {
  putService("a");
  settle();
  fallSilent(1);
  runtime.end(InstanceId(1), EndReason::Unresponsive, "it was silent for 10 s");
  loop.runUntilIdle();
  EXPECT_EQ(condition("a", "Ready"), "False/CrashLoopBackOff");
  EXPECT_THAT(message("a", "Ready"), HasSubstr("Unresponsive: it was silent for 10 s"));
  EXPECT_TRUE(gateway.suspended.empty());
  loop.advance(Seconds(2));
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  EXPECT_EQ(runtime.starts.size(), 2U);
}

TEST_F(Silence, BeforeItServesAndAfterItDrainsIsNobodysBusiness) {
  putService("a");
  loop.runUntilIdle();
  fallSilent(1);  // while it loads
  EXPECT_TRUE(gateway.suspended.empty());
  settle();
  EXPECT_EQ(gateway.suspended, std::set<InstanceId>{InstanceId(1)}) << "silent when it was to serve";
  answer(1);
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  putService("a", [](ModelServiceSpec& s) { s.instances = 0; });
  fallSilent(1);
  EXPECT_EQ(gateway.errors, 0);
}

}  // namespace
}  // namespace coterie::controller
