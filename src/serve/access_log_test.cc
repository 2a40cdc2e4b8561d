// The access log's line: what it has, and what it never has.
#include "serve/access_log.h"

#include <gtest/gtest.h>

namespace coterie::serve {
namespace {

TEST(AccessLog, ALineHasAllOfARequestAndIsJson) {
  const http::Peer peer{http::Peer::Kind::Remote, {192, 0, 2, 7}, false, {}};
  const gateway::Access access{R"(r"1\)", "audio", "AbC123", "audio", "speech", 200, "", 640, 412, Micros(125), Micros(3250), peer};
  EXPECT_EQ(accessLine(access, WallTime{1'796'040'000'000'000}),
            R"({"time":"2026-11-30T12:00:00.000000Z","requestId":"r\"1\\","tenant":"audio","keyId":"AbC123","service":"audio/speech","status":200,)"
            R"("reason":"","bytesIn":640,"bytesOut":412,"queueMs":0.125,"runMs":3.250,"source":"192.0.2.7"})");
}

TEST(AccessLog, ARefusalOfNobodyHasNoService) {
  const http::Peer peer{http::Peer::Kind::Loopback, {}, false, {}};
  const gateway::Access access{"r", "", "", "", "", 401, "InvalidKey", 0, 88, Nanos(-5), Nanos(0), peer};
  EXPECT_EQ(accessLine(access, WallTime{0}),
            R"({"time":"1970-01-01T00:00:00.000000Z","requestId":"r","tenant":"","keyId":"","service":"","status":401,"reason":"InvalidKey",)"
            R"("bytesIn":0,"bytesOut":88,"queueMs":0.000,"runMs":0.000,"source":"loopback"})");
}

TEST(AccessLog, AFileThatCannotBeMadeNamesTheOption) {
  const auto made = AccessLog::create("/proc/none/access.log");
  ASSERT_FALSE(made.ok());
  EXPECT_TRUE(made.error().message.starts_with("--access-log: /proc/none/access.log cannot be written")) << made.error().message;
}

}  // namespace
}  // namespace coterie::serve
