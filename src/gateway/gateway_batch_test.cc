// Requests that run as one: who, what each is answered, and what becomes of each when something goes wrong.
#include <gtest/gtest.h>

#include "gateway/gateway_fixture.h"

namespace coterie::gateway {
namespace {

constexpr int kMost = 4;

class GatewayBatch : public GatewayTest {
 protected:
  GatewayBatch() : backend(publish({"na", "m"}, FakeBackend::Mode::Manual, asking(kMost))) {}

  static ServiceSettings asking(int requests) {
    ServiceSettings settings;
    settings.maxBatch = requests;
    return settings;
  }
  // Rows of one number each.
  static std::string body(const std::vector<int>& rows) {
    std::string data;
    for (const int row : rows) data += (data.empty() ? "" : ",") + std::to_string(row);
    return R"({"inputs":[{"name":"x","shape":[)" + std::to_string(rows.size()) + R"(],"datatype":"FP32","data":[)" + data + "]}]}";
  }
  Sent ask(const std::vector<int>& rows, std::vector<std::pair<std::string, std::string>> more = {}) {
    return infer("m", body(rows), std::move(more));
  }
  static bool answers(const Sent& sent, const std::string& rows) {
    EXPECT_TRUE(has(sent->text, "[" + rows + "]")) << sent->text;
    return sent->status == 200 && sent->answers == 1;
  }
  [[nodiscard]] std::size_t members() const { return backend.running().begin()->second.request.members.size(); }
  [[nodiscard]] bool terminated() const { return backend.running().begin()->second.terminated; }
  void occupy() {
    ask({-1});
    ASSERT_EQ(members(), 1U);
  }
  // Until so many run as one that wait while the lane is busy: sizes double as they prove themselves.
  void learn() {
    for (int requests = 2; requests <= kMost; requests *= 2) {
      for (int i = 0; i < 4; ++i) {
        occupy();
        for (int k = 0; k < requests; ++k) ask({-2});
        backend.finish(1, 0);
        EXPECT_EQ(members(), static_cast<std::size_t>(requests));
        backend.finish(1, 0);
      }
    }
    ASSERT_TRUE(backend.running().empty());
  }
  // So many on the lane as one.
  std::vector<Sent> together(int requests) {
    occupy();
    std::vector<Sent> sent;
    for (int i = 0; i < requests; ++i) sent.push_back(ask({10 * i, 10 * i + 1}));
    backend.finish(1, 0);
    EXPECT_EQ(members(), static_cast<std::size_t>(requests));
    return sent;
  }
  // The instance dies under a batch of four; how many run as one on the next.
  std::size_t mostAfterCrash(const std::function<void()>& heard) {
    learn();
    together(4);
    backend.crash(1, 0);
    heard();
    gateway.setLanes({"na", "m"}, InstanceId(2), {1, 0});
    backend.addLane(2, 0);
    ask({-3});
    for (int i = 0; i < 4; ++i) ask({100 + i});
    backend.finish(2, 0);
    const std::size_t most = members();
    while (!backend.running().empty()) backend.finish(2, 0);
    return most;
  }
  void nothingIsLeft() {
    EXPECT_EQ(backend.cells(), 0U);
    const GatewaySnapshot all = gateway.snapshot();
    EXPECT_EQ(all.tenants[0].concurrent, 0);
    EXPECT_EQ(all.tenants[0].queuedBytes, 0);
    EXPECT_EQ(figures().inFlight, 0);
    EXPECT_EQ(figures().queued, 0);
    EXPECT_EQ(figures().requests.underWay(), 0);
  }

  FakeBackend& backend;
};

TEST_F(GatewayBatch, WhatWaitsRunsAsOneAndEachIsAnsweredItsOwnRows) {
  learn();
  occupy();
  const Sent first = ask({1, 2});
  const Sent second = ask({3});
  const Sent third = ask({4, 5, 6});
  const std::uint64_t runs = backend.runCount;
  backend.finish(1, 0);
  ASSERT_EQ(members(), 3U);
  EXPECT_EQ(figures().inFlight, 3);
  EXPECT_EQ(loads[(ServiceName{"na", "m"})]->busyOwnLanes, 1);
  backend.finish(1, 0);
  EXPECT_EQ(backend.runCount, runs + 1);
  EXPECT_TRUE(answers(first, "1,2"));
  EXPECT_TRUE(answers(second, "3"));
  EXPECT_TRUE(answers(third, "4,5,6"));
  EXPECT_TRUE(has(second->text, R"("shape":[1])")) << second->text;
  EXPECT_TRUE(has(third->text, R"("shape":[3])")) << third->text;
  nothingIsLeft();
}

TEST_F(GatewayBatch, AnAnswerInPlaceStaysUntilTheLastOfThemHasReadHis) {
  learn();
  occupy();
  const std::string wanted = R"(,"outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  std::vector<Sent> sent;
  for (int i = 0; i < 2; ++i) {
    std::string text = body({i + 1});
    text.replace(text.size() - 1, 1, wanted);
    sent.push_back(infer("m", text));
    sent.back()->reads = false;
  }
  backend.finish(1, 0);
  ASSERT_EQ(members(), 2U);
  backend.finish(1, 0);
  sent[0]->read();
  const auto valueOf = [](const Sent& each) {
    float value = 0;
    std::memcpy(&value, each->text.data() + each->text.size() - sizeof value, sizeof value);
    return value;
  };
  EXPECT_EQ(valueOf(sent[0]), 1.0F);
  EXPECT_EQ(valueOf(sent[1]), 2.0F);
  sent[1]->read();
  nothingIsLeft();
}

TEST_F(GatewayBatch, WhoDidNotAskForItHasEachRunAlone) {
  gateway.publishService(
      {"na", "m"},
      [] {
        auto s = asking(1);
        s.tenant = TenantName("a");
        return s;
      }(),
      &backend);
  occupy();
  for (int i = 0; i < 3; ++i) ask({i});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(members(), 1U);
    backend.finish(1, 0);
  }
  EXPECT_FALSE(figures().batching);
}

TEST_F(GatewayBatch, AModelThatCannotHasEachRunAlone) {
  FakeBackend fixed(loop, {{{"x", ElementType::Fp32, {2}, false}}, {{"y", ElementType::Fp32, {2}, false}}}, FakeBackend::Mode::Manual);
  ServiceSettings settings = asking(kMost);
  settings.tenant = TenantName("a");
  gateway.publishService({"na", "m"}, settings, &fixed);
  fixed.addLane(1, 0);
  for (int i = 0; i < 4; ++i) ask({1, 2});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(fixed.running().begin()->second.request.members.size(), 1U);
    fixed.finish(1, 0);
  }
  gateway.withdrawService({"na", "m"});
  loop.runUntilIdle();
}

TEST_F(GatewayBatch, AFailedBatchIsRunAgainOneByOneAndNobodyIsAnsweredBefore) {
  learn();
  const auto sent = together(3);
  EXPECT_EQ(gateway.snapshot().tenants[0].queuedBytes, 0);
  backend.fail(1, 0, {Code::InvalidArgument, "ModelFailed", "an index is out of range"});
  for (const Sent& each : sent) EXPECT_EQ(each->answers, 0);
  EXPECT_EQ(members(), 1U);
  EXPECT_EQ(figures().queued, 2);
  EXPECT_EQ(gateway.snapshot().tenants[0].queuedBytes, 16) << "two of 8 bytes wait again";
  backend.finish(1, 0);
  EXPECT_EQ(members(), 1U);
  backend.fail(1, 0, {Code::InvalidArgument, "ModelFailed", "an index is out of range"});
  backend.finish(1, 0);
  EXPECT_EQ(sent[0]->status, 200);
  EXPECT_EQ(sent[1]->status, 400) << "the culprit";
  EXPECT_EQ(sent[2]->status, 200);
  nothingIsLeft();
  together(4);
  backend.finish(1, 0);
}

TEST_F(GatewayBatch, AFailedBatchIsNotRunAgainForThoseWhoLeft) {
  learn();
  const auto sent = together(3);
  sent[1]->leave();
  backend.fail(1, 0, {Code::Internal, "ModelFailed", "no"});
  EXPECT_EQ(figures().queued + figures().inFlight, 2);
  backend.finish(1, 0);
  sent[2]->leave();
  EXPECT_TRUE(terminated()) << "alone now";
  backend.finish(1, 0);
  EXPECT_EQ(sent[0]->status, 200);
  nothingIsLeft();
}

TEST_F(GatewayBatch, AQuotaThatIsFullDoesNotCostAnAcceptedRequestItsSecondTry) {
  learn();
  const auto sent = together(2);
  TenantQuota quota;
  quota.queuedBytes = Bytes(8);
  gateway.setTenant(TenantName("a"), {{"na"}, 100, quota});
  backend.fail(1, 0, {Code::Internal, "ModelFailed", "no"});
  backend.finish(1, 0);
  backend.finish(1, 0);
  for (const Sent& each : sent) EXPECT_EQ(each->status, 200);
  nothingIsLeft();
}

TEST_F(GatewayBatch, TheLaneGoesOnWhileAnybodyWaits) {
  learn();
  const auto sent = together(3);
  sent[0]->leave();
  EXPECT_FALSE(terminated());
  sent[2]->leave();
  EXPECT_FALSE(terminated());
  EXPECT_EQ(gateway.snapshot().tenants[0].concurrent, 3) << "until the worker confirms";
  backend.finish(1, 0);
  EXPECT_TRUE(answers(sent[1], "10,11"));
  EXPECT_EQ(figures().requests.of(499), 2);
  nothingIsLeft();

  const auto others = together(2);
  others[0]->leave();
  others[1]->leave();
  EXPECT_TRUE(terminated()) << "nobody waits";
  backend.finish(1, 0);
  nothingIsLeft();

  const Sent last = ask({1});
  EXPECT_FALSE(terminated());
  last->leave();
  EXPECT_TRUE(terminated()) << "each run anew";
  backend.finish(1, 0);
  nothingIsLeft();
}

TEST_F(GatewayBatch, OnesDeadlineIsNotTheOthers) {
  learn();
  occupy();
  const Sent urgent = ask({1}, {{"Coterie-Timeout-Ms", "200"}});
  const Sent patient = ask({2});
  backend.finish(1, 0);
  ASSERT_EQ(members(), 2U);
  loop.advance(Millis(201));
  EXPECT_EQ(urgent->status, 504);
  EXPECT_EQ(patient->answers, 0);
  EXPECT_FALSE(terminated());
  backend.finish(1, 0);
  EXPECT_EQ(patient->status, 200);
  EXPECT_EQ(urgent->answers, 1);
  nothingIsLeft();
}

TEST_F(GatewayBatch, WhenTheLastDeadlinePassesTheLaneIsToldToStop) {
  learn();
  occupy();
  const Sent first = ask({1}, {{"Coterie-Timeout-Ms", "200"}});
  const Sent second = ask({2}, {{"Coterie-Timeout-Ms", "300"}});
  backend.finish(1, 0);
  ASSERT_EQ(members(), 2U);
  loop.advance(Millis(250));
  EXPECT_FALSE(terminated());
  loop.advance(Millis(51));
  EXPECT_TRUE(terminated());
  EXPECT_EQ(first->status, 504);
  EXPECT_EQ(second->status, 504);
  backend.finish(1, 0);
  nothingIsLeft();
}

TEST_F(GatewayBatch, AfterACrashItsRequestsRunAloneSoThatOnlyTheGuiltyOneIsRefused) {
  learn();
  const auto sent = together(3);
  backend.crash(1, 0);
  for (const Sent& each : sent) {
    EXPECT_EQ(each->status, 503);
    EXPECT_TRUE(has(each->text, "InstanceCrashed")) << each->text;
  }
  nothingIsLeft();
  gateway.setLanes({"na", "m"}, InstanceId(2), {1, 0});
  backend.addLane(2, 0);
  // The same again, the second of them guilty, and others between them.
  ask({-1});
  const Sent innocent = ask({0, 1});
  const Sent guilty = ask({10, 11});
  backend.finish(2, 0);
  EXPECT_EQ(members(), 1U);
  backend.finish(2, 0);
  EXPECT_EQ(innocent->status, 200);
  EXPECT_EQ(members(), 1U);
  backend.crash(2, 0);
  EXPECT_EQ(guilty->status, 500);
  EXPECT_TRUE(has(guilty->text, "RequestCrashedModel")) << guilty->text;
  gateway.setLanes({"na", "m"}, InstanceId(3), {1, 0});
  backend.addLane(3, 0);
  EXPECT_EQ(ask({10, 11})->status, 500);
  const Sent again = ask({20, 21});
  backend.finish(3, 0);
  EXPECT_EQ(again->status, 200);
  nothingIsLeft();
}

TEST_F(GatewayBatch, WhatWasTooMuchAsOneIsTriedWithHalfAsMany) {
  learn();
  const auto sent = together(4);
  backend.fail(1, 0, {Code::Internal, "AnswerTooLarge", "the answer needs more bytes"});
  for (int i = 0; i < 4; ++i) backend.finish(1, 0);
  for (const Sent& each : sent) EXPECT_EQ(each->status, 200);
  occupy();
  for (int i = 0; i < 4; ++i) ask({i});
  backend.finish(1, 0);
  EXPECT_EQ(members(), 2U);
  backend.finish(1, 0);
  backend.finish(1, 0);
  // Another number in the spec starts anew.
  ServiceSettings settings = asking(3);
  settings.tenant = TenantName("a");
  gateway.publishService({"na", "m"}, settings, &backend);
  together(3);
  backend.finish(1, 0);
  nothingIsLeft();
}

TEST_F(GatewayBatch, AfterACrashHalfAsManyRunAsOne) {
  EXPECT_EQ(mostAfterCrash([] {}), 2U);
  nothingIsLeft();
}

TEST_F(GatewayBatch, AfterAnEndFromOutsideAsManyAsBefore) {
  EXPECT_EQ(mostAfterCrash([&] { gateway.endedFromOutside(InstanceId(1)); }), 4U);
  nothingIsLeft();
}

TEST_F(GatewayBatch, AModelWhoseRowsAreNotIndependentIsFoundOut) {
  learn();
  const auto sent = together(2);
  backend.rowsToo = 1;
  backend.finish(1, 0);
  for (const Sent& each : sent) EXPECT_EQ(each->answers, 0);
  backend.finish(1, 0);
  backend.finish(1, 0);
  for (const Sent& each : sent) EXPECT_TRUE(has(each->text, R"("shape":[3])")) << "what it answers to one alone";
  occupy();
  for (int i = 0; i < 3; ++i) ask({i});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(members(), 1U) << "no more of that";
    backend.finish(1, 0);
  }
  nothingIsLeft();
}

TEST_F(GatewayBatch, NothingRunsAsOneBeforeOneAloneKeptItsRows) {
  backend.rowsToo = 1;
  occupy();
  for (int i = 0; i < 4; ++i) ask({i});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(members(), 1U);
    backend.finish(1, 0);
  }
  backend.rowsToo = 0;
  occupy();
  for (int i = 0; i < 2; ++i) ask({i});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(members(), 1U) << "not for this model";
    backend.finish(1, 0);
  }
}

TEST_F(GatewayBatch, WhileNoAnswerWasSeenEachRunsAlone) {
  occupy();
  gateway.setLanes({"na", "m"}, InstanceId(1), {2, 0});
  for (int i = 0; i < 4; ++i) ask({i});
  backend.addLane(1, 1);
  EXPECT_EQ(backend.running().at({InstanceId(1), LaneId(1)}).request.members.size(), 1U);
  backend.finish(1, 0);
  EXPECT_EQ(backend.running().at({InstanceId(1), LaneId(0)}).request.members.size(), 2U) << "now it is known to keep rows";
  while (!backend.running().empty()) backend.finish(1, backend.running().begin()->first.lane.value);
  nothingIsLeft();
}

TEST_F(GatewayBatch, ABatchThatNeverStartedIsTriedElsewhereAsOne) {
  learn();
  const auto sent = together(2);
  backend.loseUnstarted(1, 0);
  for (const Sent& each : sent) EXPECT_EQ(each->answers, 0);
  gateway.setLanes({"na", "m"}, InstanceId(2), {1, 0});
  backend.addLane(2, 0);
  while (!backend.running().empty()) backend.finish(2, 0);
  for (const Sent& each : sent) EXPECT_EQ(each->status, 200);
  nothingIsLeft();
}

// Tenants a and b at one service that is open to both: whether a's request and b's run as one, and what each sees of it.
TEST_F(GatewayBatch, TenantsRunAsOneOnlyIfBothSaySo) {
  ServiceSettings settings = asking(kMost);
  settings.tenant = TenantName("a");
  settings.consumers = {TenantName("b")};
  gateway.publishService({"na", "m"}, settings, &backend);
  learn();
  const auto shares = [&](const char* tenant, bool says) {
    TenantSettings told{{tenant == std::string("a") ? "na" : "nb"}, 100, {}};
    told.sharesBatches = says;
    gateway.setTenant(TenantName(tenant), told);
  };
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      shares("a", a);
      shares("b", b);
      occupy();
      const Sent mine = ask({1});
      const Sent others = send(http::Method::Post, "/v2/models/na.m/infer", {{"Authorization", "Bearer key-b"}}, body({2}));
      backend.finish(1, 0);
      EXPECT_EQ(members(), a && b ? 2U : 1U);
      while (!backend.running().empty()) backend.finish(1, 0);
      EXPECT_TRUE(answers(mine, "1"));
      EXPECT_TRUE(answers(others, "2"));
    }
  }
  const std::string seen = get("/v2/models/na.m/stats", "key-b")->text;
  EXPECT_TRUE(has(seen, R"("execution_count":4)")) << seen;
  EXPECT_FALSE(has(seen, R"("batch_size":2)")) << "of its own there was never more than one in a run: " << seen;
  nothingIsLeft();
}

TEST_F(GatewayBatch, FiguresSayHowManyRanAsOne) {
  learn();
  together(4);
  loop.advance(Millis(3));
  backend.finish(1, 0);
  const ServiceSnapshot row = figures();
  EXPECT_TRUE(row.batching);
  EXPECT_EQ(row.runs.of(1).runs, 9);
  EXPECT_EQ(row.runs.of(2).runs, 4);
  EXPECT_EQ(row.runs.of(4).runs, 5);
  EXPECT_EQ(row.runs.runs(), 18);
  EXPECT_EQ(row.runs.requests(), 9 + 8 + 20);
  EXPECT_EQ(row.run.count(), 9 + 8 + 20) << "of each request";
  const std::string stats = get("/v2/models/m/stats")->text;
  EXPECT_TRUE(has(stats, R"("inference_count":37,"execution_count":18)")) << stats;
  EXPECT_TRUE(has(stats, R"({"batch_size":4,"compute_input":{"count":0,"ns":0},"compute_infer":{"count":5,"ns":3000000})")) << stats;
}

}  // namespace
}  // namespace coterie::gateway
