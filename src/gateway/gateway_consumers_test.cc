// Services that are open to other tenants: who may call, who pays, whose turn it is, what each sees.
#include <gtest/gtest.h>

#include <vector>

#include "gateway/gateway_fixture.h"

namespace coterie::gateway {
namespace {

class ConsumersTest : public GatewayTest {
 protected:
  ConsumersTest() { gateway.setTenant(TenantName("c"), {{"nc"}, 100, {}}); }
  static ServiceSettings openTo(std::vector<std::string> consumers, bool everybody = false) {
    ServiceSettings settings;
    settings.tenant = TenantName("b");
    for (auto& name : consumers) settings.consumers.emplace_back(std::move(name));
    settings.everybody = everybody;
    return settings;
  }
  Sent call(const std::string& key, const std::string& model = "nb.shared", const std::string& body = kBody) {
    return send(http::Method::Post, "/v2/models/" + model + "/infer", {{"authorization", "bearer " + key}}, body);
  }
  const CallerSnapshot* calls(const std::string& tenant) {
    shared_ = figures({"nb", "shared"});
    for (const CallerSnapshot& each : shared_.callers) {
      if (each.tenant.value == tenant) return &each;
    }
    return nullptr;
  }
  ServiceSnapshot shared_;
};

TEST_F(ConsumersTest, AConsumerCallsByTheFullNameAndSeesItInItsLists) {
  publish({"nb", "shared"}, FakeBackend::Mode::Echo, openTo({"a"}));
  publish({"nb", "secret"}, FakeBackend::Mode::Echo);
  const Sent sent = call("key-a");
  loop.runUntilIdle();
  EXPECT_EQ(sent->status, 200);
  EXPECT_EQ(call("key-a", "shared")->status, 404) << "plain names are of one's own namespaces";
  EXPECT_EQ(call("key-a", "nb.secret")->status, 404);
  EXPECT_EQ(send(http::Method::Post, "/v2/repository/index")->text, R"([{"name":"nb.shared","version":"1","state":"READY","reason":""}])");
  EXPECT_EQ(get("/v2/models/nb.shared")->status, 200);
}

TEST_F(ConsumersTest, EverybodyIsEverybody) {
  publish({"nb", "shared"}, FakeBackend::Mode::Echo, openTo({}, true));
  const Sent sent = call("key-a");
  loop.runUntilIdle();
  EXPECT_EQ(sent->status, 200);
}

TEST_F(ConsumersTest, OneThatIsRemovedFindsNothingFromThenOnAndWhatItHadQueuedIsAnswered) {
  FakeBackend& backend = publish({"nb", "shared"}, FakeBackend::Mode::Manual, openTo({"a"}));
  const Sent running = call("key-a");
  const Sent queued = call("key-a");
  loop.runUntilIdle();
  gateway.publishService({"nb", "shared"}, openTo({}), &backend);
  EXPECT_EQ(call("key-a")->status, 404);
  EXPECT_EQ(get("/v2/models/nb.shared")->status, 404);
  for (int i = 0; i < 2; ++i) {
    backend.finish(1, 0);
    loop.runUntilIdle();
  }
  EXPECT_EQ(running->status, 200);
  EXPECT_EQ(queued->status, 200);
}

TEST_F(ConsumersTest, TheCallersLimitsHoldNotTheOwners) {
  TenantQuota quota;
  quota.concurrentRequests = 1;
  gateway.setTenant(TenantName("a"), {{"na"}, 100, quota});
  FakeBackend& backend = publish({"nb", "shared"}, FakeBackend::Mode::Manual, openTo({"a"}));
  const Sent first = call("key-a");
  const Sent second = call("key-a");
  const Sent owners = call("key-b");
  loop.runUntilIdle();
  EXPECT_EQ(second->status, 429);
  EXPECT_TRUE(has(second->text, "ConcurrencyExceeded"));
  for (int i = 0; i < 2; ++i) {
    backend.finish(1, 0);
    loop.runUntilIdle();
  }
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(owners->status, 200);
}

TEST_F(ConsumersTest, WhoseTurnItIsIsDecidedByTenantWhoeverOwnsTheService) {
  FakeBackend& backend = publish({"nb", "shared"}, FakeBackend::Mode::Manual, openTo({"a"}));
  std::vector<Sent> flood;
  for (int i = 0; i < 10; ++i) flood.push_back(call("key-a"));
  const Sent owners = call("key-b");
  loop.runUntilIdle();
  backend.finish(1, 0);
  loop.runUntilIdle();
  EXPECT_EQ(flood[0]->status, 200);
  backend.finish(1, 0);
  loop.runUntilIdle();
  EXPECT_EQ(owners->status, 200) << "second of eleven";
  EXPECT_EQ(flood[1]->status, 0);
}

TEST_F(ConsumersTest, EachSeesItsOwnCallsOnly) {
  publish({"nb", "shared"}, FakeBackend::Mode::Echo, openTo({"a", "c"}));
  for (int i = 0; i < 3; ++i) call("key-a");
  call("key-b");
  loop.runUntilIdle();
  EXPECT_TRUE(has(get("/v2/models/nb.shared/stats")->text, "\"inference_count\":3")) << get("/v2/models/nb.shared/stats")->text;
  EXPECT_TRUE(has(get("/v2/models/shared/stats", "key-b")->text, "\"inference_count\":1"));
  ASSERT_NE(calls("a"), nullptr);
  EXPECT_EQ(calls("a")->requests.of(200), 3);
  EXPECT_EQ(calls("b")->requests.of(200), 1);
  EXPECT_EQ(calls("c"), nullptr) << "never called";
  EXPECT_EQ(shared_.requests.of(200), 4);
  EXPECT_EQ(shared_.slotNanos, calls("a")->slotNanos + calls("b")->slotNanos);
  EXPECT_EQ(shared_.total.count(), 4);
}

// A replaced model takes its station along: what was charged there is not forgotten.
TEST_F(ConsumersTest, SlotTimeIsCountedByCallerAndOutlivesTheModel) {
  FakeBackend& backend = publish({"nb", "shared"}, FakeBackend::Mode::Manual, openTo({"a"}));
  call("key-a");
  loop.runUntilIdle();
  loop.advance(Millis(30));
  backend.finish(1, 0);
  loop.runUntilIdle();
  const std::int64_t before = calls("a")->slotNanos;
  EXPECT_GE(before, 0);
  publish({"nb", "shared"}, FakeBackend::Mode::Echo, openTo({"a"}));
  loop.runUntilIdle();
  EXPECT_EQ(calls("a")->slotNanos, before);
  call("key-b");
  loop.runUntilIdle();
  EXPECT_EQ(shared_.name.name, "shared");
  ASSERT_NE(calls("b"), nullptr);
  EXPECT_EQ(shared_.slotNanos, calls("a")->slotNanos + calls("b")->slotNanos);
}

// While nothing runs, a flood must not keep the others out of the waiting room.
TEST_F(ConsumersTest, AFullWaitingRoomTurnsOutTheOneWithMostInIt) {
  ServiceSettings settings = openTo({"a"});
  settings.maxQueuedRequests = 4;
  FakeBackend& backend = publish({"nb", "shared"}, FakeBackend::Mode::Echo, settings, 0);
  std::vector<Sent> flood;
  for (int i = 0; i < 6; ++i) flood.push_back(call("key-a"));
  EXPECT_EQ(flood[3]->status, 0);
  EXPECT_EQ(flood[4]->status, 503);
  EXPECT_EQ(flood[5]->status, 503);
  const Sent owners = call("key-b");
  EXPECT_EQ(owners->status, 0) << "it waits";
  EXPECT_EQ(flood[3]->status, 503) << "in the place of the last of those with most";
  gateway.setLanes({"nb", "shared"}, InstanceId(1), {1, 0});
  backend.addLane(1, 0);
  loop.runUntilIdle();
  EXPECT_EQ(owners->status, 200);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(flood[static_cast<std::size_t>(i)]->status, 200);
}

// Two callers with work all the time are entitled to half of the one lane each.
TEST_F(ConsumersTest, WhatACallerIsEntitledToGrowsWhileItHasWork) {
  ServiceSettings settings;
  settings.tenant = TenantName("a");
  settings.everybody = true;
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual, settings);
  const auto entitled = [&](const char* tenant) {
    for (const CallerSnapshot& caller : figures().callers) {
      if (caller.tenant == TenantName(tenant)) return Nanos(caller.entitledNanos);
    }
    return Nanos{};
  };
  for (int i = 0; i < 2; ++i) {
    (void)infer();
    (void)send(http::Method::Post, "/v2/models/na.m/infer", {{"X-API-Key", "key-b"}}, kBody);
  }
  loop.advance(Millis(150));  // the first look
  const Nanos before = entitled("a");
  loop.advance(Seconds(1));
  EXPECT_EQ(entitled("a") - before, Millis(500));
  EXPECT_EQ(entitled("b"), entitled("a"));
  EXPECT_EQ(figures().jainPermille, 1000);
  for (int i = 0; i < 4; ++i) {
    backend.finish(1, 0);
    loop.runUntilIdle();
  }
  const Nanos idle = entitled("a");
  loop.advance(Seconds(5));
  EXPECT_EQ(entitled("a"), idle) << "without work nobody is entitled to anything";
}

}  // namespace
}  // namespace coterie::gateway
