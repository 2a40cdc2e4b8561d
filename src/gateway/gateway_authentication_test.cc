// Failed authentication by source: who is refused before a key is looked at, and who is not.
#include <gtest/gtest.h>

#include <algorithm>

#include "gateway/gateway_fixture.h"

namespace coterie::gateway {
namespace {

using http::Peer;

Peer remote(std::uint8_t last) { return {Peer::Kind::Remote, {192, 0, 2, last}, false, {}}; }

class AuthenticationTest : public ::testing::Test {
 protected:
  AuthenticationTest()
      : gateway(loop, options(), [this](std::string_view key) -> Result<Caller> {
          ++lookedAt;
          if (std::find(good.begin(), good.end(), key) != good.end()) return Caller{TenantName("a"), Role::Infer};
          if (key == "key-gone") return Caller{TenantName("gone"), Role::Infer};
          return Error{Code::Unauthenticated, "InvalidKey", "unknown key"};
        }) {
    TenantSettings settings{{"na"}, 100, {}};
    settings.quota.requestsPerSecond = 1000;
    settings.quota.concurrentRequests = 8;
    gateway.setTenant(TenantName("a"), settings);
  }
  static GatewayOptions options() {
    GatewayOptions options;
    options.authentication.burst = 3;
    options.authentication.perSecond = 2;
    return options;
  }
  // The status of a listing.
  int ask(const std::string& key, const Peer& from = remote(1)) {
    std::vector<std::pair<std::string, std::string>> headers;
    if (!key.empty()) headers.emplace_back("X-API-Key", key);
    last = std::make_shared<FakeContext>(http::Method::Post, "/v2/repository/index", std::move(headers), "");
    last->from = from;
    gateway.onRequest(last);
    loop.runUntilIdle();
    return last->status;
  }
  void useUp(const Peer& from = remote(1)) {
    for (int i = 0; i < 3; ++i) ASSERT_EQ(ask("bad", from), 401);
  }
  std::int64_t refused(const std::string& reason) {
    const auto counts = gateway.snapshot().unauthenticated.refused;
    const auto found = counts.find(reason);
    return found == counts.end() ? 0 : found->second;
  }

  ManualLoop loop;
  std::vector<std::string> good{"key-1", "key-2"};
  int lookedAt{0};
  Gateway gateway;
  std::shared_ptr<FakeContext> last;
};

TEST_F(AuthenticationTest, AFloodOfBadKeysIsNotLookedAt) {
  useUp();
  const int before = lookedAt;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ask("bad" + std::to_string(i)), 429);
  EXPECT_EQ(lookedAt, before);
  EXPECT_TRUE(has(last->headers, "Coterie-Reason: AuthenticationLimited")) << last->headers;
  EXPECT_TRUE(has(last->headers, "Retry-After: 1")) << last->headers;
  EXPECT_TRUE(has(last->text, "\"reason\":\"AuthenticationLimited\"")) << last->text;
  EXPECT_FALSE(has(last->text, "bad99"));
  EXPECT_EQ(refused("InvalidKey"), 3);
  EXPECT_EQ(refused("AuthenticationLimited"), 100);
  EXPECT_EQ(gateway.snapshot().unauthenticated.of(429), 100);
  loop.advance(Millis(500));
  EXPECT_EQ(ask("bad"), 401);
  EXPECT_EQ(ask("bad"), 429);
}

TEST_F(AuthenticationTest, OtherSourcesAreNotTouched) {
  useUp();
  EXPECT_EQ(ask("bad"), 429);
  EXPECT_EQ(ask("key-1", remote(2)), 200);
  EXPECT_EQ(ask("bad", remote(2)), 401);
  EXPECT_EQ(ask("bad", {Peer::Kind::Remote, remote(1).network, true, {}}), 401);  // an IPv6 network of the same bytes
  EXPECT_EQ(ask("bad", {Peer::Kind::Loopback, {}, false, {}}), 401);
  EXPECT_EQ(ask("bad", {Peer::Kind::Local, {}, false, 0}), 401);
  useUp({Peer::Kind::Local, {}, false, 1000});
  EXPECT_EQ(ask("bad", {Peer::Kind::Local, {}, false, 1000}), 429);
  EXPECT_EQ(ask("bad", {Peer::Kind::Local, {}, false, 1001}), 401);
}

// A proxy: many callers behind one address, and one of them has a bad key.
TEST_F(AuthenticationTest, CallersBesideABadOneAreNotLockedOut) {
  EXPECT_EQ(ask("key-1"), 200);
  useUp();
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(ask("bad"), i % 2 == 0 && i > 0 ? 401 : 429) << i;  // a token each half second
    EXPECT_EQ(ask("key-1"), 200) << i;
    loop.advance(Millis(250));
  }
  EXPECT_EQ(ask("key-2"), 200);  // a token is there
  EXPECT_EQ(ask("bad"), 401);
  EXPECT_EQ(ask("bad"), 429);
  EXPECT_EQ(ask("key-2"), 200);
}

TEST_F(AuthenticationTest, AGoodKeyNeverSeenFromThereWaitsAsTheFloodDoes) {
  EXPECT_EQ(ask("key-1", remote(2)), 200);
  useUp();
  EXPECT_EQ(ask("key-1"), 429);
  loop.advance(Millis(500));
  EXPECT_EQ(ask("key-1"), 200);
  EXPECT_EQ(ask("bad"), 401);  // a success takes no token
}

TEST_F(AuthenticationTest, ARevokedKeyThatWasGoodIsLookedAtAndRefused) {
  EXPECT_EQ(ask("key-1"), 200);
  useUp();
  good.clear();
  EXPECT_EQ(ask("key-1"), 401);
  EXPECT_EQ(ask("key-1"), 429);
}

// What asks nothing of the hash is answered as ever, and takes no token.
TEST_F(AuthenticationTest, NoKeySeveralKeysAndAGoneTenantAreNoFailures) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ask(""), 401);
    EXPECT_EQ(ask("key-gone"), 401);
  }
  useUp();
  EXPECT_EQ(ask(""), 401);
  EXPECT_TRUE(has(last->headers, "Coterie-Reason: NoKey"));
  last = std::make_shared<FakeContext>(http::Method::Get, "/v2/health/live", std::vector<std::pair<std::string, std::string>>{}, "");
  last->from = remote(1);
  gateway.onRequest(last);
  EXPECT_EQ(last->status, 200);
}

TEST_F(AuthenticationTest, QuotaIsChargedOnlyAfterAuthentication) {
  for (int i = 0; i < 2000; ++i) ask("bad");  // more than the tenant may have in a second, were they its own
  for (const auto& tenant : gateway.snapshot().tenants) {
    EXPECT_EQ(tenant.requests.started, 0);
    EXPECT_EQ(tenant.concurrent, 0);
  }
  good.emplace_back("key-3");
  EXPECT_EQ(ask("key-3", remote(2)), 200);
  EXPECT_EQ(gateway.snapshot().unauthenticated.started, 2000);
}

}  // namespace
}  // namespace coterie::gateway
