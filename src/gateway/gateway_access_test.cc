// What the access log is told: once for each answered inference, whatever became of it.
#include <gtest/gtest.h>

#include <optional>

#include "gateway/gateway_fixture.h"

namespace coterie::gateway {
namespace {

struct Told {
  std::string requestId, tenant, keyId, service;
  int status;
  std::string reason;
  std::uint64_t bytesIn, bytesOut;
  Nanos queued, run;
  std::string source;
};
std::vector<Told>& told() {
  static std::vector<Told> all;
  return all;
}

class AccessTest : public GatewayTest {
 protected:
  AccessTest() : GatewayTest(options()) { told().clear(); }
  static GatewayOptions options() {
    GatewayOptions options;
    options.access = [](const Access& access) {
      const std::string service = access.service.empty() ? "" : std::string(access.nameSpace) + "/" + std::string(access.service);
      told().push_back({std::string(access.requestId), std::string(access.tenant), std::string(access.keyId), service, access.status,
                        std::string(access.reason), access.bytesIn, access.bytesOut, access.queued, access.run, access.peer.text()});
    };
    return options;
  }
};

TEST_F(AccessTest, AnAnswerWithItsTimesAndBytes) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent first = infer();
  const Sent second = infer();  // waits for the lane
  loop.advance(Millis(30));
  backend.finish(1, 0);
  loop.runUntilIdle();
  loop.advance(Millis(20));
  backend.finish(1, 0);
  loop.runUntilIdle();
  ASSERT_EQ(second->status, 200) << second->text;
  ASSERT_EQ(told().size(), 2U);
  EXPECT_EQ(told()[0].run, Millis(30));
  EXPECT_EQ(told()[0].queued, Nanos{});
  const Told& line = told()[1];
  EXPECT_EQ(line.requestId, "r");
  EXPECT_EQ(line.tenant, "a");
  EXPECT_EQ(line.service, "na/m");
  EXPECT_EQ(line.status, 200);
  EXPECT_EQ(line.reason, "");
  EXPECT_EQ(line.bytesIn, kBody.size());
  EXPECT_EQ(line.bytesOut, second->text.size());
  EXPECT_EQ(line.queued, Millis(30));
  EXPECT_EQ(line.run, Millis(20));
  EXPECT_EQ(line.source, "192.0.2.7");
}

// Whoever is refused, and at whatever point; the service only where the caller may know of it.
TEST_F(AccessTest, EachRefusalOnceAndNothingButInferences) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  publish({"nb", "secret"}, FakeBackend::Mode::Echo);
  EXPECT_EQ(get("/v2/models/m")->status, 200);
  EXPECT_EQ(get("/v2/models/m", "bad")->status, 401);
  EXPECT_TRUE(told().empty());
  const auto ask = [&](const std::string& key, const std::string& model, const std::string& body) {
    const Sent sent = send(http::Method::Post, "/v2/models/" + model + "/infer", {{"X-API-Key", key}}, body);
    loop.runUntilIdle();
    EXPECT_EQ(told().back().status, sent->status);
    EXPECT_EQ(told().back().bytesOut, sent->text.size());
    const Told& line = told().back();
    return std::to_string(line.status) + " " + line.reason + " " + line.tenant + " " + line.keyId + " " + line.service;
  };
  EXPECT_EQ(ask("bad", "m", kBody), "401 InvalidKey   ");
  EXPECT_EQ(ask("key-a-observe", "m", kBody), "403 RoleForbids a id-a-observe ");
  EXPECT_EQ(ask("key-a", "nb.secret", kBody), "404 UnknownModel a  ");
  EXPECT_EQ(ask("key-a", "m", kBody), "200  a  na/m");
  EXPECT_TRUE(ask("key-a", "m", "{").starts_with("400 ")) << told().back().reason;
  EXPECT_EQ(told().back().service, "na/m");
  gateway.drain();
  EXPECT_EQ(ask("key-a", "m", kBody), "503 Draining a  na/m");
  EXPECT_EQ(told().size(), 6U);
}

TEST_F(AccessTest, AClientThatLeavesIsALineOf499) {
  publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent sent = infer();
  loop.advance(Millis(5));
  sent->leave();
  loop.runUntilIdle();
  ASSERT_EQ(told().size(), 1U);
  EXPECT_EQ(told()[0].status, 499);
  EXPECT_EQ(told()[0].run, Millis(5));
}

}  // namespace
}  // namespace coterie::gateway
