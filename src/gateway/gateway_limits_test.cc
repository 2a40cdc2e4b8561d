// Limits as requests meet them: of the tenant and at one service, what they say, and that a change of them loses nobody's request.
#include <string>

#include "gateway/gateway_fixture.h"

namespace coterie::gateway {
namespace {

class GatewayLimits : public GatewayTest {
 protected:
  void limitTenant(const RequestLimits& limits) { gateway.setTenant(TenantName("a"), {{"na"}, 100, limits}); }
  FakeBackend& limitService(const RequestLimits& limits) {
    settings_.tenantLimits = limits;
    settings_.everybody = true;
    return publish({"na", "m"}, FakeBackend::Mode::Manual, settings_);
  }
  // The same backend, as when its object is written anew.
  void changeService(const RequestLimits& limits) {
    settings_.tenant = TenantName("a");
    settings_.tenantLimits = limits;
    (void)gateway.publishService({"na", "m"}, settings_, backends.back().get());
  }
  Sent inferAsB() { return send(http::Method::Post, "/v2/models/na.m/infer", {{"X-API-Key", "key-b"}}, kBody); }
  std::int64_t hits(tenancy::LimitKind kind, bool atService) {
    std::int64_t sum = 0;
    for (const LimitSnapshot& each : gateway.snapshot().limits) {
      if (each.tenant != TenantName("a") || each.service.has_value() != atService) continue;
      for (const tenancy::LimitUse& use : each.uses) sum += use.kind == kind ? use.hits : 0;
    }
    return sum;
  }
  void finish(FakeBackend& backend) {
    ASSERT_TRUE(backend.runs(1, 0));
    backend.finish(1, 0);
    loop.runUntilIdle();
  }
  // Nothing is left taken.
  void expectIdle() {
    for (const LimitSnapshot& each : gateway.snapshot().limits) {
      for (const tenancy::LimitUse& use : each.uses) {
        if (use.kind == tenancy::LimitKind::RequestRate) continue;
        EXPECT_EQ(use.used, 0) << tenancy::limitName(use.kind);
      }
    }
  }

  ServiceSettings settings_;
};

struct Met {
  const char* name;
  RequestLimits limits;
  int accepted;  // of requests that nobody answers
  const char* reason;
  const char* limit;  // after "quota." or "tenantLimits."
};

RequestLimits with(void (*set)(RequestLimits&)) {
  RequestLimits limits;
  set(limits);
  return limits;
}

// Of two tensors of 8 bytes, but not of a third beside its body: that is held until the tensor is read from it.
Bytes roomForTwo() { return Bytes(static_cast<std::int64_t>(kBody.size()) + 2 * 8); }

std::vector<Met> met() {
  // One runs; the others wait.
  return {
      // First: by the estimate of 10 ms that there is before anything was measured.
      {"seconds", with([](RequestLimits& l) { l.queuedTime = Millis(15); }), 3, "QueuedSecondsExceeded", "queuedSeconds=0.015"},
      {"rate", with([](RequestLimits& l) { l.requestsPerSecond = 3; }), 3, "RequestRateExceeded", "requestsPerSecond=3"},
      {"burst", with([](RequestLimits& l) { l.requestsPerSecond = 9, l.burstRequests = 2; }), 2, "RequestRateExceeded", "requestsPerSecond=9"},
      {"concurrency", with([](RequestLimits& l) { l.concurrentRequests = 2; }), 2, "ConcurrencyExceeded", "concurrentRequests=2"},
      {"queue", with([](RequestLimits& l) { l.queuedRequests = 2; }), 3, "QueuedRequestsExceeded", "queuedRequests=2"},
      {"queued bytes", with([](RequestLimits& l) { l.queuedBytes = roomForTwo(); }), 3, "QueuedBytesExceeded", "queuedBytes="},
      {"bytes in flight", with([](RequestLimits& l) { l.inFlightBytes = roomForTwo(); }), 2, "InFlightBytesExceeded", "inFlightBytes="},
  };
}

TEST_F(GatewayLimits, EachOfATenantIsMetAndSaid) {
  FakeBackend& backend = limitService({});
  for (const Met& each : met()) {
    limitTenant(each.limits);
    std::vector<Sent> accepted;
    for (int i = 0; i < each.accepted; ++i) accepted.push_back(infer());
    for (const Sent& sent : accepted) EXPECT_EQ(sent->answers, 0) << each.name;
    const Sent refused = infer();
    EXPECT_EQ(refused->status, 429) << each.name;
    EXPECT_TRUE(has(refused->text, each.reason)) << refused->text;
    EXPECT_TRUE(has(refused->text, R"("limit":"quota.)" + std::string(each.limit))) << refused->text;
    EXPECT_TRUE(has(refused->text, R"(tenant \"a\": quota.)")) << refused->text;
    EXPECT_TRUE(has(refused->headers, "Retry-After: ")) << each.name;
    EXPECT_EQ(inferAsB()->answers, 0) << each.name << ": another tenant's own";
    for (int i = 0; i < each.accepted + 1; ++i) finish(backend);
    for (const Sent& sent : accepted) EXPECT_EQ(sent->status, 200) << each.name;
    loop.advance(Seconds(30));
  }
  for (const tenancy::LimitKind kind : tenancy::kAllLimits) {
    EXPECT_EQ(hits(kind, false), kind == tenancy::LimitKind::RequestRate ? 2 : 1) << tenancy::limitName(kind);
    EXPECT_EQ(hits(kind, true), 0);
  }
  expectIdle();
}

TEST_F(GatewayLimits, EachAtAServiceIsMetByEachTenantByItself) {
  FakeBackend& backend = limitService({});
  for (const Met& each : met()) {
    changeService(each.limits);
    std::vector<Sent> accepted;
    for (int i = 0; i < each.accepted; ++i) accepted.push_back(infer());
    const Sent refused = infer();
    EXPECT_EQ(refused->status, 429) << each.name;
    EXPECT_TRUE(has(refused->text, each.reason)) << refused->text;
    EXPECT_TRUE(has(refused->text, R"("limit":"tenantLimits.)" + std::string(each.limit))) << refused->text;
    EXPECT_TRUE(has(refused->text, R"(tenant \"a\" at service \"na/m\")")) << refused->text;
    EXPECT_EQ(inferAsB()->answers, 0) << each.name;
    EXPECT_EQ(get("/v2/models/m/ready")->status, 200) << each.name << ": of inferences alone";
    for (int i = 0; i < each.accepted + 1; ++i) finish(backend);
    for (const Sent& sent : accepted) EXPECT_EQ(sent->status, 200) << each.name;
    loop.advance(Seconds(30));
  }
  for (const tenancy::LimitKind kind : tenancy::kAllLimits) EXPECT_GE(hits(kind, true), 0);
  expectIdle();
}

// A limit that is lowered refuses the next one and ends none; one that is raised lets the next one in.
TEST_F(GatewayLimits, AChangeBitesAtOnceAndLosesNoRequest) {
  FakeBackend& backend = limitService({});
  limitTenant(with([](RequestLimits& l) { l.concurrentRequests = 5; }));
  std::vector<Sent> sent;
  for (int i = 0; i < 4; ++i) sent.push_back(infer());
  limitTenant(with([](RequestLimits& l) { l.concurrentRequests = 2, l.queuedRequests = 1, l.queuedBytes = Bytes(1024); }));
  EXPECT_EQ(infer()->status, 429);
  changeService(with([](RequestLimits& l) { l.concurrentRequests = 4; }));
  limitTenant({});
  const Sent atService = infer();
  EXPECT_EQ(atService->status, 429);
  EXPECT_TRUE(has(atService->text, "tenantLimits.concurrentRequests=4")) << "those that came before are counted: " << atService->text;
  changeService({});
  sent.push_back(infer());
  for (std::size_t i = 0; i < sent.size(); ++i) finish(backend);
  for (const Sent& each : sent) {
    EXPECT_EQ(each->answers, 1);
    EXPECT_EQ(each->status, 200);
  }
  expectIdle();
}

TEST_F(GatewayLimits, NothingIsChargedBeforeTheKeyIsKnown) {
  limitService(with([](RequestLimits& l) { l.requestsPerSecond = 1; }));
  limitTenant(with([](RequestLimits& l) { l.requestsPerSecond = 1; }));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(send(http::Method::Post, "/v2/models/m/infer", {{"X-API-Key", "wrong"}}, kBody)->status, 401);
    EXPECT_EQ(send(http::Method::Post, "/v2/models/m/infer", {{"X-API-Key", "key-gone"}, {"Coterie-Tenant", "a"}}, kBody)->status, 401);
  }
  EXPECT_EQ(infer()->answers, 0) << "its token is still there";
  EXPECT_EQ(infer()->status, 429);
}

// The waiting room is a queue, too; who leaves it gives its place back.
TEST_F(GatewayLimits, TheWaitingRoomIsBoundedAlike) {
  limitTenant(with([](RequestLimits& l) { l.queuedRequests = 1; }));
  settings_.tenant = TenantName("a");
  publish({"na", "m"}, FakeBackend::Mode::Manual, settings_, 0);
  const Sent first = infer();
  EXPECT_EQ(infer()->status, 429);
  first->leave();
  EXPECT_EQ(infer()->answers, 0);
  loop.advance(Seconds(6));
  expectIdle();
}

}  // namespace
}  // namespace coterie::gateway
