#include "admin/admin_handler.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "admin/admin_fixture.h"
#include "admin/admission.h"
#include "admin/metrics_handler.h"
#include "admin/object_json.h"
#include "admin/reports.h"
#include "text/text.h"

namespace coterie::admin {
namespace {

TEST_F(Admin, ObjectsAreCreatedReadListedChangedAndDeleted) {
  makeAudio();
  const auto created = call("POST", api("/namespaces/audio/modelservices"), serviceJson("audio", "speech"));
  ASSERT_EQ(created.status, 201) << created.body;
  const auto read = json(call("GET", api("/namespaces/audio/modelservices/speech")));
  EXPECT_EQ(textAt(read, "kind"), "ModelService");
  EXPECT_EQ(textAt(read, "apiVersion"), "coterie.dev/v1alpha1");
  EXPECT_EQ(textAt(*read.find("metadata"), "namespace"), "audio");
  EXPECT_FALSE(textAt(*read.find("metadata"), "uid").empty());
  EXPECT_EQ(intAt(*read.find("metadata"), "generation"), 1);
  for (const char* path : {"/modelservices", "/namespaces/audio/modelservices"}) {
    const auto list = json(call("GET", api(path)));
    EXPECT_EQ(textAt(list, "kind"), "ModelServiceList");
    EXPECT_EQ(list.find("items")->asList()->size(), 1U);
    EXPECT_FALSE(textAt(*list.find("metadata"), "resourceVersion").empty());
  }
  EXPECT_EQ(json(call("GET", api("/namespaces/other/modelservices"))).find("items")->asList()->size(), 0U);
  const auto replaced = call("PUT", api("/namespaces/audio/modelservices/speech"), serviceJson("audio", "speech", R"(,"weight":7)"));
  ASSERT_EQ(replaced.status, 200) << replaced.body;
  EXPECT_EQ(intAt(*json(replaced).find("spec"), "weight"), 7);
  EXPECT_EQ(intAt(*json(replaced).find("metadata"), "generation"), 2);
  const auto patched =
      call("PATCH", api("/namespaces/audio/modelservices/speech"), R"({"spec":{"instances":3,"weight":null},"metadata":{"labels":{"a":"b"}}})");
  ASSERT_EQ(patched.status, 200) << patched.body;
  EXPECT_EQ(intAt(*json(patched).find("spec"), "instances"), 3);
  EXPECT_EQ(json(patched).find("spec")->find("weight"), nullptr);
  EXPECT_EQ(textAt(*json(patched).find("metadata")->find("labels"), "a"), "b");
  EXPECT_EQ(call("DELETE", api("/namespaces/audio/modelservices/speech")).status, 200);
  EXPECT_EQ(call("GET", api("/namespaces/audio/modelservices/speech")).status, 404);
}

TEST_F(Admin, WhatGetPrintedCanBeSentAgain) {
  makeAudio();
  const auto read = call("GET", api("/tenants/audio"));
  EXPECT_EQ(call("PUT", api("/tenants/audio"), read.body).status, 200);
}

TEST_F(Admin, StaleVersionsConflict) {
  makeAudio();
  call("POST", api("/namespaces/audio/modelservices"), serviceJson("audio", "speech"));
  const auto first = call("GET", api("/namespaces/audio/modelservices/speech"));
  const std::string version = textAt(*json(first).find("metadata"), "resourceVersion");
  EXPECT_EQ(call("PATCH", api("/namespaces/audio/modelservices/speech"), R"({"spec":{"weight":3}})").status, 200);
  const auto stale = call("PUT", api("/namespaces/audio/modelservices/speech"), first.body);
  EXPECT_EQ(stale.status, 409);
  EXPECT_EQ(reason(stale), "ResourceVersionConflict");
  EXPECT_EQ(call("DELETE", api("/namespaces/audio/modelservices/speech?resourceVersion=" + version)).status, 409);
  EXPECT_EQ(
      call("PATCH", api("/namespaces/audio/modelservices/speech"), R"({"metadata":{"resourceVersion":")" + version + R"("},"spec":{"weight":4}})")
          .status,
      409);
}

TEST_F(Admin, DryRunChecksEverythingAndWritesNothing) {
  EXPECT_EQ(call("POST", api("/tenants?dryRun=All"), tenantJson("audio", R"("audio")")).status, 201);
  EXPECT_EQ(call("GET", api("/tenants/audio")).status, 404);
  EXPECT_EQ(call("POST", api("/tenants?dryRun=All"), tenantJson("audio", "")).status, 400);
  makeAudio();
  EXPECT_EQ(call("PUT", api("/tenants/audio?dryRun=All"), tenantJson("audio", R"("audio","more")")).status, 200);
  EXPECT_EQ(call("DELETE", api("/tenants/audio?dryRun=All")).status, 200);
  EXPECT_EQ(json(call("GET", api("/tenants/audio"))).find("spec")->find("namespaces")->asList()->size(), 1U);
  EXPECT_TRUE(backend_.revokedAll.empty());
}

TEST_F(Admin, RulesBetweenObjectsHold) {
  makeAudio();
  EXPECT_EQ(reason(call("POST", api("/tenants"), tenantJson("thief", R"("x","audio")"))), "NamespaceTaken");
  EXPECT_EQ(reason(call("POST", api("/tenants"), tenantJson("audio", R"("audio")"))), "AlreadyExists");
  const auto lost = call("POST", api("/namespaces/audoi/modelservices"), serviceJson("audoi", "a"));
  EXPECT_EQ(reason(lost), "UnknownNamespace");
  EXPECT_NE(textAt(json(lost), "error").find("did you mean audio?"), std::string::npos) << lost.body;
  EXPECT_EQ(call("POST", api("/namespaces/audio/modelservices"), serviceJson("audio", "a")).status, 201);
  EXPECT_EQ(call("POST", api("/namespaces/audio/modelservices"), serviceJson("audio", "b")).status, 201);
  EXPECT_EQ(reason(call("POST", api("/namespaces/audio/modelservices"), serviceJson("audio", "c"))), "QuotaExceeded");
  EXPECT_EQ(reason(call("PUT", api("/tenants/audio"), tenantJson("audio", R"("elsewhere")"))), "NamespaceInUse");
  EXPECT_EQ(reason(call("DELETE", api("/tenants/audio"))), "TenantNotEmpty");
  for (const char* name : {"a", "b"}) EXPECT_EQ(call("DELETE", api("/namespaces/audio/modelservices/" + std::string(name))).status, 200);
  EXPECT_EQ(call("DELETE", api("/tenants/audio")).status, 200);
  EXPECT_EQ(backend_.revokedAll, std::vector<std::string>{"audio"});
}

TEST_F(Admin, EveryFaultOfAnObjectIsListed) {
  makeAudio();
  const auto bad = call("POST", api("/namespaces/audio/modelservices"), serviceJson("audio", "a", R"(,"wieght":1,"minCpus":"x")"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(reason(bad), "InvalidObject");
  const auto value = json(bad);
  ASSERT_NE(value.find("faults"), nullptr);
  EXPECT_EQ(value.find("faults")->asList()->size(), 2U) << bad.body;
}

TEST_F(Admin, PathsAndObjectsMustAgree) {
  makeAudio();
  struct Case {
    std::string method;
    std::string target;
    std::string body;
    int status;
    std::string reason;
  };
  const std::vector<Case> cases{
      {"POST", "/tenants", serviceJson("audio", "a"), 400, "WrongObject"},
      {"POST", "/namespaces/audio/modelservices", serviceJson("other", "a"), 400, "WrongObject"},
      {"PUT", "/tenants/audio", tenantJson("video", R"("v")"), 400, "WrongObject"},
      {"PUT", "/tenants/video", tenantJson("video", R"("v")"), 404, ""},
      {"POST", "/tenants", "{", 400, "BadJson"},
      {"POST", "/tenants", "", 400, "BadJson"},
      {"POST", "/modelservices", serviceJson("audio", "a"), 404, "NoSuchPath"},
      {"GET", "/modelservices/x", "", 404, "NoSuchPath"},
      {"GET", "/pods", "", 404, "NoSuchPath"},
      {"GET", "/namespaces/audio", "", 404, "NoSuchPath"},
      {"GET", "/namespaces/audio/tenants", "", 404, "NoSuchPath"},
      {"GET", "/tenants/a/status/x", "", 404, "NoSuchPath"},
      {"GET", "/tenants/%zz", "", 400, "BadEscape"},
      {"DELETE", "/tenants", "", 404, "NoSuchPath"},
      {"BREW", "/tenants/audio", "", 404, "NoSuchPath"},
  };
  for (const auto& [method, target, body, status, why] : cases) {
    const auto response = call(method, api(target), body);
    EXPECT_EQ(response.status, status) << method << " " << target << " " << response.body;
    if (!why.empty()) {
      EXPECT_EQ(reason(response), why) << method << " " << target;
    }
  }
  EXPECT_EQ(call("GET", "/").status, 404);
  EXPECT_EQ(call("GET", "/apis").status, 404);
  EXPECT_EQ(call("GET", "/apis/coterie.dev/v2/tenants").status, 404);
}

TEST_F(Admin, StatusIsApartFromSpec) {
  makeAudio();
  const auto before = json(call("GET", api("/tenants/audio")));
  const auto written = call("PUT", api("/tenants/audio/status"), R"({"status":{"conditions":[]},"spec":{"weight":9}})");
  ASSERT_EQ(written.status, 200) << written.body;
  const auto after = json(call("GET", api("/tenants/audio/status")));
  EXPECT_NE(after.find("status"), nullptr);
  EXPECT_EQ(*after.find("spec"), *before.find("spec"));
  EXPECT_EQ(call("PUT", api("/tenants/audio/status"), "{}").status, 400);
}

TEST_F(Admin, WatchStreamsWhatIsThereAndWhatComes) {
  makeAudio();
  call("POST", api("/namespaces/audio/modelservices"), serviceJson("audio", "a"));
  std::vector<std::string> seen;
  auto client = server_.client();
  const auto response = client.stream({"GET", api("/namespaces/audio/modelservices?watch=1"), {}, ""}, [&](std::string_view line) {
    const auto value = text::parseJson(line);
    EXPECT_TRUE(value.ok());
    seen.push_back(textAt(*value, "type") + " " + textAt(*value->find("object")->find("metadata"), "name"));
    if (seen.size() == 1) {
      call("POST", api("/namespaces/audio/modelservices"), serviceJson("audio", "b"));
      call("PATCH", api("/namespaces/audio/modelservices/b"), R"({"spec":{"weight":2}})");
      call("DELETE", api("/namespaces/audio/modelservices/a"));
    }
    return seen.size() == 4 ? http::Client::Next::Stop : http::Client::Next::Continue;
  });
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"ADDED a", "ADDED b", "MODIFIED b", "DELETED a"}));
  const auto ahead = call("GET", api("/tenants?watch=1&resourceVersion=999999"));
  EXPECT_EQ(ahead.status, 409);
  EXPECT_EQ(reason(ahead), "ResourceVersionTooOld");
}

TEST_F(Admin, AServerThatEndsCutsItsWatches) {
  makeAudio();
  auto client = server_.client();
  bool asked = false;
  const auto response = client.stream({"GET", api("/tenants?watch=1"), {}, ""}, [&](std::string_view) {
    asked = true;
    server_.onLoop([this] { server_.destroyServer(); });
    return http::Client::Next::Continue;
  });
  EXPECT_TRUE(asked);
  EXPECT_FALSE(response.ok());
}

TEST_F(Admin, TellsAboutTheServer) {
  EXPECT_EQ(textAt(json(call("GET", "/admin/v1/version")), "version"), "0.1.0");
  EXPECT_EQ(intAt(json(call("GET", "/admin/v1/top")), "capacityMilliCpu"), 2000);
  server_.onLoop([this] { (void)events_->append({0, 0, 0, 1, {"ModelService", "audio", "speech"}, "Moved", "to CPU 1", Value()}); });
  const auto explained = json(call("GET", "/admin/v1/explain/audio/speech"));
  EXPECT_EQ(decodeExplanation(explained).whyThese.size(), 1U);
  const WidthInfo width = decodeExplanation(explained).width;
  EXPECT_EQ(width.proposedThreads, 2);
  ASSERT_EQ(width.judged.size(), 2U);
  EXPECT_EQ(width.judged[0].latency, Millis(82));
  EXPECT_TRUE(width.judged[1].endless);
  EXPECT_EQ(width.why.size(), 1U);
  EXPECT_EQ(explained.find("changes")->asList()->size(), 1U);
  EXPECT_EQ(call("GET", "/admin/v1/explain/audio/none").status, 404);
  EXPECT_EQ(json(call("GET", "/admin/v1/instances/audio/speech")).find("items")->asList()->size(), 2U);
  EXPECT_EQ(call("GET", "/admin/v1/nothing").status, 404);
  EXPECT_EQ(call("POST", "/admin/v1/version").status, 404);
  EXPECT_EQ(call("PUT", "/admin/v1/drc", R"({"on":false})").status, 200);
  EXPECT_EQ(backend_.mode, DrcMode::Off);
  EXPECT_EQ(call("GET", "/admin/v1/drc").body, "{\"on\":false}\n");
  EXPECT_EQ(call("PUT", "/admin/v1/drc", R"({"on":1})").status, 400);
}

TEST_F(Admin, EventsAreFilteredAndFollowed) {
  const auto append = [this](const std::string& name, const std::string& why) {
    server_.onLoop([&] { (void)events_->append({0, 0, 0, 1, {"ModelService", "audio", name}, why, why, Value()}); });
  };
  append("a", "One");
  append("b", "Two");
  append("a", "Three");
  const auto names = [&](const std::string& query) {
    std::string out;
    const Value value = json(call("GET", "/admin/v1/events" + query));
    for (const Value& item : *value.find("items")->asList()) out += textAt(item, "reason") + " ";
    return out;
  };
  EXPECT_EQ(names(""), "One Two Three ");
  EXPECT_EQ(names("?name=a"), "One Three ");
  EXPECT_EQ(names("?limit=1"), "Three ");
  EXPECT_EQ(names("?namespace=x"), "");
  std::string followed;
  auto client = server_.client();
  ASSERT_TRUE(client
                  .stream({"GET", "/admin/v1/events?watch=1&name=a", {}, ""},
                          [&](std::string_view line) {
                            followed += textAt(*text::parseJson(line), "reason") + " ";
                            if (followed == "One Three ") append("b", "Four"), append("a", "Five");
                            return followed.find("Five") != std::string::npos ? http::Client::Next::Stop : http::Client::Next::Continue;
                          })
                  .ok());
  EXPECT_EQ(followed, "One Three Five ");
}

TEST_F(Admin, LogsAreTailedAndFollowed) {
  const auto tail = call("GET", "/admin/v1/logs/audio/speech?tail=2");
  EXPECT_NE(tail.body.find("line 1"), std::string::npos);
  EXPECT_EQ(tail.body.find("line 2"), std::string::npos);
  int lines = 0;
  auto client = server_.client();
  ASSERT_TRUE(client
                  .stream({"GET", "/admin/v1/logs/audio/speech?follow=1", {}, ""},
                          [&](std::string_view) { return ++lines == 5 ? http::Client::Next::Stop : http::Client::Next::Continue; })
                  .ok());
}

TEST_F(Admin, KeysAreForTenantsThatExist) {
  EXPECT_EQ(call("POST", "/admin/v1/keys", R"({"tenant":"audio"})").status, 404);
  makeAudio();
  const auto created = json(call("POST", "/admin/v1/keys", R"({"tenant":"audio","label":"ci","lifetimeSeconds":60})"));
  EXPECT_EQ(textAt(created, "key"), "ctk_secret");
  EXPECT_EQ(textAt(created, "expires"), "1970-01-01T00:01:00.000000Z");
  const auto list = call("GET", "/admin/v1/keys?tenant=audio");
  EXPECT_EQ(json(list).find("items")->asList()->size(), 1U);
  EXPECT_EQ(list.body.find("ctk_"), std::string::npos);
  EXPECT_EQ(json(call("GET", "/admin/v1/keys?tenant=b")).find("items")->asList()->size(), 0U);
  EXPECT_EQ(textAt(json(call("POST", "/admin/v1/keys/id0/rotate", R"({"overlapSeconds":60})")), "key"), "ctk_new");
  EXPECT_EQ(call("POST", "/admin/v1/keys/id0/rotate", R"({"overlapSeconds":-1})").status, 400);
  EXPECT_EQ(call("DELETE", "/admin/v1/keys/id0").status, 200);
  EXPECT_EQ(call("DELETE", "/admin/v1/keys/id9").status, 404);
}

TEST(Reports, ComeBackAsTheyWent) {
  TopReport report{MilliCpu(4000), MilliCpu(1234), true, {}};
  TopService service;
  service.service = {"audio", "speech"};
  service.tenant = TenantName("audio");
  service.requestsPerSecond = 12.5;
  service.p99 = Micros(1500);
  service.lent = MilliCpu(7);
  report.services.push_back(service);
  const TopReport back = decodeTop(encode(report));
  ASSERT_EQ(back.services.size(), 1U);
  EXPECT_EQ(back.services[0].service, service.service);
  EXPECT_EQ(back.services[0].requestsPerSecond, 12.5);
  EXPECT_EQ(back.services[0].p99, service.p99);
  EXPECT_EQ(back.services[0].lent, service.lent);
  EXPECT_TRUE(back.drcOn);
  EXPECT_EQ(decodeTop(Value()).services.size(), 0U);
  InstanceInfo instance;
  instance.id = InstanceId(7);
  instance.state = "Ready";
  instance.memory = Bytes(1 << 20);
  EXPECT_EQ(decodeInstance(encode(instance)).memory, instance.memory);
}

TEST(MergePatch, FollowsTheExamplesOfTheRfc) {
  const std::vector<std::array<std::string, 3>> cases{
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
      {R"(["a","b"])", R"({"a":"b","c":null})", R"({"a":"b"})"},
  };
  for (const auto& [target, patch, wanted] : cases) {
    Value value = *text::parseJson(target);
    mergePatch(value, *text::parseJson(patch));
    EXPECT_EQ(text::printJson(value), wanted);
  }
}

TEST(Metrics, HealthAndReadiness) {
  Status ready = Error{Code::Unavailable, "Loading", "models are loading"};
  MetricsHandler handler([](const auto&) { return std::string("coterie_up 1\n"); }, [&] { return ready; });
  http::TestServer server([&](const std::shared_ptr<http::RequestContext>& request) { handler.onRequest(request); });
  auto client = server.client();
  const auto metrics = client.request({"GET", "/metrics", {}, ""});
  EXPECT_EQ(metrics->body, "coterie_up 1\n");
  EXPECT_EQ(metrics->header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(client.request({"GET", "/healthz", {}, ""})->status, 200);
  const auto loading = client.request({"GET", "/readyz", {}, ""});
  EXPECT_EQ(loading->status, 503);
  EXPECT_NE(loading->body.find("Loading"), std::string::npos);
  server.onLoop([&] { ready = Status(); });
  EXPECT_EQ(client.request({"GET", "/readyz", {}, ""})->status, 200);
  EXPECT_EQ(client.request({"POST", "/metrics", {}, ""})->status, 405);
  EXPECT_EQ(client.request({"GET", "/x", {}, ""})->status, 404);
}

// Which series a caller sees, by its key and by whether the listener asks for one.
TEST(Metrics, WhoSeesWhat) {
  const auto authenticate = [](std::string_view key) -> Result<identity::Identity> {
    identity::Identity who;
    who.tenant = TenantName("audio");
    const auto role = roleNamed(key);
    if (!role) return Error{Code::Unauthenticated, "InvalidKey", "no such key"};
    who.role = *role;
    return who;
  };
  const auto page = [](const std::optional<TenantName>& tenant) { return "of " + (tenant ? tenant->value : "all"); };
  struct Case {
    std::vector<std::pair<std::string, std::string>> headers;
    int open;
    int locked;
    const char* page;  // if it is open
  };
  const std::vector<Case> cases{
      {{}, 200, 401, "of all"},
      {{{"Authorization", "Bearer observe"}}, 200, 200, "of audio"},
      {{{"X-API-Key", "tenant-admin"}}, 200, 200, "of audio"},
      {{{"Authorization", "Bearer infer"}}, 403, 403, "RoleForbids"},
      {{{"Authorization", "Bearer wrong"}}, 401, 401, "InvalidKey"},
      {{{"Authorization", "Basic cm9vdDo="}}, 401, 401, "NoKey"},
      {{{"X-API-Key", ""}}, 401, 401, "NoKey"},
      {{{"Authorization", "Bearer observe"}, {"Authorization", "Bearer observe"}}, 400, 400, "SeveralKeys"},
  };
  for (const MetricsDoor door : {MetricsDoor::Open, MetricsDoor::Key}) {
    MetricsHandler handler(page, [] { return Status(); }, authenticate, door);
    http::TestServer server([&](const std::shared_ptr<http::RequestContext>& request) { handler.onRequest(request); });
    auto client = server.client();
    for (const Case& each : cases) {
      const auto response = client.request({"GET", "/metrics", each.headers, ""});
      EXPECT_EQ(response->status, door == MetricsDoor::Open ? each.open : each.locked) << each.page;
      if (response->status == each.open) {
        EXPECT_NE(response->body.find(each.page), std::string::npos) << response->body;
      }
    }
    EXPECT_EQ(client.request({"GET", "/healthz", {}, ""})->status, 200) << "for everybody";
    EXPECT_EQ(client.request({"GET", "/readyz", {}, ""})->status, 200);
  }
}

}  // namespace
}  // namespace coterie::admin
