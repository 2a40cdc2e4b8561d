// coterie audit, and audit verify.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "audit/chain.h"
#include "cli/cli_fixture.h"
#include "identity/key_format.h"

namespace coterie::cli {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class AuditCommand : public Cli {
 protected:
  AuditCommand() {
    applyAudio();
    EXPECT_EQ(run({"key", "create", "audio", "--label", "ci"}).code, kOk);
    EXPECT_EQ(run({"scale", "audio/speech", "--instances", "2"}).code, kOk);
  }
  std::string& newest() { return auditFolder_.bytes(auditFolder_.names().back()); }
  // Its lines as files, as they lie in the state folder.
  std::string copied(const std::string& name = "copy.jsonl") { return file(name, newest()); }
};

TEST_F(AuditCommand, ShowsAChangeInOneRow) {
  const Ran shown = run({"audit"});
  ASSERT_EQ(shown.code, kOk) << shown.err;
  EXPECT_TRUE(has(shown.out, "TIME")) << shown.out;
  EXPECT_TRUE(
      has(shown.out, "user " + std::to_string(::geteuid()) + "  audio   admin    update ModelService audio/speech  done    spec.instances: - -> 2"))
      << shown.out;
  EXPECT_TRUE(has(shown.out, "create Key id0")) << "by the id that was known only afterwards: " << shown.out;
  EXPECT_FALSE(has(shown.out, "begun")) << shown.out;
  onLoop([this] { EXPECT_TRUE(trail_->begin({}).ok()); });
  EXPECT_TRUE(has(run({"audit"}).out, "begun, and no end"));
  const Ran last = run({"audit", "--limit", "1"});
  EXPECT_FALSE(has(last.out, "audio/speech"));
  EXPECT_TRUE(has(last.err, "earlier lines are not shown")) << last.err;
}

TEST_F(AuditCommand, SinceIsAnAgeOrATime) {
  for (const char* all : {"1h", "2020-01-31", "2020-01-31T23:59:59Z"}) EXPECT_TRUE(has(run({"audit", "--since", all}).out, "audio/speech")) << all;
  for (const char* none : {"2100-01-31", "2100-01-31T23:59:59Z"}) {
    EXPECT_EQ(run({"audit", "--since", none}).out, "") << none;
    EXPECT_EQ(run({"audit", "--since", none, "--verify"}).code, kOk) << "the chain is followed from its beginning all the same";
  }
  for (const char* bad : {"soon", "2020-13-01", ""}) {
    if (*bad != '\0') {
      EXPECT_EQ(run({"audit", "--since", bad}).code, kUsage) << bad;
    }
  }
  EXPECT_EQ(run({"audit", "--limit", "0"}).code, kUsage);
}

TEST_F(AuditCommand, JsonIsTheLogItself) {
  EXPECT_EQ(run({"audit", "--json"}).out, newest());
  EXPECT_EQ(run({"audit", "-o", "json"}).out, newest());
}

TEST_F(AuditCommand, VerifyFollowsTheChainOnlineAndOffline) {
  const Ran online = run({"audit", "--verify"});
  EXPECT_EQ(online.code, kOk);
  EXPECT_TRUE(has(online.err, "the chain holds: ")) << online.err;
  const std::string copy = copied();
  const Ran offline = run({"audit", "verify", copy});
  EXPECT_EQ(offline.code, kOk) << offline.err;
  EXPECT_EQ(offline.out, online.err);
  stop();
  EXPECT_EQ(run({"audit", "verify", copy}).code, kOk) << "without a server";
  EXPECT_EQ(run({"audit"}).code, kUnreachable);
}

TEST_F(AuditCommand, TheFirstBadLineIsNamed) {
  newest()[newest().find("spec.instances")] = 'x';
  const std::string copy = copied();
  const Ran offline = run({"audit", "verify", copy});
  EXPECT_EQ(offline.code, kFailed);
  const std::string wanted = copy + ":10: its hash does not follow: this line was altered, or the one before it";
  EXPECT_TRUE(has(offline.out, "broken: " + wanted)) << offline.out;
  const Ran online = run({"audit", "--verify"});
  EXPECT_EQ(online.code, kFailed);
  EXPECT_TRUE(has(online.err, "broken: audit-00000001.jsonl:10: ")) << online.err;
}

TEST_F(AuditCommand, AFolderStandsForItsFilesInTheirOrder) {
  const std::string first = newest();
  audit::ChainCheck check;
  ASSERT_TRUE(check.takeFile("first", first));
  audit::Entry begins;
  begins.begins = audit::Begins{2, check.last().hash};
  file("log/audit-00000001.jsonl", first);
  file("log/audit-00000002.jsonl", audit::encode(check.last().sequence + 1, begins, check.last().hash).text + "\n{\"seq\":9");
  file("log/other.txt", "nothing of ours");
  const Ran whole = run({"audit", "verify", folder_ + "/log"});
  EXPECT_EQ(whole.code, kOk) << whole.out;
  EXPECT_TRUE(has(whole.out, "a line that is not whole")) << whole.out;
  const Ran wrongOrder = run({"audit", "verify", folder_ + "/log/audit-00000002.jsonl", folder_ + "/log/audit-00000001.jsonl"});
  EXPECT_EQ(wrongOrder.code, kFailed);
  const Ran late = run({"audit", "verify", folder_ + "/log/audit-00000002.jsonl"});
  EXPECT_TRUE(has(late.out, "are not here")) << late.out;
  fs::create_directory(folder_ + "/empty");
  EXPECT_EQ(run({"audit", "verify", folder_ + "/empty"}).code, kNotFound);
  EXPECT_EQ(run({"audit", "verify", folder_ + "/none"}).code, kNotFound);
  EXPECT_EQ(run({"audit", "verify"}).code, kUsage);
}

TEST_F(AuditCommand, AHashThatWasNotedIsLookedFor) {
  audit::ChainCheck check;
  ASSERT_TRUE(check.takeFile("", newest()));
  const std::string copy = copied();
  EXPECT_EQ(run({"audit", "verify", copy, "--expect", check.last().hash}).code, kOk);
  const Ran other = run({"audit", "verify", copy, "--expect", audit::noHash()});
  EXPECT_EQ(other.code, kFailed);
  EXPECT_TRUE(has(other.out, "no line has the expected hash"));
}

TEST_F(AuditCommand, AKeySeesAPartThatIsNoChain) {
  identity::Identity caller;
  caller.tenant = TenantName("audio");
  caller.role = Role::TenantAdmin;
  caller.keyId = "id";
  const std::string secret = identity::formatKey(identity::randomKeyId(), identity::randomSecret());
  onLoop([&] { backend_.callers[secret] = caller; });
  const std::string key = file("a.key", secret + "\n");
  fs::permissions(key, fs::perms::owner_read | fs::perms::owner_write);
  const Ran own = run({"--key-file", key, "audit"});
  ASSERT_EQ(own.code, kOk) << own.err;
  EXPECT_TRUE(has(own.out, "update ModelService audio/speech")) << own.out;
  const Ran refused = run({"--key-file", key, "audit", "--verify"});
  EXPECT_EQ(refused.code, kUsage);
  EXPECT_TRUE(has(refused.err, "leave --key-file out")) << refused.err;
}

TEST_F(AuditCommand, IsCompleted) {
  EXPECT_EQ(run({"__complete", "audit", ""}).out, "verify\n");
  EXPECT_TRUE(has(run({"__complete", "audit", "--s"}).out, "--since"));
  EXPECT_TRUE(has(run({"__complete", "audit", "--json", "--v"}).out, "--verify"));
  EXPECT_TRUE(has(run({"__complete", "audit", "verify", "--e"}).out, "--expect"));
}

}  // namespace
}  // namespace coterie::cli
