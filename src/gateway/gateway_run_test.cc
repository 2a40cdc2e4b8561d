// Lanes, deadlines, clients that leave, instances that come and go, limits and figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "gateway/gateway_fixture.h"

namespace coterie::gateway {
namespace {

// --- Order, time, and who is gone ---

TEST_F(GatewayTest, AsManyLanesAsAllowedAndNoMore) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual, {}, 2);
  backend.addLane(1, 7, LaneClass::Loan);
  std::vector<Sent> sent;
  for (int i = 0; i < 4; ++i) sent.push_back(infer());
  EXPECT_EQ(backend.running().size(), 2U);
  EXPECT_FALSE(backend.runs(1, 7));
  EXPECT_TRUE(loads[(ServiceName{"na", "m"})]->queuedBeyondOwnLanes);
  gateway.setLanes({"na", "m"}, InstanceId(1), {2, 1});
  EXPECT_TRUE(backend.runs(1, 7));
  gateway.setLanes({"na", "m"}, InstanceId(1), {1, 0});
  backend.finish(1, 1);
  backend.finish(1, 7);
  EXPECT_EQ(backend.running().size(), 1U);  // closed lanes get nothing new
  backend.finish(1, 0);
  EXPECT_TRUE(backend.runs(1, 0));
  backend.finish(1, 0);
  for (const Sent& each : sent) EXPECT_EQ(each->status, 200);
  EXPECT_EQ(loads[(ServiceName{"na", "m"})]->queued, 0);
  EXPECT_FALSE(loads[(ServiceName{"na", "m"})]->queuedBeyondOwnLanes);
}

TEST_F(GatewayTest, AQueueThatFormsIsToldOnce) {
  int told = 0;
  ServiceSettings settings;
  settings.queueFormed = [&] { ++told; };
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual, settings);
  infer();
  EXPECT_EQ(told, 0);
  infer();
  infer();
  EXPECT_EQ(told, 1);
  backend.finish(1, 0);
  backend.finish(1, 0);
  backend.finish(1, 0);
  infer();
  infer();
  EXPECT_EQ(told, 2);
}

TEST_F(GatewayTest, WhatIsSurelyRefusedIsAnsweredBeforeItsBodyIsRead) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent first = infer();
  loop.runUntilIdle();
  const Sent hopeless = infer("m", kBody, {{"Coterie-Timeout-Ms", "1"}});
  EXPECT_EQ(hopeless->status, 504);
  EXPECT_TRUE(has(hopeless->text, "DeadlineTooShort"));
  EXPECT_EQ(hopeless->bodyRemaining(), kBody.size());
  backend.finish(1, 0);
  loop.runUntilIdle();
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(figures().requests.of(504), 1);
  EXPECT_EQ(figures().requests.started, 2);
  EXPECT_EQ(figures().requests.underWay(), 0);
}

TEST_F(GatewayTest, WaitingRequestsEndAtTheirDeadline) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent first = infer();
  const Sent second = infer("m", kBody, {{"Coterie-Timeout-Ms", "200"}});
  loop.advance(Millis(250));
  EXPECT_EQ(second->status, 504);
  EXPECT_TRUE(has(second->text, "ExpiredInQueue")) << second->text;
  EXPECT_EQ(first->status, 0);
  backend.finish(1, 0);
  EXPECT_EQ(first->status, 200);
}

TEST_F(GatewayTest, ARunningRequestIsAnsweredAtItsDeadlineAndKeepsItsLaneUntilConfirmed) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent first = infer("m", R"({"parameters":{"timeout":50000},)" + kBody.substr(1));
  const Sent second = infer();
  loop.advance(Millis(49));
  EXPECT_EQ(first->status, 0);
  loop.advance(Millis(2));
  EXPECT_EQ(first->status, 504);
  EXPECT_TRUE(backend.running().begin()->second.terminated);
  EXPECT_EQ(gateway.snapshot().tenants[0].concurrent, 2);
  backend.finish(1, 0);
  EXPECT_EQ(gateway.snapshot().tenants[0].concurrent, 1);
  EXPECT_TRUE(backend.runs(1, 0));
  EXPECT_FALSE(backend.running().begin()->second.terminated);
  EXPECT_EQ(first->answers, 1);
}

TEST_F(GatewayTest, AClientThatLeavesFreesItsPlaceInTheQueueAtOnceAndItsLaneWhenConfirmed) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent running = infer();
  const Sent queued = infer();
  queued->leave();
  EXPECT_EQ(figures().queued, 0);
  EXPECT_EQ(backend.cells(), 1U);
  running->leave();
  EXPECT_TRUE(backend.running().begin()->second.terminated);
  EXPECT_EQ(gateway.snapshot().tenants[0].concurrent, 1);
  EXPECT_EQ(figures().requests.of(499), 2);
  backend.finish(1, 0);
  EXPECT_EQ(gateway.snapshot().tenants[0].concurrent, 0);
  EXPECT_EQ(backend.cells(), 0U);
}

TEST_F(GatewayTest, AClientThatLeavesWithinItsBodyLeavesNothingBehind) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  auto context = std::make_shared<FakeContext>(http::Method::Post, "/v2/models/m/infer",
                                               std::vector<std::pair<std::string, std::string>>{{"X-API-Key", "key-a"}}, kBody);
  context->broken = true;
  gateway.onRequest(context);
  EXPECT_EQ(backend.cells(), 0U);
  EXPECT_EQ(figures().requests.underWay(), 0);
  EXPECT_EQ(gateway.snapshot().bufferedBytes, 0);
}

// --- Instances come, go and crash ---

TEST_F(GatewayTest, WithoutALaneRequestsWaitAndAreAnsweredWhenOneComes) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Echo, {}, 0);
  EXPECT_EQ(get("/v2/models/m/ready")->status, 503);
  gateway.setLanes({"na", "m"}, InstanceId(1), {1, 0});
  std::vector<Sent> sent{infer(), infer(), infer()};
  EXPECT_EQ(loads[(ServiceName{"na", "m"})]->queued, 3);
  backend.addLane(1, 0);
  loop.runUntilIdle();
  for (const Sent& each : sent) EXPECT_EQ(each->status, 200);
}

TEST_F(GatewayTest, WithoutALaneRequestsAreRefusedAtTheStatedBudget) {
  ServiceSettings settings;
  settings.waitForInstance = Millis(300);
  publish({"na", "m"}, FakeBackend::Mode::Echo, settings, 0);
  const Sent sent = infer();
  const Sent left = infer();
  left->leave();
  loop.advance(Millis(299));
  EXPECT_EQ(sent->status, 0);
  loop.advance(Millis(2));
  EXPECT_EQ(sent->status, 503);
  EXPECT_TRUE(has(sent->text, "ServiceNotReady"));
  EXPECT_TRUE(has(sent->headers, "Retry-After: "));
  EXPECT_EQ(figures().requests.underWay(), 0);
}

TEST_F(GatewayTest, AServiceWithoutAModelSaysWhy) {
  ServiceSettings settings;
  settings.tenant = TenantName("a");
  settings.notReadyReason = "InsufficientMemory";
  settings.notReadyMessage = "12 MiB are missing";
  gateway.publishService({"na", "m"}, settings, nullptr);
  const Sent sent = infer();
  EXPECT_EQ(sent->status, 503);
  EXPECT_TRUE(has(sent->text, R"("error":"12 MiB are missing","reason":"InsufficientMemory")"));
  EXPECT_TRUE(has(send(http::Method::Post, "/v2/repository/index")->text, R"("state":"UNAVAILABLE","reason":"InsufficientMemory")"));
}

TEST_F(GatewayTest, WhatNeverStartedGoesElsewhereOnce) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual, {}, 2);
  const Sent busy = infer();
  const Sent sent = infer();
  ASSERT_TRUE(backend.runs(1, 0) && backend.runs(1, 1));
  backend.addLane(2, 0);
  backend.loseUnstarted(1, 1);  // the other lane of the dead instance is not tried, though it is not reported gone yet
  ASSERT_TRUE(backend.runs(2, 0));
  backend.crash(1, 0);
  EXPECT_EQ(busy->status + sent->status, 503);
  backend.loseUnstarted(2, 0);
  EXPECT_EQ(std::min(busy->status, sent->status), 503);
  EXPECT_TRUE(has(busy->text + sent->text, "InstanceLost"));
}

TEST_F(GatewayTest, AnInputInFlightAtTwoCrashesIsRefusedForATimeThatIsSaid) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent first = infer();
  backend.crash(1, 0);
  EXPECT_EQ(first->status, 503);
  EXPECT_TRUE(has(first->text, "InstanceCrashed"));
  backend.addLane(2, 0);
  const Sent second = infer();
  backend.crash(2, 0);
  EXPECT_EQ(second->status, 500);
  EXPECT_TRUE(has(second->text, "RequestCrashedModel"));
  backend.addLane(3, 0);
  loop.advance(Seconds(100));
  const Sent third = infer();
  EXPECT_EQ(third->status, 500);
  EXPECT_TRUE(has(third->text, "at 2 crashes of the model; it is refused for another 500 s and tried once more then")) << third->text;
  EXPECT_TRUE(has(third->headers, "Retry-After: "));
  const Sent other = infer("m", R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1.5,-3]}]})");
  EXPECT_EQ(other->status, 0);
  backend.finish(3, 0);
  EXPECT_EQ(other->status, 200);
  loop.advance(Seconds(500));
  const Sent again = infer();
  backend.finish(3, 0);
  EXPECT_EQ(again->status, 200);
}

// Somebody's kill -9 of two workers had the inputs that ran there refused until the service was made anew.
TEST_F(GatewayTest, AKillFromOutsideIsNotHeldAgainstWhatRan) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual, {}, 0);
  for (int instance = 2; instance <= 5; ++instance) {
    backend.addLane(instance, 0);
    const Sent sent = infer();
    backend.crash(instance, 0);
    EXPECT_EQ(sent->status, 503) << instance;
    gateway.endedFromOutside(InstanceId(instance));
  }
}

// A crash loop's back-off was longer than the deadline: requests waited all their time, and were told 504.
TEST_F(GatewayTest, WhoCannotWaitForTheNextInstanceIsToldAtOnce) {
  ServiceSettings settings;
  settings.deadline = Seconds(2);
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Echo, settings, 0);
  const Sent early = infer();
  const Sent patient = infer();
  EXPECT_EQ(early->status, 0);
  settings.tenant = TenantName("a");
  settings.noInstanceBefore = loop.clock().now() + Seconds(16);
  settings.notReadyReason = "CrashLoopBackOff";
  settings.notReadyMessage = "the last instance ended: Crashed";
  gateway.publishService({"na", "m"}, settings, &backend);
  const Sent late = infer();
  for (const Sent& each : {early, patient, late}) {
    EXPECT_EQ(each->status, 503);
    EXPECT_TRUE(has(each->text, R"("reason":"CrashLoopBackOff")")) << each->text;
    EXPECT_TRUE(has(each->text, R"("retryAfterMs":)"));
    EXPECT_FALSE(has(each->text, R"("retryAfterMs":1000,)")) << each->text;
  }
  loop.advance(Seconds(15));
  const Sent inTime = infer();
  EXPECT_EQ(inTime->status, 0);  // an instance may start within its deadline
  gateway.setLanes({"na", "m"}, InstanceId(1), {1, 0});
  backend.addLane(1, 0);
  loop.runUntilIdle();
  EXPECT_EQ(inTime->status, 200);
}

TEST_F(GatewayTest, WithoutAnInstanceADeadlineEndsWith503) {
  publish({"na", "m"}, FakeBackend::Mode::Echo, {}, 0);
  const Sent sent = infer("m", kBody, {{"Coterie-Timeout-Ms", "200"}});
  loop.advance(Millis(201));
  EXPECT_EQ(sent->status, 503);
  EXPECT_TRUE(has(sent->text, "ServiceNotReady")) << sent->text;
}

TEST_F(GatewayTest, RetriesAreATenthOfTheRequestsAndTenInAnyCase) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual, {}, 0);
  backend.addLane(1000, 0);
  int instance = 1;
  const auto lostOnce = [&] {
    backend.addLane(++instance, 0);
    const Sent busy = infer();  // the lane used last is taken first, whichever that is
    const Sent sent = infer();
    backend.loseUnstarted(instance, 0);
    const bool refused = has(busy->text + sent->text, "RetriesSpent");
    while (!backend.running().empty()) backend.finish(1000, 0);
    EXPECT_EQ(busy->status + sent->status, refused ? 703 : 400);
    return refused;
  };
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(lostOnce()) << i;
  EXPECT_TRUE(lostOnce());
  loop.advance(Seconds(11));
  EXPECT_FALSE(lostOnce());
  for (int i = 0; i < 200; ++i) infer(), backend.finish(1000, 0);
  for (int i = 0; i < 19; ++i) EXPECT_FALSE(lostOnce()) << i;
}

TEST_F(GatewayTest, AReplacedModelFinishesWhatItHoldsAndThenIsDrained) {
  FakeBackend& old = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent running = infer();
  const Sent queued = infer();
  FakeBackend fresh(loop, identity(), FakeBackend::Mode::Echo);
  fresh.addLane(2, 0);
  bool drained = false;
  ServiceSettings settings;
  settings.tenant = TenantName("a");
  const auto load = gateway.publishService({"na", "m"}, settings, &fresh, [&] { drained = true; });
  EXPECT_EQ(load, loads[(ServiceName{"na", "m"})]);
  const Sent next = infer();
  loop.runUntilIdle();
  EXPECT_EQ(next->status, 200);
  EXPECT_FALSE(drained);
  old.finish(1, 0);
  old.finish(1, 0);
  EXPECT_EQ(running->status, 200);
  EXPECT_EQ(queued->status, 200);
  loop.runUntilIdle();
  EXPECT_TRUE(drained);
  bool gone = false;
  gateway.withdrawService({"na", "m"}, [&] { gone = true; });
  EXPECT_EQ(infer()->status, 404);
  loop.runUntilIdle();
  EXPECT_TRUE(gone);
}

TEST_F(GatewayTest, DrainingRefusesNewRequestsAndFinishesOldOnes) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent running = infer();
  gateway.drain();
  const Sent refused = infer();
  EXPECT_EQ(refused->status, 503);
  EXPECT_TRUE(has(refused->text, "Draining"));
  EXPECT_EQ(send(http::Method::Get, "/v2/health/ready", {})->status, 503);
  EXPECT_EQ(send(http::Method::Get, "/v2/health/live", {})->status, 200);
  backend.finish(1, 0);
  EXPECT_EQ(running->status, 200);
}

// --- Large JSON goes beside the loop ---

std::string largeBody(int count) {
  std::string body = R"({"inputs":[{"name":"x","shape":[)" + std::to_string(count) + R"(],"datatype":"FP32","data":[0.5)";
  for (int i = 1; i < count; ++i) body += ",0.5";
  return body + "]}]}";
}

TEST_F(GatewayTest, LargeJsonIsReadAndWrittenBesideTheLoop) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Echo);
  const Sent large = infer("m", largeBody(50'000));
  EXPECT_EQ(large->status, 0);
  const Sent small = infer();
  loop.runUntilIdle();
  EXPECT_EQ(small->status, 200);
  while (large->status == 0) loop.runUntilIdle(), std::this_thread::yield();
  EXPECT_EQ(large->status, 200);
  EXPECT_EQ(std::count(large->text.begin(), large->text.end(), '5'), 50'001);  // each 0.5, and the shape
  const Sent wrong = infer("m", largeBody(50'000) + "x");
  while (wrong->status == 0) loop.runUntilIdle(), std::this_thread::yield();
  EXPECT_EQ(wrong->status, 400);
  EXPECT_EQ(backend.cells(), 0U);
  EXPECT_EQ(gateway.snapshot().bufferedBytes, 0);
}

TEST_F(GatewayTest, AClientThatLeavesWhileItsAnswerIsWrittenLeavesNothingBehind) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent sent = infer("m", largeBody(200'000));
  while (backend.running().empty()) loop.runUntilIdle(), std::this_thread::yield();
  backend.finish(1, 0);  // the answer's JSON is being written now
  sent->leave();
  EXPECT_EQ(sent->answers, 1);
  while (backend.cells() > 0) loop.runUntilIdle(), std::this_thread::yield();
  EXPECT_EQ(gateway.snapshot().tenants[0].concurrent, 0);
  EXPECT_EQ(figures().requests.of(499), 1);
}

// --- Limits and figures ---

TEST_F(GatewayTest, EveryLimitOfTheQuotaBites) {
  publish({"na", "m"}, FakeBackend::Mode::Manual);
  TenantQuota quota;
  quota.concurrentRequests = 2;
  gateway.setTenant(TenantName("a"), {{"na"}, 100, quota});
  infer();
  infer();
  const Sent third = infer();
  EXPECT_EQ(third->status, 429);
  EXPECT_TRUE(has(third->text, R"("limit":"quota.concurrentRequests=2","retryAfterMs":)")) << third->text;
  EXPECT_TRUE(has(third->headers, "Coterie-Reason: ConcurrencyExceeded"));

  quota = {};
  // Two of 8 bytes may wait (one does already) beside a body that is read.
  const auto most = static_cast<std::int64_t>(kBody.size()) + 20;
  quota.queuedBytes = Bytes(most);
  gateway.setTenant(TenantName("a"), {{"na"}, 100, quota});
  EXPECT_EQ(infer()->status, 0);
  const Sent fourth = infer();
  EXPECT_EQ(fourth->status, 429);
  EXPECT_TRUE(has(fourth->text, "quota.queuedBytes=" + std::to_string(most)));

  quota = {};
  quota.requestsPerSecond = 1;
  gateway.setTenant(TenantName("b"), {{"nb"}, 100, quota});
  EXPECT_EQ(get("/v2/models/x", "key-b")->status, 404);
  EXPECT_EQ(get("/v2/models/x", "key-b")->status, 429);
  loop.advance(Seconds(1));
  EXPECT_EQ(get("/v2/models/x", "key-b")->status, 404);
}

TEST_F(GatewayTest, TheQueueIsBounded) {
  ServiceSettings settings;
  settings.maxQueuedRequests = 3;
  publish({"na", "m"}, FakeBackend::Mode::Manual, settings);
  std::vector<Sent> sent;
  for (int i = 0; i < 6; ++i) sent.push_back(infer());
  EXPECT_EQ(std::count_if(sent.begin(), sent.end(), [](const Sent& each) { return each->status == 429; }), 2);
  EXPECT_EQ(figures().queued, 3);
}

TEST_F(GatewayTest, CountersAreExactUnderLongRequests) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual, {}, 2);
  std::vector<Sent> sent{infer(), infer(), infer()};
  loop.advance(Seconds(20));
  ServiceSnapshot row = figures();
  EXPECT_EQ(row.requests.started, 3);
  EXPECT_EQ(row.requests.underWay(), 3);
  EXPECT_EQ(row.inFlight, 2);
  EXPECT_EQ(row.queued, 1);
  EXPECT_TRUE(has(get("/v2/models/m/stats")->text, R"("inference_count":0)"));
  backend.finish(1, 0);
  backend.finish(1, 1);
  row = figures();
  EXPECT_EQ(row.requests.of(200), 2);
  EXPECT_EQ(row.requests.underWay(), 1);
  EXPECT_GE(row.total.max(), Nanos(Seconds(20)).count());
  EXPECT_TRUE(has(get("/v2/models/m/stats")->text, R"("inference_count":2)"));
}

TEST_F(GatewayTest, AnIdleGatewayArmsNoTimers) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  const Sent sent = infer();
  loop.runUntilIdle();
  EXPECT_EQ(sent->status, 200);
  loop.advance(Seconds(60));
  EXPECT_EQ(loop.pendingTimers(), 0U);
  EXPECT_EQ(loads[(ServiceName{"na", "m"})]->arrivalsMilliPerSecond, 0);
}

}  // namespace
}  // namespace coterie::gateway
