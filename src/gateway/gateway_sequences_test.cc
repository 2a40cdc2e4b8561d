// Sequences of a stateful model through the gateway: whose turn it is, where the state is, and what its callers are told when it is gone.
#include <gtest/gtest.h>

#include "gateway/gateway_fixture.h"
#include "model/states.h"

namespace coterie::gateway {
namespace {

ModelSignature carrying() {
  const auto tensor = [](const char* name) { return TensorSpec{name, ElementType::Fp32, {kDynamic}, false}; };
  ModelSignature signature{{tensor("x"), tensor("h")}, {tensor("y"), tensor("hn")}};
  EXPECT_EQ(markStates({{"hn", "h"}}, signature), std::nullopt);
  return signature;
}

class SequencesTest : public GatewayTest {
 protected:
  SequencesTest() { settings_.sequences.emplace(); }
  FakeBackend& serve(FakeBackend::Mode mode, int lanes = 1, int instance = 1) {
    settings_.tenant = TenantName("a");
    backends.push_back(std::make_unique<FakeBackend>(loop, carrying(), mode));
    gateway.publishService({"na", "m"}, settings_, backends.back().get());
    addInstance(*backends.back(), instance, lanes);
    return *backends.back();
  }
  void addInstance(FakeBackend& backend, int instance, int lanes = 1) {
    gateway.setLanes({"na", "m"}, InstanceId(instance), {lanes, 0});
    for (int lane = 0; lane < lanes; ++lane) backend.addLane(instance, lane);
    loop.runUntilIdle();
  }
  Sent call(const std::string& parameters, const std::string& key = "key-a") {
    const std::string body = R"({"parameters":{)" + parameters + R"(},"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]})";
    const Sent sent =
        send(http::Method::Post, key == "key-b" ? "/v2/models/na.m/infer" : "/v2/models/m/infer", {{"authorization", "bearer " + key}}, body);
    loop.runUntilIdle();
    return sent;
  }
  Sent begin(const std::string& id = "s") { return call(R"("sequence_id":")" + id + R"(","sequence_start":true)"); }
  Sent next(const std::string& id = "s") { return call(R"("sequence_id":")" + id + "\""); }
  void finish(FakeBackend& backend, int instance, int lane) {
    backend.finish(instance, lane);
    loop.runUntilIdle();
  }
  ServiceSettings settings_;
};

TEST_F(SequencesTest, RunInOrderAndOneAtATimeWhateverLanesAreFree) {
  FakeBackend& backend = serve(FakeBackend::Mode::Manual, 2);
  const Sent first = begin(), second = next(), third = next(), other = begin("t");
  ASSERT_EQ(backend.running().size(), 2U);
  EXPECT_TRUE(backend.running().begin()->second.request.sequence->fresh);
  const auto finishHandle = [&](std::uint64_t handle) {
    for (const auto& [lane, running] : backend.running()) {
      if (running.request.sequence->handle == handle) return finish(backend, 1, lane.lane.value);
    }
    FAIL() << handle << " does not run";
  };
  finishHandle(2);
  EXPECT_EQ(other->status, 200);
  EXPECT_EQ(backend.running().size(), 1U) << "a free lane, and those that wait have not their turn";
  finishHandle(1);
  EXPECT_EQ(first->status, 200);
  ASSERT_EQ(backend.running().size(), 1U);
  EXPECT_FALSE(backend.running().begin()->second.request.sequence->fresh);
  finishHandle(1);
  EXPECT_EQ(second->status, 200);
  EXPECT_EQ(third->status, 0);
  finishHandle(1);
  EXPECT_EQ(third->status, 200);
  ASSERT_EQ(backend.states().size(), 2U);
  EXPECT_EQ(backend.states().begin()->second, 3) << "one state saw all three";
  EXPECT_EQ(figures().sequences, 2);
}

TEST_F(SequencesTest, AStateIsNoInputAndNoOutputOfARequest) {
  serve(FakeBackend::Mode::Echo);
  EXPECT_FALSE(has(get("/v2/models/m")->text, "\"h"));
  EXPECT_FALSE(has(begin()->text, "hn"));
  const Sent given = infer("m", R"({"parameters":{"sequence_id":1,"sequence_start":true},"inputs":[
      {"name":"x","shape":[1],"datatype":"FP32","data":[1]},{"name":"h","shape":[1],"datatype":"FP32","data":[1]}]})");
  EXPECT_EQ(given->status, 400);
  EXPECT_TRUE(has(given->text, "UnknownInput")) << given->text;
}

TEST_F(SequencesTest, WithoutAnIdOrAStartNothingRuns) {
  FakeBackend& backend = serve(FakeBackend::Mode::Echo);
  const Sent none = call(""), zero = call(R"("sequence_id":0,"sequence_start":true)"), unknown = next();
  EXPECT_EQ(none->status, 400);
  EXPECT_TRUE(has(none->text, "SequenceIdMissing")) << none->text;
  EXPECT_EQ(zero->status, 400) << "0 is no id, as stock clients send it";
  EXPECT_EQ(unknown->status, 404);
  EXPECT_TRUE(has(unknown->text, "SequenceUnknown")) << unknown->text;
  EXPECT_EQ(backend.runCount, 0U);
}

TEST_F(SequencesTest, AnIdIsItsTenantsOwn) {
  settings_.everybody = true;
  serve(FakeBackend::Mode::Echo);
  EXPECT_EQ(begin()->status, 200);
  const Sent other = call(R"("sequence_id":"s")", "key-b");
  EXPECT_EQ(other->status, 404);
  EXPECT_TRUE(has(other->text, "SequenceUnknown")) << other->text;
  EXPECT_EQ(next()->status, 200);
}

TEST_F(SequencesTest, AfterACrashAllThatNeedTheStateAreToldAndAStartGoesOn) {
  FakeBackend& backend = serve(FakeBackend::Mode::Manual);
  const Sent first = begin();
  finish(backend, 1, 0);
  const Sent running = next(), waiting = next(), anew = begin(), behind = next();
  backend.crash(1, 0);
  loop.runUntilIdle();
  EXPECT_EQ(running->status, 409);
  EXPECT_TRUE(has(running->text, "SequenceLost")) << running->text;
  EXPECT_EQ(waiting->status, 409);
  EXPECT_EQ(anew->status, 0);
  addInstance(backend, 2);
  ASSERT_TRUE(backend.runs(2, 0));
  finish(backend, 2, 0);
  EXPECT_EQ(anew->status, 200);
  finish(backend, 2, 0);
  EXPECT_EQ(behind->status, 200);
}

TEST_F(SequencesTest, AnInstanceThatEndsIdleTakesItsSequencesWithIt) {
  FakeBackend& backend = serve(FakeBackend::Mode::Echo);
  EXPECT_EQ(begin()->status, 200);
  backend.endInstance(1);
  backend.removeLane(1, 0);
  loop.runUntilIdle();
  addInstance(backend, 2);
  const Sent lost = next();
  EXPECT_EQ(lost->status, 409);
  EXPECT_TRUE(has(lost->text, "SequenceLost")) << lost->text;
  EXPECT_EQ(begin()->status, 200);
  EXPECT_EQ(next()->status, 200);
}

TEST_F(SequencesTest, OneThatIsSilentForAWhileKeepsThem) {
  FakeBackend& backend = serve(FakeBackend::Mode::Echo);
  EXPECT_EQ(begin()->status, 200);
  backend.removeLane(1, 0);
  loop.runUntilIdle();
  const Sent meanwhile = next();
  EXPECT_EQ(meanwhile->status, 0);
  backend.addLane(1, 0);
  gateway.setLanes({"na", "m"}, InstanceId(1), {1, 0});
  loop.runUntilIdle();
  EXPECT_EQ(meanwhile->status, 200);
  EXPECT_EQ(backend.states().begin()->second, 2);
}

TEST_F(SequencesTest, AnotherModelTakesOverWithoutThem) {
  serve(FakeBackend::Mode::Echo);
  EXPECT_EQ(begin()->status, 200);
  FakeBackend& newer = serve(FakeBackend::Mode::Echo, 1, 2);
  newer.endInstance(1);
  const Sent lost = next();
  EXPECT_EQ(lost->status, 409) << lost->text;
  EXPECT_EQ(begin()->status, 200);
  EXPECT_EQ(next()->status, 200);
  EXPECT_EQ(newer.states().begin()->second, 2);
}

TEST_F(SequencesTest, AnEndOrAnIdleLimitLeavesNothingBehind) {
  FakeBackend& backend = serve(FakeBackend::Mode::Echo);
  EXPECT_EQ(begin()->status, 200);
  EXPECT_EQ(call(R"("sequence_id":"s","sequence_end":true)")->status, 200);
  EXPECT_TRUE(backend.states().empty());
  EXPECT_EQ(next()->status, 404);
  EXPECT_EQ(begin("idle")->status, 200);
  loop.advance(settings_.sequences->maxIdle);
  EXPECT_TRUE(backend.states().empty()) << "forgotten, and its instance was told";
  EXPECT_EQ(next("idle")->status, 404);
  EXPECT_EQ(figures().sequences, 0);
}

TEST_F(SequencesTest, WhoLeavesHisPlaceDoesNotHoldUpThoseBehind) {
  FakeBackend& backend = serve(FakeBackend::Mode::Manual);
  const Sent first = begin(), leaving = next(), behind = next();
  leaving->leave();
  finish(backend, 1, 0);
  EXPECT_EQ(first->status, 200);
  ASSERT_TRUE(backend.runs(1, 0));
  finish(backend, 1, 0);
  EXPECT_EQ(behind->status, 200);
  EXPECT_EQ(backend.states().begin()->second, 2);
}

TEST_F(SequencesTest, ADeadlineHoldsWhileItWaitsForItsTurn) {
  FakeBackend& backend = serve(FakeBackend::Mode::Manual);
  settings_.deadline = Seconds(2);
  gateway.publishService({"na", "m"}, settings_, &backend);
  const Sent first = begin(), late = call(R"("sequence_id":"s","timeout":1000000)");
  loop.advance(Millis(1500));
  EXPECT_EQ(late->status, 504);
  EXPECT_TRUE(has(late->text, "DeadlinePassed")) << late->text;
  finish(backend, 1, 0);
  EXPECT_EQ(first->status, 200);
  EXPECT_TRUE(backend.running().empty());
}

TEST_F(SequencesTest, WhatRanAfterItsDeadlineIsTakenBack) {
  FakeBackend& backend = serve(FakeBackend::Mode::Manual);
  begin();
  finish(backend, 1, 0);
  const Sent late = call(R"("sequence_id":"s","timeout":1000000)"), left = next();
  loop.advance(Millis(1500));
  EXPECT_EQ(late->status, 504);
  backend.finishWhateverWasSaid(1, 0);
  loop.runUntilIdle();
  left->leave();
  backend.finishWhateverWasSaid(1, 0);
  loop.runUntilIdle();
  const Sent after = next();
  ASSERT_TRUE(backend.running().begin()->second.request.sequence->takesBack);
  finish(backend, 1, 0);
  EXPECT_EQ(after->status, 200);
  EXPECT_EQ(backend.states().begin()->second, 2) << "the start, and this one";
}

TEST_F(SequencesTest, OneThatAWorkerMayTakeYetLosesItsSequence) {
  FakeBackend& backend = serve(FakeBackend::Mode::Manual);
  begin();
  finish(backend, 1, 0);
  const Sent unread = next(), behind = next();
  backend.loseUnstarted(1, 0);
  backend.addLane(1, 0);  // it was silent for a while
  gateway.setLanes({"na", "m"}, InstanceId(1), {1, 0});
  loop.runUntilIdle();
  for (const Sent& each : {unread, behind, next()}) {
    EXPECT_EQ(each->status, 409);
    EXPECT_TRUE(has(each->text, "SequenceLost")) << each->text;
  }
}

TEST_F(SequencesTest, AFailedRunLeavesTheStateOfTheOneBefore) {
  FakeBackend& backend = serve(FakeBackend::Mode::Manual);
  begin();
  finish(backend, 1, 0);
  const Sent failed = next(), after = next();
  backend.fail(1, 0, {Code::InvalidArgument, "BadInput", "no"});
  loop.runUntilIdle();
  EXPECT_EQ(failed->status, 400);
  finish(backend, 1, 0);
  EXPECT_EQ(after->status, 200);
  EXPECT_EQ(backend.states().begin()->second, 2);
}

TEST_F(SequencesTest, LimitsAreNamed) {
  settings_.sequences->maxSequences = 1;
  settings_.sequences->maxWaiting = 1;
  serve(FakeBackend::Mode::Manual);
  const Sent running = begin(), waiting = next(), beyond = next(), another = begin("t");
  EXPECT_EQ(beyond->status, 429);
  EXPECT_TRUE(has(beyond->text, "SequenceBacklog") && has(beyond->text, "stateful.maxWaiting=1")) << beyond->text;
  EXPECT_EQ(another->status, 429);
  EXPECT_TRUE(has(another->text, "SequenceLimit") && has(another->text, "stateful.maxSequences=1")) << another->text;
}

TEST_F(SequencesTest, AModelWithoutStateTakesTheParametersAndCaresForNone) {
  publish({"na", "plain"}, FakeBackend::Mode::Echo);
  const Sent sent = infer("plain", R"({"parameters":{"sequence_id":7,"sequence_start":true},"inputs":[
      {"name":"x","shape":[1],"datatype":"FP32","data":[1]}]})");
  loop.runUntilIdle();
  EXPECT_EQ(sent->status, 200);
}

}  // namespace
}  // namespace coterie::gateway
