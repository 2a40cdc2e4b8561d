// Who may what at the admin API: every route with every role, what another tenant's looks like, and keys that end.
#include "admin/access.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "admin/admin_fixture.h"

namespace coterie::admin {
namespace {

const std::vector<std::string> kCallers{"", "observe", "infer", "tenant-admin"};  // "": the socket's own, the platform's administrator

class Access : public Admin {
 protected:
  Access() {
    for (const char* name : {"audio", "video"}) {
      EXPECT_EQ(call("POST", api("/tenants"), tenantJson(name, "\"" + std::string(name) + "\"", R"(,"quota":{"services":4})")).status, 201);
      EXPECT_EQ(call("POST", api(servicesOf(name)), serviceJson(name, "speech")).status, 201);
      backend_.keys.push_back({std::string(name) + "-id", TenantName(name), Role::Infer, "", {}, {}, {}, {}, {}});
      backend_.services.push_back({});
      backend_.services.back().service = {name, "speech"};
      backend_.services.back().use = MilliCpu(300);
    }
    for (const Role role : kKeyRoles) addKey(std::string(roleName(role)), role);
  }
  void addKey(const std::string& key, Role role) {
    identity::Identity caller;
    caller.tenant = TenantName("audio");
    caller.role = role;
    caller.keyId = "key-" + key;
    server_.onLoop([&] { backend_.callers[key] = caller; });
  }
  static std::string servicesOf(const std::string& nameSpace) { return "/namespaces/" + nameSpace + "/modelservices"; }
  static Headers bearer(const std::string& key) { return key.empty() ? Headers{} : Headers{{"Authorization", "Bearer " + key}}; }
  http::ClientResponse as(const std::string& key, const std::string& method, const std::string& target, const std::string& body = "") {
    return call(method, target, body, bearer(key));
  }
  std::size_t sizeOf(const http::ClientResponse& list) {
    const Value value = json(list);
    const Value* items = value.find("items");
    return items == nullptr ? 0 : items->asList()->size();
  }
  std::set<std::string> namesIn(const http::ClientResponse& list) {
    std::set<std::string> names;
    const Value value = json(list);  // must outlive what is found in it
    const Value* items = value.find("items");
    if (items == nullptr) return {"no list"};
    for (const Value& item : *items->asList()) {
      const Value* metadata = item.find("metadata");
      names.insert(metadata != nullptr ? textAt(*metadata, "namespace") + "/" + textAt(*metadata, "name") : textAt(item, "id"));
    }
    return names;
  }
};

struct Route {
  const char* method;
  std::string target;  // of tenant audio
  std::string body;
  std::vector<int> status;  // for each of kCallers; 0: it goes on, so only its refusal is asked for
};

// The table of rights, as it arrives at the socket.
TEST_F(Access, EveryRouteAnswersEachRoleAsTheTableSays) {
  const std::string service = api(servicesOf("audio"));
  const std::vector<Route> routes{
      {"GET", api("/tenants"), "", {200, 200, 403, 200}},
      {"GET", api("/tenants/audio"), "", {200, 200, 403, 200}},
      {"PATCH", api("/tenants/audio"), R"({"spec":{"weight":7}})", {200, 403, 403, 403}},
      {"PUT", api("/tenants/audio"), tenantJson("audio", R"("audio")"), {200, 403, 403, 403}},
      {"PUT", api("/tenants/audio/status"), R"({"status":{}})", {200, 403, 403, 403}},
      {"POST", api("/tenants"), tenantJson("new", R"("new")"), {201, 403, 403, 403}},
      {"DELETE", api("/tenants/new"), "", {200, 403, 403, 403}},
      {"GET", api("/modelservices"), "", {200, 200, 403, 200}},
      {"GET", service, "", {200, 200, 403, 200}},
      {"GET", service + "/speech", "", {200, 200, 403, 200}},
      {"GET", service + "/speech/status", "", {200, 200, 403, 200}},
      {"PATCH", service + "/speech", R"({"spec":{"weight":7}})", {200, 403, 403, 200}},
      {"PUT", service + "/speech", serviceJson("audio", "speech"), {200, 403, 403, 200}},
      {"PUT", service + "/speech/status", R"({"status":{}})", {200, 403, 403, 403}},
      {"GET", "/admin/v1/version", "", {200, 200, 200, 200}},
      {"GET", "/admin/v1/whoami", "", {200, 200, 200, 200}},
      {"GET", "/admin/v1/can-i?verb=get&kind=Version", "", {200, 200, 200, 200}},
      {"GET", "/admin/v1/top", "", {200, 200, 403, 200}},
      {"GET", "/admin/v1/limits", "", {200, 200, 403, 200}},
      {"GET", "/admin/v1/limits?tenant=audio", "", {200, 200, 403, 200}},
      {"GET", "/admin/v1/metrics", "", {200, 200, 403, 200}},
      {"GET", "/admin/v1/events", "", {200, 200, 403, 200}},
      {"GET", "/admin/v1/explain/audio/speech", "", {200, 200, 403, 200}},
      {"GET", "/admin/v1/instances/audio/speech", "", {200, 200, 403, 200}},
      {"GET", "/admin/v1/logs/audio/speech", "", {200, 200, 403, 200}},
      {"GET", "/admin/v1/audit", "", {200, 403, 403, 200}},
      {"GET", "/admin/v1/drc", "", {200, 403, 403, 403}},
      {"PUT", "/admin/v1/drc", R"({"on":true})", {200, 403, 403, 403}},
      {"GET", "/admin/v1/keys", "", {200, 403, 403, 200}},
      {"POST", "/admin/v1/keys", R"({"tenant":"audio"})", {201, 403, 403, 201}},
      {"POST", "/admin/v1/keys", R"({"tenant":"audio","role":"tenant-admin"})", {201, 403, 403, 201}},
      {"POST", "/admin/v1/keys", R"({"tenant":"audio","role":"platform-admin"})", {400, 403, 403, 400}},
      {"POST", "/admin/v1/keys/audio-id/rotate", "{}", {200, 403, 403, 200}},
      {"DELETE", "/admin/v1/keys/audio-id", "", {200, 403, 403, 200}},
      {"GET", api("/tenants?watch=1"), "", {0, 0, 403, 0}},
      {"GET", service + "?watch=1", "", {0, 0, 403, 0}},
      {"GET", "/admin/v1/events?watch=1", "", {0, 0, 403, 0}},
      {"GET", "/admin/v1/logs/audio/speech?follow=1", "", {0, 0, 403, 0}},
  };
  for (const Route& route : routes) {
    for (std::size_t i = 0; i < kCallers.size(); ++i) {
      if (route.status[i] == 0) continue;
      const auto response = as(kCallers[i], route.method, route.target, route.body);
      EXPECT_EQ(response.status, route.status[i]) << kCallers[i] << " " << route.method << " " << route.target << ": " << response.body;
      EXPECT_TRUE(response.status != 403 || reason(response) == "RoleForbids") << response.body;
    }
  }
  for (std::size_t i = 0; i < kCallers.size(); ++i) {  // each makes and deletes its own
    const std::string name = "made-" + std::to_string(i);
    const int wanted = i == 0 || i == 3 ? 201 : 403;
    EXPECT_EQ(as(kCallers[i], "POST", service, serviceJson("audio", name)).status, wanted) << kCallers[i];
    EXPECT_EQ(as(kCallers[i], "DELETE", service + "/" + name).status, wanted == 201 ? 200 : 403) << kCallers[i];
  }
}

// Word for word what is said of a thing that is not there, but for its name.
TEST_F(Access, WhatIsAnotherTenantsLooksAsIfItDidNotExist) {
  struct Attempt {
    const char* method;
    std::string target;  // with VICTIM for the name that exists elsewhere, or nowhere
    std::string body;
  };
  const std::vector<Attempt> attempts{
      {"GET", api("/tenants/VICTIM"), ""},
      {"GET", api("/namespaces/VICTIM/modelservices/speech"), ""},
      {"PATCH", api("/namespaces/VICTIM/modelservices/speech"), R"({"spec":{"weight":7}})"},
      {"PUT", api("/namespaces/VICTIM/modelservices/speech"), serviceJson("VICTIM", "speech")},
      {"DELETE", api("/namespaces/VICTIM/modelservices/speech"), ""},
      {"POST", api("/namespaces/VICTIM/modelservices"), serviceJson("VICTIM", "more")},
      {"POST", api("/namespaces/VICTIM/modelservices"), serviceJson("VICTIM", "speech")},
      {"POST", api("/namespaces/VICTIM/modelservices?dryRun=All"), serviceJson("VICTIM", "more")},
      {"GET", api("/namespaces/VICTIM/modelservices"), ""},
      {"GET", "/admin/v1/explain/VICTIM/speech", ""},
      {"GET", "/admin/v1/instances/VICTIM/speech", ""},
      {"GET", "/admin/v1/logs/VICTIM/speech", ""},
      {"GET", "/admin/v1/events?namespace=VICTIM", ""},
      {"GET", "/admin/v1/keys?tenant=VICTIM", ""},
      {"GET", "/admin/v1/limits?tenant=VICTIM", ""},
      {"POST", "/admin/v1/keys", R"({"tenant":"VICTIM"})"},
      {"POST", "/admin/v1/keys/VICTIM-id/rotate", "{}"},
      {"DELETE", "/admin/v1/keys/VICTIM-id", ""},
      {"GET", "/admin/v1/can-i?verb=get&kind=Tenant&tenant=VICTIM&role=infer", ""},
  };
  const auto with = [](std::string text, const std::string& name) {
    for (std::size_t at = text.find("VICTIM"); at != std::string::npos; at = text.find("VICTIM")) text.replace(at, 6, name);
    return text;
  };
  for (const Attempt& attempt : attempts) {
    const auto there = as("tenant-admin", attempt.method, with(attempt.target, "video"), with(attempt.body, "video"));
    const auto nowhere = as("tenant-admin", attempt.method, with(attempt.target, "vixen"), with(attempt.body, "vixen"));
    std::string said = nowhere.body;
    for (std::size_t at = said.find("vixen"); at != std::string::npos; at = said.find("vixen")) said.replace(at, 5, "video");
    EXPECT_EQ(there.status, nowhere.status) << attempt.method << " " << attempt.target;
    EXPECT_EQ(there.body, said) << attempt.method << " " << attempt.target;
    EXPECT_TRUE(there.status == 404 || (there.status == 200 && namesIn(there).empty())) << attempt.target << ": " << there.status << there.body;
  }
  EXPECT_EQ(namesIn(call("GET", api("/modelservices"))), (std::set<std::string>{"audio/speech", "video/speech"})) << "nothing was changed";
  EXPECT_FALSE(backend_.keys[1].revoked.has_value());
}

TEST_F(Access, AnotherTenantsLogIsNotFollowed) {
  bool told = false;
  auto client = server_.client();
  const auto response = client.stream({"GET", "/admin/v1/logs/video/speech?follow=1", bearer("tenant-admin"), ""}, [&](std::string_view) {
    told = true;
    return http::Client::Next::Stop;
  });
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->status, 404);
  EXPECT_FALSE(told);
}

TEST_F(Access, ListingsHoldWhatIsTheCallersOwn) {
  server_.onLoop([this] {
    for (const char* name : {"audio", "video"}) {
      (void)events_->append({0, 0, 0, 1, {"ModelService", name, "speech"}, "Loaded", "it is loaded", Value()});
      (void)events_->append({0, 0, 0, 1, {"Tenant", "", name}, "Admitted", "it is admitted", Value()});
    }
    (void)events_->append({0, 0, 0, 1, {"Node", "", "here"}, "Planned", "a plan", Value()});
    const auto rate = tenancy::LimitKind::RequestRate;
    backend_.limitLines = {{TenantName("audio"), {}, {rate, 5, 5, 1, 2}},
                           {TenantName("audio"), ServiceName{"video", "speech"}, {rate, 5, 5, 1, 2}},
                           {TenantName("video"), ServiceName{"audio", "speech"}, {rate, 5, 5, 1, 2}}};
  });
  for (const std::string& key : {std::string("observe"), std::string("tenant-admin")}) {
    EXPECT_EQ(namesIn(as(key, "GET", api("/tenants"))), std::set<std::string>{"/audio"});
    EXPECT_EQ(namesIn(as(key, "GET", api("/modelservices"))), std::set<std::string>{"audio/speech"});
    const auto top = decodeTop(json(as(key, "GET", "/admin/v1/top")));
    ASSERT_EQ(top.services.size(), 1U);
    EXPECT_EQ(top.services[0].service.nameSpace, "audio");
    EXPECT_EQ(top.use, MilliCpu(300)) << "not what others use";
    const auto limits = as(key, "GET", "/admin/v1/limits");
    EXPECT_EQ(sizeOf(limits), 2U) << limits.body;
    EXPECT_EQ(limits.body.find(R"("tenant":"video")"), std::string::npos) << limits.body;
    EXPECT_EQ(as(key, "GET", "/admin/v1/metrics").body, "of audio");
    const auto events = as(key, "GET", "/admin/v1/events");
    EXPECT_EQ(sizeOf(events), 2U) << events.body;
    EXPECT_EQ(events.body.find("video"), std::string::npos);
    EXPECT_EQ(as(key, "GET", "/admin/v1/explain/audio/speech").status, 200);
    EXPECT_EQ(backend_.eyes, TenantName("audio")) << "so that it names nobody else's services";
  }
  EXPECT_EQ(namesIn(as("tenant-admin", "GET", "/admin/v1/keys")), std::set<std::string>{"audio-id"});
  EXPECT_EQ(sizeOf(call("GET", "/admin/v1/limits")), 3U);
  EXPECT_EQ(sizeOf(call("GET", "/admin/v1/limits?tenant=video")), 1U);
  EXPECT_EQ(call("GET", "/admin/v1/limits?tenant=vixen").status, 404);
  EXPECT_EQ(call("GET", "/admin/v1/metrics").body, "of all");
  EXPECT_EQ(sizeOf(call("GET", "/admin/v1/events")), 5U);
  EXPECT_EQ(namesIn(call("GET", "/admin/v1/keys")), (std::set<std::string>{"audio-id", "video-id"}));
  call("GET", "/admin/v1/explain/audio/speech");
  EXPECT_EQ(backend_.eyes, std::nullopt);
}

TEST_F(Access, WatchesHoldWhatIsTheCallersOwn) {
  std::vector<std::string> seen;
  auto client = server_.client();
  const auto response = client.stream({"GET", api("/modelservices?watch=1"), bearer("observe"), ""}, [&](std::string_view line) {
    const auto value = text::parseJson(line);
    if (!value.ok()) return http::Client::Next::Continue;
    const Value& metadata = *value->find("object")->find("metadata");
    seen.push_back(textAt(*value, "type") + " " + textAt(metadata, "namespace") + "/" + textAt(metadata, "name"));
    if (seen.size() == 1) {
      call("POST", api(servicesOf("video")), serviceJson("video", "clip"));
      call("PATCH", api("/namespaces/video/modelservices/clip"), R"({"spec":{"weight":2}})");
      call("DELETE", api("/namespaces/video/modelservices/clip"));
      call("POST", api(servicesOf("audio")), serviceJson("audio", "notes"));
    }
    return seen.size() == 2 ? http::Client::Next::Stop : http::Client::Next::Continue;
  });
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"ADDED audio/speech", "ADDED audio/notes"}));
}

TEST_F(Access, AWatchedEventIsTheCallersOwn) {
  const auto tell = [this](const char* name) {
    server_.onLoop([&] { (void)events_->append({0, 0, 0, 1, {"ModelService", name, "speech"}, "Loaded", "it is loaded", Value()}); });
  };
  tell("audio");
  std::vector<std::string> seen;
  auto client = server_.client();
  const auto response = client.stream({"GET", "/admin/v1/events?watch=1", bearer("observe"), ""}, [&](std::string_view line) {
    const auto value = text::parseJson(line);
    if (!value.ok()) return http::Client::Next::Continue;
    seen.push_back(textAt(*value, "namespace"));
    if (seen.size() == 1) tell("video"), tell("audio");
    return seen.size() == 2 ? http::Client::Next::Stop : http::Client::Next::Continue;
  });
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"audio", "audio"}));
}

TEST_F(Access, AKeyThatEndsEndsItsStreams) {
  for (const std::string& target : {api("/modelservices?watch=1"), std::string("/admin/v1/logs/audio/speech?follow=1")}) {
    addKey("brief", Role::Observe);
    bool begun = false;
    auto client = server_.client({Millis(5000), Millis(3000)});  // less than a stream's beat: one that goes on is a failure, not a test without end
    const auto response = client.stream({"GET", target, bearer("brief"), ""}, [&](std::string_view) {
      if (!begun) server_.onLoop([this] { backend_.callers.erase("brief"); });
      begun = true;
      return http::Client::Next::Continue;
    });
    EXPECT_TRUE(response.ok()) << "an orderly end, by the server: " << target;
    EXPECT_TRUE(begun) << target;
    EXPECT_EQ(as("brief", "GET", "/admin/v1/whoami").status, 401);
  }
}

TEST_F(Access, WhoShowsAKeyIsNeverTheAdministrator) {
  const auto status = [this](const Headers& headers) { return call("GET", api("/tenants"), "", headers).status; };
  EXPECT_EQ(status({}), 200);
  EXPECT_EQ(status({{"Authorization", "Bearer wrong"}}), 401);
  EXPECT_EQ(status({{"Authorization", "Basic cm9vdDo="}}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer"}}), 401);
  EXPECT_EQ(status({{"Authorization", ""}}), 401);
  EXPECT_EQ(status({{"X-API-Key", ""}}), 401);
  EXPECT_EQ(status({{"X-API-Key", "infer"}}), 403);
  EXPECT_EQ(status({{"Authorization", "Bearer observe"}, {"Authorization", "Bearer tenant-admin"}}), 400);
}

TEST(AccessOfUsers, RootAndTheServersUserMayConnect) {
  EXPECT_TRUE(checkUser(0, 1000).ok());
  EXPECT_TRUE(checkUser(1000, 1000).ok());
  for (const std::optional<std::uint32_t> other : {std::optional<std::uint32_t>(1001), std::optional<std::uint32_t>()}) {
    const Status refused = checkUser(other, 1000);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::PermissionDenied);
    EXPECT_EQ(refused.error().reason, "NotTheServersUser");
  }
}

// Over TCP nobody knows who it is, so nobody is let in: also with a good key.
TEST(AccessOfUsers, WhoeverComesByAnotherWayIsRefused) {
  http::AsioLoop* loop = nullptr;
  std::optional<memory::MemoryObjectStore> store;
  std::optional<memory::MemoryEventLog> events;
  coterie::testing::FakeLogFolder folder;
  std::optional<audit::Trail> trail;
  std::optional<AdminHandler> handler;
  ScriptedBackend backend;
  backend.callers["key"] = {};
  http::TestServer server([&](const std::shared_ptr<http::RequestContext>& request) { handler->onRequest(request); });
  loop = &server.loop;
  server.onLoop([&] {
    store.emplace(*loop);
    events.emplace(loop->clock());
    trail.emplace(folder, loop->clock());
    handler.emplace(*loop, *store, *events, backend, *trail, ::geteuid());
  });
  for (const bool shown : {false, true}) {
    auto client = server.client();
    std::vector<std::pair<std::string, std::string>> headers;
    if (shown) headers.emplace_back("Authorization", "Bearer key");
    const auto response = client.request({"GET", "/admin/v1/version", headers, ""});
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->status, 403) << response->body;
  }
  server.onLoop([&] {
    server.destroyServer();
    handler.reset();
  });
  const std::string told = folder.bytes(audit::fileName(1));
  EXPECT_NE(
      told.find(
          R"("actor":{"kind":"source","id":"loopback"},"verb":"GET","object":"/admin/v1/version","result":"refused","reason":"NotTheServersUser","count":2)"),
      std::string::npos)
      << told;
}

TEST_F(Access, SaysWhoIsCalling) {
  const auto root = decodeWhoAmI(json(call("GET", "/admin/v1/whoami")));
  EXPECT_EQ(root.user, ::geteuid());
  EXPECT_EQ(root.role, Role::PlatformAdmin);
  EXPECT_EQ(root.keyId, "");
  const auto admin = decodeWhoAmI(json(as("tenant-admin", "GET", "/admin/v1/whoami")));
  EXPECT_EQ(admin.role, Role::TenantAdmin);
  EXPECT_EQ(admin.tenant, TenantName("audio"));
  EXPECT_EQ(admin.keyId, "key-tenant-admin");
}

TEST_F(Access, CanIAnswersAsTheRoutesDo) {
  const auto can = [this](const std::string& key, const std::string& query) {
    const auto response = as(key, "GET", "/admin/v1/can-i?" + query);
    if (response.status != 200) return std::to_string(response.status) + " " + reason(response);
    const auto verdict = decodeVerdict(json(response));
    return (verdict.allowed ? "yes " : "no ") + verdict.reason;
  };
  EXPECT_EQ(can("", "verb=delete&kind=Tenant&name=audio"), "yes RoleAllows");
  EXPECT_EQ(can("tenant-admin", "verb=delete&kind=Tenant&name=audio"), "no RoleForbids");
  EXPECT_EQ(can("tenant-admin", "verb=update&kind=modelservices"), "yes RoleAllows");
  EXPECT_EQ(can("tenant-admin", "verb=update&kind=modelservice&namespace=audio&name=speech"), "yes RoleAllows");
  EXPECT_EQ(can("tenant-admin", "verb=update&kind=modelservice&namespace=video&name=speech"), "no NotItsOwn");
  EXPECT_EQ(can("tenant-admin", "verb=revoke&kind=key&name=audio-id"), "yes RoleAllows");
  EXPECT_EQ(can("tenant-admin", "verb=revoke&kind=key&name=video-id"), "no NotItsOwn");
  EXPECT_EQ(can("observe", "verb=infer&kind=model&namespace=audio&name=speech"), "no RoleForbids");
  EXPECT_EQ(can("", "verb=infer&kind=model&namespace=audio&name=speech&tenant=audio&role=infer"), "yes RoleAllows");
  EXPECT_EQ(can("", "verb=infer&kind=model&namespace=video&name=speech&tenant=audio&role=infer"), "no NotItsOwn");
  call("PATCH", api("/namespaces/video/modelservices/speech"), R"({"spec":{"consumers":["audio"]}})");
  EXPECT_EQ(can("", "verb=infer&kind=model&namespace=video&name=speech&tenant=audio&role=infer"), "yes RoleAllows");
  EXPECT_EQ(can("", "verb=get&kind=modelservice&namespace=video&name=speech&tenant=audio&role=observe"), "no NotItsOwn");
  EXPECT_EQ(can("observe", "verb=infer&kind=model&tenant=audio&role=infer"), "yes RoleAllows");
  EXPECT_EQ(can("observe", "verb=infer&kind=model&tenant=video&role=infer"), "404 TenantNotFound");
  EXPECT_EQ(can("", "verb=fly&kind=model"), "400 UnknownVerb");
  EXPECT_EQ(can("", "verb=get&kind=plane"), "400 UnknownKind");
  EXPECT_EQ(can("", "verb=get&kind=model&tenant=audio&role=platform-admin"), "400 UnknownRole");
  EXPECT_EQ(can("", "verb=get&kind=model&role=infer"), "400 BadQuestion");
  EXPECT_EQ(can("", "verb=get&kind=model&name=speech"), "400 BadQuestion");
}

}  // namespace
}  // namespace coterie::admin
