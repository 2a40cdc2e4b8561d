// Keys for a first look, start after start, on a real key store.
#include "serve/demo_keys.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "testing/fake_log_folder.h"
#include "testing/manual_loop.h"

namespace coterie::serve {
namespace {

const TenantName kAudio("audio"), kDocuments("documents");
WallTime day(std::int64_t number) { return {1'700'000'000'000'000 + number * 86'400'000'000}; }

class DemoKeysTest : public ::testing::Test {
 protected:
  DemoKeysTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "coterie-demo-keys-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    auto opened = identity::KeyStore::open(folder_);
    if (!opened.ok()) ADD_FAILURE() << opened.error().message;
    store_ = std::move(*opened);
  }
  ~DemoKeysTest() override { std::filesystem::remove_all(folder_); }

  std::vector<DemoKey> start(std::int64_t number) {
    auto made = makeDemoKeys(*store_, {kAudio, kDocuments}, day(number), trail_);
    EXPECT_TRUE(made.ok());
    return *made;
  }
  bool speaks(const DemoKey& key, std::int64_t number) {
    const auto identity = store_->snapshot()->authenticate(key.key, day(number));
    return identity.ok() && identity->tenant == key.tenant;
  }

  std::string folder_;
  std::unique_ptr<identity::KeyStore> store_;
  testing::FakeLogFolder auditFolder_;
  testing::ManualClock clock_;
  audit::Trail trail_{auditFolder_, clock_};
};

// A server that was started a hundred times showed a hundred revoked keys of each tenant.
TEST_F(DemoKeysTest, StartsLeaveOneKeyOfATenantAndTheLastSecretAloneIsValid) {
  std::vector<DemoKey> before;
  for (int number = 0; number < 5; ++number) {
    const std::vector<DemoKey> made = start(number);
    ASSERT_EQ(made.size(), 2U);
    for (const DemoKey& key : made) EXPECT_TRUE(speaks(key, number));
    for (const DemoKey& key : before) EXPECT_FALSE(speaks(key, number));
    before = made;
    EXPECT_EQ(store_->list(std::nullopt).size(), 2U) << number;
  }
}

TEST_F(DemoKeysTest, TheAuditLogIsToldFirstAndOfNoSecret) {
  const DemoKey made = start(0).front();
  const std::string log = auditFolder_.bytes(audit::fileName(1));
  EXPECT_NE(log.find(R"("verb":"create","kind":"Key","tenant":"audio","result":"begun","changes":["label: - -> quickstart"])"), std::string::npos)
      << log;
  EXPECT_NE(log.find(R"("object":")" + store_->list(kAudio).front().id + R"(","tenant":"audio","result":"done")"), std::string::npos) << log;
  EXPECT_EQ(log.find(made.key.substr(20, 30)), std::string::npos);
  auditFolder_.room = 0;
  const auto refused = makeDemoKeys(*store_, {kAudio}, day(1), trail_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, "AuditUnavailable");
  EXPECT_TRUE(speaks(made, 1)) << "nothing was changed";
}

TEST_F(DemoKeysTest, OthersOfThatLabelAreRevokedAndThoseOfOtherLabelsStay) {
  const auto mine = store_->create(kAudio, Role::Infer, "mine", std::nullopt, day(0));
  const auto brief = store_->create(kAudio, Role::Infer, "quickstart", Seconds(86'400 * 300), day(0));
  const auto observer = store_->create(kAudio, Role::Observe, "quickstart", std::nullopt, day(0));  // rotated, it could not infer
  const auto first = store_->create(kAudio, Role::Infer, "quickstart", std::nullopt, day(1));
  const auto second = store_->create(kAudio, Role::Infer, "quickstart", std::nullopt, day(2));
  ASSERT_TRUE(mine.ok() && brief.ok() && observer.ok() && first.ok() && second.ok());
  const std::vector<DemoKey> made = start(3);
  EXPECT_TRUE(speaks(made.front(), 3));
  EXPECT_TRUE(speaks({kAudio, mine->key}, 3));
  for (const auto& gone : {brief, observer, first, second}) EXPECT_FALSE(speaks({kAudio, gone->key}, 3));
  // What was revoked is listed for a month, as of any key, and then forgotten.
  EXPECT_EQ(store_->list(kAudio).size(), 5U);
  start(34);
  EXPECT_EQ(store_->list(kAudio).size(), 2U);
}

}  // namespace
}  // namespace coterie::serve
