// What the gateway holds in its own memory, who it is counted against, and who is refused when it is too much.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "gateway/gateway_fixture.h"

namespace coterie::gateway {
namespace {

constexpr std::int64_t kBound = 1 << 20;

class SmallBuffers : public GatewayTest {
 protected:
  SmallBuffers() : GatewayTest(options()) {}
  static GatewayOptions options() {
    GatewayOptions options;
    options.maxBufferedBytes = Bytes(kBound);
    return options;
  }
  // An echo of so many bytes, binary both ways.
  Sent echo(const std::string& tenant, std::size_t bytes, bool reads) {
    const std::string json = R"({"inputs":[{"name":"x","shape":[)" + std::to_string(bytes / 4) +
                             R"(],"datatype":"FP32","parameters":{"binary_data_size":)" + std::to_string(bytes) +
                             R"(}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
    auto context =
        std::make_shared<FakeContext>(http::Method::Post, "/v2/models/m/infer",
                                      std::vector<std::pair<std::string, std::string>>{
                                          {"X-API-Key", "key-" + tenant}, {"Inference-Header-Content-Length", std::to_string(json.size())}},
                                      json + std::string(bytes, '\1'));
    context->reads = reads;
    gateway.onRequest(context);
    loop.runUntilIdle();
    return context;
  }
  [[nodiscard]] std::int64_t buffered() const { return gateway.snapshot().bufferedBytes; }
};

TEST_F(SmallBuffers, AnswersThatNobodyReadsAreBoundedAndCostOnlyTheirOwnTenant) {
  FakeBackend& mine = publish({"na", "m"}, FakeBackend::Mode::Echo);
  publish({"nb", "m"}, FakeBackend::Mode::Echo);
  std::vector<Sent> deaf;
  for (int i = 0; i < 60; ++i) {
    deaf.push_back(echo("a", 100'000, false));
    ASSERT_LE(buffered(), kBound);
  }
  EXPECT_EQ(deaf.front()->status, 200);
  EXPECT_EQ(deaf.back()->status, 503);
  EXPECT_TRUE(has(deaf.back()->text, R"("reason":"BuffersFull","limit":"bytes=1048576")")) << deaf.back()->text;
  EXPECT_TRUE(has(deaf.back()->headers, "Retry-After: "));
  EXPECT_LE(mine.cells(), 7U);  // half of the bound, and one more

  const Sent other = echo("b", 300'000, true);
  EXPECT_EQ(other->status, 200);
  for (const Sent& each : deaf) each->read();
  EXPECT_EQ(buffered(), 0);
  EXPECT_EQ(mine.cells(), 0U);
  EXPECT_EQ(echo("a", 100'000, true)->status, 200);
}

TEST_F(SmallBuffers, WorkIsNotDoneForAnAnswerThatWouldBeRefused) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Echo);
  std::vector<Sent> deaf;
  while (deaf.empty() || deaf.back()->status == 200) deaf.push_back(echo("a", kBound / 8, false));
  const auto runs = backend.runCount;
  EXPECT_EQ(echo("a", 400, true)->status, 503);
  EXPECT_EQ(backend.runCount, runs);
}

TEST_F(SmallBuffers, AnswersAsJsonCountWhileTheyAreWrittenAndRead) {
  publish({"na", "m"}, FakeBackend::Mode::Manual);
  std::string body = R"({"inputs":[{"name":"x","shape":[20000],"datatype":"FP32","data":[1.25)";
  for (int i = 1; i < 20'000; ++i) body += ",1.25";
  const auto context = std::make_shared<FakeContext>(http::Method::Post, "/v2/models/m/infer",
                                                     std::vector<std::pair<std::string, std::string>>{{"X-API-Key", "key-a"}}, body + "]}]}");
  context->reads = false;
  gateway.onRequest(context);
  while (backends.front()->running().empty()) loop.runUntilIdle(), std::this_thread::yield();
  EXPECT_EQ(buffered(), 0);  // the text of the request is given back
  backends.front()->finish(1, 0);
  EXPECT_GE(buffered(), 80'000);
  while (context->status == 0) loop.runUntilIdle(), std::this_thread::yield();
  EXPECT_EQ(context->status, 200);
  EXPECT_GE(buffered(), static_cast<std::int64_t>(context->text.size()));
  context->read();
  EXPECT_EQ(buffered(), 0);
}

}  // namespace
}  // namespace coterie::gateway
