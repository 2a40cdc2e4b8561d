#include "gateway/gateway.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "testing/fake_backend.h"
#include "testing/manual_loop.h"

namespace coterie::gateway {
namespace {

using testing::FakeBackend;
using testing::ManualLoop;

// A request without a socket: its body is there at once, or when the test says so.
class FakeContext final : public http::RequestContext {
 public:
  FakeContext(http::Method method, std::string target, std::vector<std::pair<std::string, std::string>> lines, std::string body)
      : target_(std::move(target)), headers_(std::move(lines)), body_(std::move(body)) {
    head_.method = method;
    head_.target = target_;
    head_.path = std::string_view(target_).substr(0, target_.find('?'));
    head_.contentLength = body_.size();
    for (const auto& [name, value] : headers_) head_.headers.push_back({name, value});
  }
  const http::RequestHead& head() const override { return head_; }
  std::uint64_t bodyRemaining() const override { return body_.size() - at_; }
  void readInto(std::span<const std::span<std::byte>> parts, Done done) override {
    if (broken) return done(Error{Code::Cancelled, "ClientGone", "gone"});
    for (const auto& part : parts) {
      std::memcpy(part.data(), body_.data() + at_, part.size());
      at_ += part.size();
    }
    done({});
  }
  void readAll(std::size_t limit, std::function<void(Result<std::string>)> done) override {
    if (body_.size() > limit) return done(Error{Code::TooLarge, "BodyTooLarge", "too large"});
    done(body_);
  }
  void onClientGone(std::function<void()> callback) override { gone_ = std::move(callback); }
  bool clientGone() const override { return left_; }
  bool local() const override { return false; }
  void respond(http::Response answer, Done) override {
    ++answers;
    if (left_) return;
    status = answer.status;
    headers = answer.headers.text();
    text = std::move(answer.body);
    for (const auto& part : answer.parts) text.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  void startStream(http::Response) override {}
  bool write(std::string_view) override { return false; }
  void endStream() override {}

  void leave() {
    left_ = true;
    if (const auto gone = std::exchange(gone_, nullptr)) gone();
  }

  bool broken{false};
  int answers{0};
  int status{0};
  std::string headers;
  std::string text;

 private:
  http::RequestHead head_;
  std::string target_;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::string body_;
  std::size_t at_{0};
  bool left_{false};
  std::function<void()> gone_;
};
using Sent = std::shared_ptr<FakeContext>;

ModelSignature identity() { return {{{"x", ElementType::Fp32, {kDynamic}, false}}, {{"y", ElementType::Fp32, {kDynamic}, false}}}; }
const std::string kBody = R"({"id":"7","inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1.5,-2]}]})";

class GatewayTest : public ::testing::Test {
 protected:
  GatewayTest() : gateway(loop, GatewayOptions{}, [](std::string_view key) -> Result<TenantName> {
      if (key == "key-a") return TenantName("a");
      if (key == "key-b") return TenantName("b");
      if (key == "key-gone") return TenantName("gone");
      return Error{Code::Unauthenticated, "InvalidKey", "unknown key"};
    }) {
    gateway.setTenant(TenantName("a"), {{"na", "na2"}, 100, {}});
    gateway.setTenant(TenantName("b"), {{"nb"}, 100, {}});
  }
  FakeBackend& publish(const ServiceName& name, FakeBackend::Mode mode, ServiceSettings settings = {}, int lanes = 1) {
    if (settings.tenant.empty()) settings.tenant = TenantName(name.nameSpace == "nb" ? "b" : "a");
    backends.push_back(std::make_unique<FakeBackend>(loop, identity(), mode));
    FakeBackend& backend = *backends.back();
    loads[name] = gateway.publishService(name, settings, &backend);
    gateway.setLanes(name, InstanceId(1), {lanes, 0});
    for (int lane = 0; lane < lanes; ++lane) backend.addLane(1, lane);
    return backend;
  }
  Sent send(http::Method method, const std::string& target, std::vector<std::pair<std::string, std::string>> headers = {{"Authorization", "Bearer key-a"}}, const std::string& body = "") {
    headers.emplace_back("X-Request-Id", "r");
    auto context = std::make_shared<FakeContext>(method, target, std::move(headers), body);
    gateway.onRequest(context);
    return context;
  }
  Sent infer(const std::string& model = "m", const std::string& body = kBody, std::vector<std::pair<std::string, std::string>> more = {}) {
    more.emplace_back("authorization", "bearer key-a");
    return send(http::Method::Post, "/v2/models/" + model + "/infer", std::move(more), body);
  }
  Sent get(const std::string& target, const std::string& key = "key-a") { return send(http::Method::Get, target, {{"X-API-Key", key}}); }
  ServiceSnapshot figures(const ServiceName& name = {"na", "m"}) {
    for (auto& row : gateway.snapshot().services) {
      if (row.name == name) return row;
    }
    return {};
  }

  ManualLoop loop;
  std::vector<std::unique_ptr<FakeBackend>> backends;
  Gateway gateway;
  std::map<ServiceName, std::shared_ptr<const ServiceLoad>> loads;
};

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// --- Who may what ---

TEST_F(GatewayTest, HealthAndServerMetadataNeedNoKey) {
  for (const std::string target : {"/v2/health/live", "/v2/health/ready", "/v2"}) EXPECT_EQ(send(http::Method::Get, target, {})->status, 200) << target;
  EXPECT_EQ(send(http::Method::Get, "/v2/health/live", {})->text, R"({"live":true})");
  EXPECT_EQ(send(http::Method::Get, "/v2/health/ready", {})->text, R"({"ready":true})");
  EXPECT_TRUE(has(send(http::Method::Get, "/v2", {})->text, "binary_tensor_data"));
}

TEST_F(GatewayTest, NoKeyAndWrongKeysAre401WithAChallenge) {
  publish({"na", "m"}, FakeBackend::Mode::Echo);
  for (const auto& headers : std::vector<std::vector<std::pair<std::string, std::string>>>{{}, {{"Authorization", "Basic key-a"}}, {{"Authorization", "Bearer wrong"}}, {{"X-API-Key", "key-gone"}}}) {
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
  const std::string json = R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true}})";
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
  auto context = std::make_shared<FakeContext>(http::Method::Post, "/v2/models/m/infer", std::vector<std::pair<std::string, std::string>>{{"X-API-Key", "key-a"}}, kBody);
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

TEST_F(GatewayTest, AnInputInFlightAtTwoCrashesIsNeverTriedAgain) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  const Sent first = infer();
  backend.crash(1, 0);
  EXPECT_EQ(first->status, 503);
  EXPECT_TRUE(has(first->text, "InstanceCrashed"));
  backend.addLane(1, 1);
  const Sent second = infer();
  backend.crash(1, 1);
  EXPECT_EQ(second->status, 500);
  EXPECT_TRUE(has(second->text, "RequestCrashedModel"));
  backend.addLane(1, 2);
  EXPECT_EQ(infer()->status, 500);
  const Sent other = infer("m", R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1.5,-3]}]})");
  EXPECT_EQ(other->status, 0);
  backend.finish(1, 2);
  EXPECT_EQ(other->status, 200);
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
  quota.queuedBytes = Bytes(20);  // one of 8 bytes waits already
  gateway.setTenant(TenantName("a"), {{"na"}, 100, quota});
  EXPECT_EQ(infer()->status, 0);
  const Sent fourth = infer();
  EXPECT_EQ(fourth->status, 429);
  EXPECT_TRUE(has(fourth->text, "quota.queuedBytes=20"));

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
