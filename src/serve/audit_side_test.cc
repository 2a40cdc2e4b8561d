// The gateway's refusals on their way to the audit log.
#include "serve/audit_side.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "audit/chain.h"
#include "testing/fake_log_folder.h"
#include "testing/manual_loop.h"

namespace coterie::serve {
namespace {

class AuditSideTest : public ::testing::Test {
 protected:
  AuditSideTest() {
    auto folder = std::make_unique<testing::FakeLogFolder>();
    folder_ = folder.get();
    side_ = std::make_unique<AuditSide>(std::move(folder), Bytes(64 << 20), control_, gateway_);
  }
  std::vector<audit::Entry> told() {
    std::vector<audit::Entry> entries;
    audit::ChainCheck check;
    for (const std::string& name : folder_->names())
      check.takeFile(name, folder_->bytes(name), [&](const audit::Line& line) { entries.push_back(line.entry); });
    EXPECT_FALSE(check.fault());
    if (!entries.empty()) entries.erase(entries.begin());  // the one that begins the file
    return entries;
  }

  testing::ManualLoop control_;
  testing::ManualLoop gateway_;
  testing::FakeLogFolder* folder_{nullptr};
  std::unique_ptr<AuditSide> side_;
};

TEST_F(AuditSideTest, WhoIsKnownByAKeyIsNamedByItAndOthersByWhereTheyComeFrom) {
  side_->denied({"192.0.2.7", "", "", Role::Infer, "InvalidKey", "infer", "Model", "speech"});
  side_->denied({"192.0.2.7", "4fR2xQ9LmT0a", "audio", Role::Observe, "RoleForbids", "infer", "Model", "speech"});
  side_->denied({"192.0.2.8", "4fR2xQ9LmT0a", "audio", Role::Observe, "RoleForbids", "infer", "Model", "notes"});
  gateway_.advance(Seconds(10));
  EXPECT_TRUE(told().empty()) << "the log is the control loop's";
  control_.runUntilIdle();
  const auto lines = told();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(audit::actorText(lines[0].actor), "192.0.2.7");
  EXPECT_TRUE(lines[0].tenant.empty()) << "nobody's but the platform's";
  EXPECT_FALSE(lines[0].actor.role.has_value());
  EXPECT_EQ(audit::actorText(lines[1].actor), "key 4fR2xQ9LmT0a");
  EXPECT_EQ(lines[1].actor.role, Role::Observe);
  EXPECT_EQ(lines[1].tenant, TenantName("audio"));
  EXPECT_EQ(lines[1].count, 2) << "a key is one, wherever it comes from";
  EXPECT_EQ(lines[1].through, audit::Through::Gateway);
}

TEST_F(AuditSideTest, AnOrderlyEndLosesNothing) {
  side_->tell("start", "0.1.0");
  side_->denied({"192.0.2.7", "", "", Role::Infer, "InvalidKey", "", "", ""});
  side_->handOver();
  control_.runUntilIdle();
  EXPECT_EQ(told().size(), 2U);
  side_->denied({"192.0.2.7", "", "", Role::Infer, "InvalidKey", "", "", ""});
  side_->gatewayEnded();  // no loop turns any more
  EXPECT_EQ(told().size(), 3U);
  EXPECT_EQ(told()[0].verb, "start");
}

}  // namespace
}  // namespace coterie::serve
