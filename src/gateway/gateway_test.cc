// Who may do what, and what comes back.
#include <gtest/gtest.h>
#include <zlib.h>

#include "gateway/gateway_fixture.h"

namespace coterie::gateway {
namespace {

// --- Who may what ---

TEST_F(GatewayTest, HealthAndServerMetadataNeedNoKey) {
  for (const std::string target : {"/v2/health/live", "/v2/health/ready", "/v2"})
    EXPECT_EQ(send(http::Method::Get, target, {})->status, 200) << target;
  EXPECT_EQ(send(http::Method::Get, "/v2/health/live", {})->text, R"({"live":true})");
  EXPECT_EQ(send(http::Method::Get, "/v2/health/ready", {})->text, R"({"ready":true})");
  EXPECT_TRUE(has(send(http::Method::Get, "/v2", {})->text, "binary_tensor_data"));
}

TEST_F(GatewayTest, NoKeyAndWrongKeysAre401WithAChallenge) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  for (const auto& headers : std::vector<std::vector<std::pair<std::string, std::string>>>{
           {}, {{"Authorization", "Basic key-a"}}, {{"Authorization", "Bearer wrong"}}, {{"X-API-Key", "key-gone"}}}) {
    const Sent sent = send(http::Method::Get, "/v2/models/m", headers);
    EXPECT_EQ(sent->status, 401);
    EXPECT_TRUE(has(sent->headers, "WWW-Authenticate: Bearer"));
    EXPECT_TRUE(has(sent->text, "\"requestId\":\"r\""));
  }
  EXPECT_EQ(gateway.snapshot().unauthenticated.of(401), 4);
}

TEST_F(GatewayTest, UnknownAndForbiddenModelsLookTheSame) {
  publish({"nb", "secret"}, FakeBackend::Mode::Echo);
  for (const std::string suffix : {"", "/ready", "/config", "/stats", "/versions/1"}) {
    const Sent forbidden = get("/v2/models/nb.secret" + suffix);
    Sent unknown = get("/v2/models/nb.absent" + suffix);
    EXPECT_EQ(forbidden->status, 404);
    std::string expected = unknown->text;
    for (std::size_t at = expected.find("absent"); at != std::string::npos; at = expected.find("absent")) expected.replace(at, 6, "secret");
    EXPECT_EQ(forbidden->text, expected);
    EXPECT_EQ(forbidden->headers, unknown->headers);
  }
  EXPECT_EQ(infer("nb.secret")->status, 404);
}

// What each role may at the gateway, endpoint by endpoint; what it may not is refused the same whether the model exists, is another's, or is not
// there.
TEST_F(GatewayTest, ARoleReadsOrInfersAsTheTableSays) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  publish({"nb", "secret"}, FakeBackend::Mode::Echo);
  const auto status = [&](const std::string& key, http::Method method, const std::string& target) {
    const Sent sent = send(method, target, {{"X-API-Key", key}}, target.ends_with("/infer") ? kBody : "");
    loop.runUntilIdle();
    return sent->status;
  };
  for (const std::string key : {"key-a", "key-a-observe", "key-a-admin"}) {
    for (const std::string target : {"m", "m/ready", "m/config", "m/stats", "stats"})
      EXPECT_EQ(status(key, http::Method::Get, "/v2/models/" + target), 200) << key << " " << target;
    EXPECT_EQ(status(key, http::Method::Post, "/v2/repository/index"), 200) << key;
    const int wanted = key == "key-a-observe" ? 403 : 200;
    EXPECT_EQ(status(key, http::Method::Post, "/v2/models/m/infer"), wanted) << key;
    for (const std::string model : {"nb.secret", "nb.absent"})
      EXPECT_EQ(status(key, http::Method::Post, "/v2/models/" + model + "/infer"), wanted == 403 ? 403 : 404) << key << " " << model;
  }
  const auto refused = [&](const std::string& model) {
    return send(http::Method::Post, "/v2/models/" + model + "/infer", {{"X-API-Key", "key-a-observe"}}, kBody);
  };
  EXPECT_TRUE(has(refused("m")->text, "role observe may not infer Model: needed is role infer or tenant-admin")) << refused("m")->text;
  EXPECT_TRUE(has(refused("m")->headers, "Coterie-Reason: RoleForbids"));
  EXPECT_EQ(refused("m")->text, refused("nb.absent")->text);
  EXPECT_EQ(gateway.snapshot().tenants.front().requests.of(403), 7);
}

TEST_F(GatewayTest, ListingsAreFilteredToTheCaller) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  publish({"na2", "m"}, FakeBackend::Mode::Echo);
  publish({"nb", "other"}, FakeBackend::Mode::Echo);
  const Sent index = send(http::Method::Post, "/v2/repository/index");
  EXPECT_EQ(index->text, R"([{"name":"m","version":"1","state":"READY","reason":""},{"name":"na2.m","version":"1","state":"READY","reason":""}])");
  EXPECT_FALSE(has(get("/v2/models/stats")->text, "other"));
  EXPECT_TRUE(has(get("/v2/models/stats", "key-b")->text, "other"));
}

TEST_F(GatewayTest, AForgedTenantHeaderIsIgnored) {
  publish({"nb", "other"}, FakeBackend::Mode::Echo);
  EXPECT_EQ(send(http::Method::Get, "/v2/models/other", {{"X-API-Key", "key-a"}, {"X-Tenant", "b"}, {"Coterie-Tenant", "b"}})->status, 404);
}

TEST_F(GatewayTest, PathsMethodsAndVersions) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  EXPECT_EQ(get("/v2/models/m")->status, 200);
  EXPECT_EQ(get("/v2/models/na.m/versions/1")->status, 200);
  EXPECT_EQ(get("/v2/models/m/versions/2")->status, 404);
  EXPECT_EQ(get("/v2/models/m/infer")->status, 405);
  EXPECT_EQ(get("/nowhere")->status, 404);
  EXPECT_EQ(get("/v2/models/m/ready")->text, R"({"name":"m","ready":true})");
  EXPECT_EQ(get("/v2/systemsharedmemory/status")->text, "[]");
  for (const std::string target : {"/v2/trace/setting", "/v2/logging", "/v2/models/m/trace/setting"}) EXPECT_EQ(get(target)->status, 501) << target;
  for (const std::string target : {"/v2/repository/models/m/load", "/v2/repository/models/m/unload", "/v2/systemsharedmemory/region/r/register"}) {
    const Sent sent = send(http::Method::Post, target);
    EXPECT_EQ(sent->status, 501) << target;
    EXPECT_TRUE(has(sent->text, "\"error\":\""));
  }
}

// --- Answers ---

TEST_F(GatewayTest, JsonInJsonOut) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  const Sent sent = infer();
  loop.runUntilIdle();
  EXPECT_EQ(sent->status, 200);
  EXPECT_EQ(sent->text, R"({"model_name":"m","model_version":"1","id":"7","outputs":[{"name":"y","datatype":"FP32","shape":[2],"data":[1.5,-2]}]})");
  EXPECT_FALSE(has(sent->headers, "Inference-Header-Content-Length"));
}

TEST_F(GatewayTest, BinaryInBinaryOut) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true}})";
  const Sent sent = infer("m", json + "abcdefgh", {{"inference-header-content-length", std::to_string(json.size())}});
  loop.runUntilIdle();
  EXPECT_EQ(sent->status, 200);
  EXPECT_TRUE(has(sent->headers, "Inference-Header-Content-Length: " + std::to_string(sent->text.size() - 8)));
  EXPECT_EQ(sent->text.substr(sent->text.size() - 8), "abcdefgh");
  EXPECT_EQ(backends[0]->cells(), 0U);
}

TEST_F(GatewayTest, RawBodyAndCompressedBody) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  const Sent raw = infer("m", "abcdefgh", {{"Inference-Header-Content-Length", "0"}});
  std::string packed(compressBound(kBody.size()), '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(kBody.data()), kBody.size()), Z_OK);
  packed.resize(size);
  const Sent deflated = infer("m", packed, {{"Content-Encoding", "deflate"}});
  loop.runUntilIdle();
  EXPECT_EQ(raw->text.substr(raw->text.size() - 8), "abcdefgh");
  EXPECT_TRUE(has(deflated->text, "[1.5,-2]")) << deflated->text;
  EXPECT_EQ(infer("m", "garbage", {{"Content-Encoding", "gzip"}})->status, 400);
  EXPECT_EQ(infer("m", "x", {{"Content-Encoding", "br"}})->status, 501);
  EXPECT_EQ(gateway.snapshot().bufferedBytes, 0);
}

TEST_F(GatewayTest, BadInputIs400AndTouchesNoLane) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Echo);
  const auto refused = [&](const Sent& sent, std::string_view says) {
    EXPECT_EQ(sent->status, 400);
    EXPECT_TRUE(has(sent->text, says)) << sent->text;
  };
  refused(infer("m", "{}"), "no \\\"inputs\\\"");
  refused(infer("m", ""), "not valid JSON");
  refused(infer("m", kBody, {{"Inference-Header-Content-Length", "1000"}}), "the body has only");
  refused(infer("m", kBody, {{"Inference-Header-Content-Length", "x"}}), "must be the number of bytes");
  refused(infer("m", kBody, {{"Coterie-Timeout-Ms", "soon"}}), "whole number of milliseconds");
  refused(infer("m", R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]})"), "the model takes [-1]");
  refused(infer("m", R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,"2"]}]})"), "FP32 takes numbers");
  loop.runUntilIdle();
  EXPECT_EQ(backend.runCount, 0U);
  EXPECT_EQ(backend.cells(), 0U);
  EXPECT_EQ(figures().requests.of(400), 7);
  EXPECT_EQ(figures().requests.underWay(), 0);
  EXPECT_EQ(figures().requests.refused.at("InvalidShape"), 1);
}

TEST_F(GatewayTest, FullArenaIs429AndTooLargeIs413) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  backend.arenaBytes = 128;
  const Sent one = infer();
  const Sent two = infer();
  const Sent three = infer();
  EXPECT_EQ(three->status, 429);
  EXPECT_TRUE(has(three->text, "ArenaFull"));
  EXPECT_TRUE(has(three->headers, "Retry-After: "));
  std::string many = R"({"inputs":[{"name":"x","shape":[40],"datatype":"FP32","data":[0)";
  for (int i = 1; i < 40; ++i) many += ",0";
  EXPECT_EQ(infer("m", many + "]}]}")->status, 413);
  EXPECT_EQ(one->status, 0);
  EXPECT_EQ(two->status, 0);
}

TEST_F(GatewayTest, TheModelsErrorIsTheAnswer) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent sent = infer();
  backend.fail(1, 0, {Code::Internal, "RunFailed", "bad node"});
  EXPECT_EQ(sent->status, 500);
  EXPECT_TRUE(has(sent->text, "\"error\":\"bad node\",\"reason\":\"RunFailed\""));
}

TEST_F(GatewayTest, SeveralKeysAreRefusedAndNoneIsChosen) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  using Lines = std::vector<std::pair<std::string, std::string>>;
  for (const Lines& lines :
       {Lines{{"Authorization", "Bearer key-a"}, {"authorization", "Bearer key-b"}},
        Lines{{"Authorization", "Bearer key-a"}, {"Authorization", "Bearer key-a"}}, Lines{{"X-API-Key", "key-a"}, {"x-api-key", "key-b"}}}) {
    const Sent sent = send(http::Method::Get, "/v2/models/m", lines);
    EXPECT_EQ(sent->status, 400);
    EXPECT_TRUE(has(sent->text, R"("reason":"SeveralKeys")")) << sent->text;
  }
  EXPECT_EQ(gateway.snapshot().unauthenticated.of(400), 3);
  // Another scheme's Authorization, as a proxy adds it, beside our key's header.
  EXPECT_EQ(send(http::Method::Get, "/v2/models/m", {{"Authorization", "Basic dTpw"}, {"X-API-Key", "key-a"}})->status, 200);
}

// --- Who is told of refusals ---

class WithDenied : public GatewayTest {
 protected:
  WithDenied() : GatewayTest(options(this)) { publish({"na", "m"}, FakeBackend::Mode::Echo); }
  static GatewayOptions options(WithDenied* test) {
    GatewayOptions options;
    options.denied = [test](const Denied& denied) {
      std::string line;
      for (const std::string_view word : {denied.source, denied.keyId, denied.tenant, denied.reason, denied.verb, denied.kind, denied.model})
        line.append(line.empty() ? "" : " ").append(word.empty() ? "-" : word);
      test->told.push_back(std::move(line));
    };
    return options;
  }
  std::vector<std::string> told;
};

TEST_F(WithDenied, Every401And403IsToldAndNothingElse) {
  EXPECT_EQ(get("/v2/models/m", "key-wrong")->status, 401);
  EXPECT_EQ(send(http::Method::Post, "/v2/models/m/infer", {})->status, 401);
  EXPECT_EQ(get("/v2/models/m", "key-gone")->status, 401);
  EXPECT_EQ(get("/no/such/path", "key-wrong")->status, 401);
  EXPECT_EQ(send(http::Method::Post, "/v2/models/m/infer", {{"X-API-Key", "key-a-observe"}}, kBody)->status, 403);
  EXPECT_EQ(told, (std::vector<std::string>{"192.0.2.7 - - InvalidKey get Model m", "192.0.2.7 - - NoKey infer Model m",
                                            "192.0.2.7 - - UnknownTenant get Model m", "192.0.2.7 - - InvalidKey - - -",
                                            "192.0.2.7 id-a-observe a RoleForbids infer Model m"}));
  EXPECT_EQ(get("/v2/models/m")->status, 200);
  EXPECT_EQ(get("/v2/models/none")->status, 404);
  EXPECT_EQ(get("/v2/health/live", "key-wrong")->status, 200);
  EXPECT_EQ(get("/v2/models/m/infer")->status, 405);
  EXPECT_EQ(told.size(), 5U);
}

// --- What is acknowledged elsewhere a moment before it is known here ---

class WithCatchUp : public GatewayTest {
 protected:
  WithCatchUp() : GatewayTest(options(this)) {}
  static GatewayOptions options(WithCatchUp* test) {
    GatewayOptions options;
    options.catchUp = [test](std::function<void()> done) { test->rounds.push_back(std::move(done)); };
    return options;
  }
  std::vector<std::function<void()>> rounds;
};

TEST_F(WithCatchUp, AServiceAppliedAMomentAgoIsFound) {
  const Sent early = infer();
  EXPECT_EQ(early->status, 0);
  ASSERT_EQ(rounds.size(), 1U);
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  const Sent known = infer();  // asks nobody
  const Sent later = infer("no-such");
  rounds[0]();
  loop.runUntilIdle();
  EXPECT_EQ(early->status, 200);
  EXPECT_EQ(known->status, 200);
  EXPECT_EQ(later->status, 0);  // what it looks for may have been acknowledged after the first round had begun
  ASSERT_EQ(rounds.size(), 2U);
  rounds[1]();
  EXPECT_EQ(later->status, 404);
  EXPECT_EQ(gateway.snapshot().tenants[0].concurrent, 0);
  EXPECT_EQ(gateway.snapshot().tenants[0].requests.underWay(), 0);
}

TEST_F(WithCatchUp, ATenantMadeAMomentAgoIsKnown) {
  const Sent sent = get("/v2/models/m/ready", "key-gone");
  EXPECT_EQ(sent->status, 0);
  gateway.setTenant(TenantName("gone"), {{"ng"}, 100, {}});
  rounds.at(0)();
  EXPECT_EQ(sent->status, 404);
}

TEST_F(WithCatchUp, NobodyWaitsForEver) {
  const Sent sent = infer();
  const Sent wrongKey = get("/v2/models/m", "key-wrong");
  EXPECT_EQ(wrongKey->status, 401);  // that is known at once
  loop.advance(Seconds(2));
  EXPECT_EQ(sent->status, 503);  // nobody knows; 404 might be wrong
  EXPECT_TRUE(has(sent->text, R"("reason":"CatchingUp")")) << sent->text;
  rounds.at(0)();
  EXPECT_EQ(sent->answers, 1);
}

}  // namespace
}  // namespace coterie::gateway
