#include "audit/line.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "audit/changes.h"
#include "text/text.h"

namespace coterie::audit {
namespace {

Entry change() {
  Entry entry;
  entry.time = {1'767'225'600'000'001};
  entry.through = Through::Admin;
  entry.actor = {Actor::Kind::Key, "4fR2xQ9LmT0a", TenantName("audio"), Role::TenantAdmin};
  entry.verb = "update";
  entry.kind = "ModelService";
  entry.object = "audio/speech";
  entry.tenant = TenantName("audio");
  entry.outcome = Outcome::Begun;
  entry.changes = {"spec.weight: 100 -> 120"};
  return entry;
}

TEST(AuditLine, ReadsAsItIsDocumented) {
  const Sealed line = encode(7, change(), noHash());
  EXPECT_EQ(line.text,
            R"({"seq":7,"time":"2026-01-01T00:00:00.000001Z","through":"admin","actor":{"kind":"key","id":"4fR2xQ9LmT0a","tenant":"audio",)"
            R"("role":"tenant-admin"},"verb":"update","kind":"ModelService","object":"audio/speech","tenant":"audio","result":"begun",)"
            R"("changes":["spec.weight: 100 -> 120"],"hash":")" +
                line.hash + "\"}");
  EXPECT_EQ(hashAfter(noHash(), line.text), line.hash);
  EXPECT_NE(hashAfter(std::string(kHashDigits, '1'), line.text), line.hash) << "the line before counts";
}

// Computed by another program: printf '%064d{"seq":1,...}' 0 | sha256sum. Whoever checks the log without Coterie must find the same.
TEST(AuditLine, TheHashIsTheOneThatOthersCompute) {
  Entry entry;
  entry.time = {0};
  entry.verb = "start";
  const Sealed line = encode(1, entry, noHash());
  EXPECT_EQ(line.text.substr(0, line.text.size() - kHashDigits - 11),
            R"({"seq":1,"time":"1970-01-01T00:00:00.000000Z","through":"server","actor":{"kind":"server"},"verb":"start","result":"noted")");
  EXPECT_EQ(line.hash, "9c96bc5342b8bfb5249820f8023236378f63c1e4e5e179d670a6fe94af31a369");
}

TEST(AuditLine, EveryMemberIsReadAsItWasWritten) {
  Entry refused;
  refused.time = {1'767'225'610'000'000};
  refused.since = {1'767'225'600'000'000};
  refused.through = Through::Gateway;
  refused.actor = {Actor::Kind::Source, "2001:db8:1:2::/64", {}, {}};
  refused.outcome = Outcome::Refused;
  refused.reason = "InvalidKey";
  refused.count = 12;
  Entry failed = change();
  failed.outcome = Outcome::Failed;
  failed.of = 7;
  failed.reason = "StoreFull";
  Entry begins;
  begins.time = {1};
  begins.begins = Begins{3, std::string(kHashDigits, 'a')};
  for (const Entry& entry : {change(), refused, failed, begins}) {
    const Sealed line = encode(9, entry, noHash());
    const auto read = decode(line.text);
    ASSERT_TRUE(read.ok()) << line.text << read.error().message;
    EXPECT_EQ(read->entry, entry) << line.text;
    EXPECT_EQ(read->sequence, 9U);
    EXPECT_EQ(read->hash, line.hash);
  }
}

TEST(AuditLine, WhatIsNoLineIsRefusedWithTheReason) {
  const std::string good = encode(7, change(), noHash()).text;
  const std::vector<std::string> bad{
      "",
      "{}",
      good.substr(0, good.size() - 1),
      good + " ",
      " " + good,
      std::string(good).replace(good.find("\"begun\""), 7, "\"great\""),
      std::string(good).replace(good.find("\"seq\":7"), 7, "\"seq\":0"),
      std::string(good).replace(good.find("\"seq\":7"), 7, "\"seq\":x"),
      std::string(good).replace(good.find(",\"verb\""), 1, ", "),
      std::string(good).replace(good.find("\"verb\""), 6, "\"verse\""),
      std::string(good).replace(good.size() - 5, 1, "G"),
      "{\"a\":" + std::string(kMostLine, '1') + good,
  };
  for (const std::string& text : bad) {
    const auto read = decode(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().reason, "NoAuditLine");
    EXPECT_FALSE(read.error().message.empty());
  }
}

TEST(AuditLine, NoTextBreaksALineOrATerminal) {
  EXPECT_EQ(cleanText("a\nb\x1b[31m\xc2\x9b c\xff\xc3\xa9"), "a?b?[31m?? c?\xc3\xa9");
  EXPECT_EQ(cleanText("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(cleanText("abcdefghi", 8), "abcde...");
  EXPECT_EQ(cleanText("abcd\xc3\xa9ghi", 8), "abcd...") << "no half character";
  Entry entry = change();
  entry.object = std::string(100'000, '"');
  entry.changes.assign(1000, std::string(5000, '\\'));
  const std::string text = encode(kMostSequence, entry, noHash()).text;
  EXPECT_LT(text.size(), kMostLine);
  EXPECT_TRUE(decode(text).ok());
}

RC_GTEST_PROP(AuditLineProperties, AnyTextIsReadBackAsItWasWritten, (std::string object, std::vector<std::string> changes, std::string id)) {
  Entry entry = change();
  entry.object = object;
  entry.changes = changes;
  entry.actor.id = id;
  const Sealed line = encode(1, entry, noHash());
  RC_ASSERT(line.text.find('\n') == std::string::npos);
  const auto read = decode(line.text);
  RC_ASSERT(read.ok());
  RC_ASSERT(encode(1, read->entry, noHash()).text == line.text);
}

// --- What changed ---

std::vector<std::string> between(const std::string& before, const std::string& after) {
  const auto value = [](const std::string& text) { return text.empty() ? Value() : *text::parseJson(text); };
  return changesBetween(value(before), value(after));
}
using Texts = std::vector<std::string>;

TEST(AuditChanges, SayPathOldAndNew) {
  EXPECT_EQ(between(R"({"spec":{"weight":100,"same":1}})", R"({"spec":{"weight":120,"same":1}})"), Texts{"spec.weight: 100 -> 120"});
  EXPECT_EQ(between(R"({"spec":{"quota":{"cpus":4}}})", R"({"spec":{"band":"high"}})"), (Texts{"spec.band: - -> high", "spec.quota.cpus: 4 -> -"}));
  EXPECT_EQ(between(R"({"consumers":["a"]})", R"({"consumers":["a","b"]})"), Texts{R"(consumers: ["a"] -> ["a","b"])"});
  EXPECT_EQ(between(R"({"x":[{"a":1},{"a":2}]})", R"({"x":[{"a":1},{"a":3}]})"), Texts{"x[1].a: 2 -> 3"});
  EXPECT_EQ(between("", R"({"a":{"b":true}})"), Texts{"a.b: - -> true"});
  EXPECT_EQ(between(R"({"a":1})", R"({"a":1,"labels":{}})"), Texts{});
  EXPECT_EQ(between(R"({"a":[]})", R"({"a":["b"]})"), Texts{R"(a: [] -> ["b"])"});
}

TEST(AuditChanges, CutSecrets) {
  const std::string secret = "hunter2";
  for (const char* member : {"password", "clientSecret", "API_TOKEN", "credentials"}) {
    const std::string name = member;
    EXPECT_EQ(between("{\"" + name + "\":\"old\"}", "{\"" + name + "\":\"" + secret + "\"}"), Texts{name + ": (cut) -> (cut)"});
    EXPECT_EQ(between("", "{\"" + name + "\":{\"value\":\"" + secret + "\"}}"), Texts{name + ".value: - -> (cut)"}) << "and what is below it";
  }
  EXPECT_EQ(between("", R"({"note":"it is ctk_4fR2xQ9LmT0a_AAAA_BBBB, keep it"})"), Texts{"note: - -> it is (cut), keep it"});
  EXPECT_EQ(between("", R"({"uri":"https://me:hunter2@host/a@b"})"), Texts{"uri: - -> https://(cut)@host/a@b"});
  EXPECT_EQ(withoutSecrets("https://host/a@b"), "https://host/a@b");
  EXPECT_EQ(withoutSecrets("ctk_"), "(cut)");
}

TEST(AuditChanges, StayShort) {
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += (i == 0 ? "\"m" : ",\"m") + std::to_string(i) + "\":" + std::to_string(i);
  const Texts texts = between("", many + "}");
  ASSERT_EQ(texts.size(), kMostChanges);
  EXPECT_EQ(texts.back(), "and 77 more");
  const Texts longOne = between("", "{\"" + std::string(500, 'n') + "\":\"" + std::string(5000, 'x') + "\"}");
  EXPECT_LE(longOne.at(0).size(), kMostText);
}

}  // namespace
}  // namespace coterie::audit
