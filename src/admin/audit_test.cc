// What the audit log is told by the admin API, what happens while it cannot be written, and who may read it.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "admin/admin_fixture.h"
#include "audit/chain.h"

namespace coterie::admin {
namespace {

class Audited : public Admin {
 protected:
  Audited() {
    makeAudio();
    EXPECT_EQ(call("POST", api("/tenants"), tenantJson("video", R"("video")")).status, 201);
    for (const Role role : kKeyRoles) addKey("audio", role);
    addKey("video", Role::TenantAdmin);
    told();
  }
  void addKey(const std::string& tenant, Role role) {
    identity::Identity caller;
    caller.tenant = TenantName(tenant);
    caller.role = role;
    caller.keyId = "id-" + tenant + "-" + std::string(roleName(role));
    server_.onLoop([&] { backend_.callers[tenant + "-" + std::string(roleName(role))] = caller; });
  }
  http::ClientResponse as(const std::string& key, const std::string& method, const std::string& target, const std::string& body = "") {
    return call(method, target, body, {{"Authorization", "Bearer " + key}});
  }
  // "actor verb kind object: result | changes" of each line since the last time; refusals as if their time were over.
  std::vector<std::string> told() {
    std::vector<std::string> out;
    server_.onLoop([&] {
      audit::ChainCheck check;
      for (const std::string& name : auditFolder_.names()) {
        check.takeFile(name, auditFolder_.bytes(name), [&](const audit::Line& line) {
          if (line.sequence <= seen_) return;
          seen_ = line.sequence;
          out.push_back(textOf(line.entry));
        });
      }
      EXPECT_FALSE(check.fault());
    });
    return out;
  }
  static std::string textOf(const audit::Entry& entry) {
    std::string text = audit::actorText(entry.actor) + " " + entry.verb;
    for (const std::string& word : {entry.kind, entry.object}) text += word.empty() ? "" : " " + word;
    text += ": " + std::string(audit::outcomeName(entry.outcome));
    for (const std::string& change : entry.changes) text += " | " + change;
    if (!entry.reason.empty()) text += " " + entry.reason;
    return text;
  }
  // Lines that wait for their ten seconds are handed on when the handler goes.
  std::vector<std::string> toldAtTheEnd() {
    server_.onLoop([this] {
      server_.destroyServer();
      handler_.reset();
    });
    return told();
  }
  std::set<std::string> tenantsIn(const http::ClientResponse& response) {
    std::set<std::string> tenants;
    for (const std::string& line : decodeAuditPage(json(response)).lines) {
      const auto read = audit::decode(line);
      EXPECT_TRUE(read.ok()) << line;
      if (read.ok()) tenants.insert(read->entry.tenant.value);
    }
    return tenants;
  }
  static std::string me() { return "user " + std::to_string(::geteuid()); }
  static std::string service(const std::string& name = "") { return "/namespaces/audio/modelservices" + (name.empty() ? "" : "/" + name); }

  std::uint64_t seen_{0};
};
using Told = std::vector<std::string>;

TEST_F(Audited, EveryChangeIsToldBeforeAndAfter) {
  EXPECT_EQ(call("POST", api(service()), serviceJson("audio", "speech")).status, 201);
  Told lines = told();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].find(me() + " create ModelService audio/speech: begun | spec"), 0U) << lines[0];
  EXPECT_NE(lines[0].find("spec.model.uri: - -> file:a.onnx"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[1], me() + " create ModelService audio/speech: done");

  EXPECT_EQ(as("audio-tenant-admin", "PATCH", api(service("speech")), R"({"spec":{"weight":7}})").status, 200);
  EXPECT_EQ(told(), (Told{"key id-audio-tenant-admin update ModelService audio/speech: begun | spec.weight: - -> 7",
                          "key id-audio-tenant-admin update ModelService audio/speech: done"}));
  EXPECT_EQ(call("PUT", api(service("speech") + "/status"), R"({"status":{"phase":"odd"}})").status, 200);
  EXPECT_EQ(told(), (Told{me() + " report ModelService audio/speech: begun | phase: - -> odd", me() + " report ModelService audio/speech: done"}));
  EXPECT_EQ(call("PUT", "/admin/v1/drc", R"({"on":false})").status, 200);
  EXPECT_EQ(told(), (Told{me() + " update Controller: begun | mode: on -> off", me() + " update Controller: done"}));
  EXPECT_EQ(as("audio-tenant-admin", "DELETE", api(service("speech"))).status, 200);
  EXPECT_EQ(told().back(), "key id-audio-tenant-admin delete ModelService audio/speech: done");
  EXPECT_EQ(call("DELETE", api("/tenants/audio")).status, 200);
  EXPECT_EQ(told().back(), me() + " delete Tenant audio: done");
}

TEST_F(Audited, KeysAreToldByTheirIdAndNeverByTheirSecret) {
  EXPECT_EQ(call("POST", "/admin/v1/keys", R"({"tenant":"audio","role":"observe","label":"ci ctk_secret","lifetimeSeconds":60})").status, 201);
  EXPECT_EQ(told(),
            (Told{me() + " create Key: begun | role: - -> observe | label: - -> ci (cut) | lifetime: - -> 60 s", me() + " create Key id0: done"}));
  EXPECT_EQ(call("POST", "/admin/v1/keys/id0/rotate", R"({"overlapSeconds":5})").status, 200);
  EXPECT_EQ(told(), (Told{me() + " rotate Key id0: begun | overlap: 5 s", me() + " rotate Key id0: done"}));
  EXPECT_EQ(call("DELETE", "/admin/v1/keys/id0").status, 200);
  EXPECT_EQ(told(), (Told{me() + " revoke Key id0: begun", me() + " revoke Key id0: done"}));
  EXPECT_EQ(call("DELETE", "/admin/v1/keys/none").status, 404);
  EXPECT_EQ(told(), (Told{me() + " revoke Key none: begun", me() + " revoke Key none: failed KeyNotFound"}));
  for (const std::string& name : auditFolder_.names()) {
    EXPECT_EQ(auditFolder_.bytes(name).find("ctk_"), std::string::npos);
  }
}

TEST_F(Audited, WhatChangesNothingIsNotTold) {
  EXPECT_EQ(call("POST", api(service()), serviceJson("audio", "speech")).status, 201);
  told();
  EXPECT_EQ(call("POST", api(service() + "?dryRun=All"), serviceJson("audio", "more")).status, 201);
  EXPECT_EQ(call("PATCH", api(service("speech") + "?dryRun=All"), R"({"spec":{"weight":7}})").status, 200);
  EXPECT_EQ(call("DELETE", api(service("speech") + "?dryRun=All")).status, 200);
  EXPECT_EQ(call("POST", api(service()), serviceJson("audio", "speech")).status, 409);
  EXPECT_EQ(call("POST", api(service()), R"({"kind":"nothing"})").status, 400);
  EXPECT_EQ(call("DELETE", api("/tenants/audio")).status, 409);
  EXPECT_EQ(call("GET", api("/tenants")).status, 200);
  EXPECT_EQ(toldAtTheEnd(), Told{});
}

TEST_F(Audited, AChangeThatTheStoreRefusesIsToldToHaveFailed) {
  EXPECT_EQ(call("POST", api(service()), serviceJson("audio", "speech", R"(,"instances":1)")).status, 201);
  // Somebody else writes between the read and the write.
  backend_.onMeasured = [this](const ServiceName&) {
    backend_.onMeasured = nullptr;
    auto object = store_->get({"ModelService", "audio", "speech"});
    object->labels = Value(Value::Map{{"a", "b"}});
    EXPECT_TRUE(store_->update(*object).ok());
  };
  told();
  const auto response = call("PATCH", api(service("speech")), R"({"spec":{"weight":7}})");
  ASSERT_EQ(response.status, 409) << response.body;
  EXPECT_EQ(told().back(), me() + " update ModelService audio/speech: failed " + reason(response));
}

// --- A log that cannot be written ---

TEST_F(Audited, WhileItCannotBeWrittenNothingIsChangedAndReadsGoOn) {
  EXPECT_EQ(call("POST", api(service()), serviceJson("audio", "speech")).status, 201);
  EXPECT_EQ(call("POST", "/admin/v1/keys", R"({"tenant":"audio"})").status, 201);
  const auto before = call("GET", api("/modelservices")).body;
  const auto keysBefore = call("GET", "/admin/v1/keys").body;
  server_.onLoop([this] { auditFolder_.room = 0; });
  struct Change {
    const char* method;
    std::string target, body;
  };
  const std::vector<Change> changes{{"POST", api(service()), serviceJson("audio", "more")},
                                    {"PATCH", api(service("speech")), R"({"spec":{"weight":7}})"},
                                    {"PUT", api(service("speech")), serviceJson("audio", "speech", R"(,"weight":7)")},
                                    {"PUT", api(service("speech") + "/status"), R"({"status":{}})"},
                                    {"DELETE", api(service("speech")), ""},
                                    {"DELETE", api("/tenants/video"), ""},
                                    {"POST", api("/tenants"), tenantJson("new", R"("new")")},
                                    {"POST", "/admin/v1/keys", R"({"tenant":"audio"})"},
                                    {"POST", "/admin/v1/keys/id0/rotate", "{}"},
                                    {"DELETE", "/admin/v1/keys/id0", ""},
                                    {"PUT", "/admin/v1/drc", R"({"on":false})"}};
  for (const Change& change : changes) {
    const auto response = call(change.method, change.target, change.body);
    EXPECT_EQ(response.status, 503) << change.method << " " << change.target << response.body;
    EXPECT_EQ(reason(response), "AuditUnavailable");
    EXPECT_NE(response.body.find("no change is made"), std::string::npos);
  }
  EXPECT_EQ(call("GET", api("/modelservices")).body, before);
  EXPECT_EQ(call("GET", "/admin/v1/keys").body, keysBefore);
  EXPECT_EQ(call("GET", api("/tenants/video")).status, 200);
  EXPECT_TRUE(backend_.revokedAll.empty()) << "a tenant that stays keeps its keys";
  EXPECT_EQ(backend_.mode, DrcMode::On);
  EXPECT_EQ(call("GET", "/admin/v1/audit").status, 200);
  EXPECT_EQ(call("PATCH", api(service("speech") + "?dryRun=All"), R"({"spec":{"weight":7}})").status, 200) << "which changes nothing";
  server_.onLoop([this] { auditFolder_.room = SIZE_MAX; });
  EXPECT_EQ(call("PATCH", api(service("speech")), R"({"spec":{"weight":7}})").status, 200);
}

// --- Refusals ---

// Each way to be refused, by everybody who may be; one that is not told fails here.
TEST_F(Audited, EveryRefusalIsTold) {
  const std::vector<std::pair<const char*, std::string>> targets{
      {"GET", api("/tenants")},
      {"POST", api("/tenants")},
      {"PATCH", api("/tenants/audio")},
      {"DELETE", api("/tenants/audio")},
      {"GET", api("/tenants?watch=1")},
      {"GET", api(service())},
      {"POST", api(service())},
      {"PUT", api(service("speech") + "/status")},
      {"GET", "/admin/v1/top"},
      {"GET", "/admin/v1/events"},
      {"GET", "/admin/v1/audit"},
      {"GET", "/admin/v1/drc"},
      {"PUT", "/admin/v1/drc"},
      {"GET", "/admin/v1/explain/audio/speech"},
      {"GET", "/admin/v1/instances/audio/speech"},
      {"GET", "/admin/v1/logs/audio/speech"},
      {"GET", "/admin/v1/keys"},
      {"POST", "/admin/v1/keys"},
      {"POST", "/admin/v1/keys/id0/rotate"},
      {"DELETE", "/admin/v1/keys/id0"},
  };
  std::int64_t refused = 0;
  for (const auto& [method, target] : targets) {
    EXPECT_EQ(as("audio-infer", method, target, "{}").status, 403) << method << target;
    EXPECT_EQ(as("wrong", method, target, "{}").status, 401);
    refused += 1;
  }
  EXPECT_EQ(call("GET", api("/tenants"), "", {{"Authorization", "Basic x"}}).status, 401);
  std::vector<audit::Entry> lines;
  server_.onLoop([&] {
    server_.destroyServer();
    handler_.reset();
    audit::ChainCheck check;
    for (const std::string& name : auditFolder_.names())
      check.takeFile(name, auditFolder_.bytes(name), [&](const audit::Line& line) {
        if (line.entry.outcome == audit::Outcome::Refused) lines.push_back(line.entry);
      });
  });
  ASSERT_EQ(lines.size(), 3U) << "folded";
  EXPECT_EQ(textOf(lines[0]), "key id-audio-infer list Tenant: refused RoleForbids");
  EXPECT_EQ(lines[0].count, refused);
  EXPECT_EQ(lines[0].tenant, TenantName("audio"));
  EXPECT_EQ(lines[0].actor.role, Role::Infer);
  EXPECT_EQ(textOf(lines[1]), me() + " GET /apis/coterie.dev/v1alpha1/tenants: refused InvalidKey");
  EXPECT_EQ(lines[1].count, refused);
  EXPECT_TRUE(lines[1].tenant.empty());
  EXPECT_EQ(lines[2].reason, "NoKey");
}

// --- Reading it ---

TEST_F(Audited, ATenantReadsItsOwnLinesAndThePlatformAll) {
  EXPECT_EQ(call("POST", api(service()), serviceJson("audio", "speech")).status, 201);
  EXPECT_EQ(call("POST", "/admin/v1/keys", R"({"tenant":"video"})").status, 201);
  EXPECT_EQ(call("PUT", "/admin/v1/drc", R"({"on":false})").status, 200);
  EXPECT_EQ(tenantsIn(call("GET", "/admin/v1/audit")), (std::set<std::string>{"", "audio", "video"}));
  EXPECT_EQ(tenantsIn(as("audio-tenant-admin", "GET", "/admin/v1/audit")), std::set<std::string>{"audio"});
  const auto own = as("video-tenant-admin", "GET", "/admin/v1/audit");
  EXPECT_EQ(tenantsIn(own), std::set<std::string>{"video"});
  EXPECT_EQ(own.body.find("audio"), std::string::npos);
  EXPECT_EQ(as("audio-observe", "GET", "/admin/v1/audit").status, 403);
}

TEST_F(Audited, LinesAreGivenAsTheyAreWrittenAndFromATimeOn) {
  const auto page = decodeAuditPage(json(call("GET", "/admin/v1/audit")));
  std::string all;
  for (const std::string& line : page.lines) all += line + "\n";
  EXPECT_EQ(all, auditFolder_.bytes(page.file));
  EXPECT_TRUE(page.last);
  EXPECT_TRUE(decodeAuditPage(json(call("GET", "/admin/v1/audit?since=2100-01-01T00:00:00Z"))).lines.empty());
  EXPECT_EQ(decodeAuditPage(json(call("GET", "/admin/v1/audit?since=2000-01-01T00:00:00Z"))).lines, page.lines);
  EXPECT_EQ(reason(call("GET", "/admin/v1/audit?since=yesterday")), "BadTime");
  EXPECT_TRUE(decodeAuditPage(json(call("GET", "/admin/v1/audit?from=" + std::to_string(page.next)))).lines.empty());
}

}  // namespace
}  // namespace coterie::admin
