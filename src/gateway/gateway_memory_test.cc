// What the gateway holds in its own memory, who it is counted against, and who is refused when it is too much.
#include <gtest/gtest.h>
#include <zlib.h>

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

// --- Bodies on the tenant's quota ---

// Bodies whose length is not known beforehand: chunked, or compressed.
class Packed : public GatewayTest {
 protected:
  void setQuota(std::int64_t bytes) {
    TenantQuota quota;
    quota.queuedBytes = Bytes(bytes);
    gateway.setTenant(TenantName("a"), {{"na"}, 100, quota});
  }
  static std::string json(int count) {
    std::string body = R"({"inputs":[{"name":"x","shape":[)" + std::to_string(count) + R"(],"datatype":"FP32","data":[1)";
    for (int i = 1; i < count; ++i) body += ",1";
    return body + "]}]}";
  }
  static std::string gzip(const std::string& text) {
    z_stream stream{};
    EXPECT_EQ(::deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string packed(::deflateBound(&stream, text.size()), '\0');
    std::string input = text;
    stream.next_in = reinterpret_cast<Bytef*>(input.data());
    stream.avail_in = static_cast<uInt>(input.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.resize(stream.total_out);
    ::deflateEnd(&stream);
    return packed;
  }
  Sent compressed(const std::string& body) { return infer("m", gzip(body), {{"Content-Encoding", "gzip"}}); }
  [[nodiscard]] std::int64_t queued() { return gateway.snapshot().tenants[0].queuedBytes; }
};

TEST_F(Packed, ACompressedBodyIsChargedWhatItUnpacksTo) {
  publish({"na", "m"}, FakeBackend::Mode::Manual);
  const std::string body = json(400);  // some 850 bytes, packed some 80; its tensor has 1600
  ASSERT_LT(gzip(body).size(), 200U);
  setQuota(3000);
  EXPECT_EQ(compressed(body)->status, 0);  // runs; what runs is not charged
  EXPECT_EQ(queued(), 0);
  EXPECT_EQ(compressed(body)->status, 0);  // waits
  EXPECT_EQ(queued(), 1600);               // the text is given back
  const Sent third = compressed(body);     // 1600 wait, and this one is 850 and 1600
  EXPECT_EQ(third->status, 429) << third->text;
  EXPECT_TRUE(has(third->text, "QueuedBytesExceeded"));
  EXPECT_TRUE(has(third->headers, "Retry-After: "));
  EXPECT_EQ(queued(), 1600);
}

TEST_F(Packed, ABodyThatAloneExceedsTheQuotaIsTooLargeHoweverItComes) {
  FakeBackend& backend = publish({"na", "m"}, FakeBackend::Mode::Manual);
  setQuota(2048);
  const std::vector<Sent> all{infer("m", json(2000)), compressed(json(2000)), infer("m", json(500)), compressed(json(500'000))};
  for (const Sent& each : all) {
    while (each->status == 0) loop.runUntilIdle(), std::this_thread::yield();  // large ones are unpacked beside the loop
    EXPECT_EQ(each->status, 413);
    EXPECT_TRUE(has(each->text, R"("limit":"quota.queuedBytes=2048")")) << each->text;
    EXPECT_FALSE(has(each->headers, "Retry-After"));
  }
  EXPECT_EQ(queued(), 0);
  EXPECT_EQ(gateway.snapshot().bufferedBytes, 0);
  EXPECT_EQ(backend.cells(), 0U);
}

TEST_F(Packed, AnInputLargerThanItsServiceMayQueueIsTooLarge) {
  ServiceSettings settings;
  settings.maxQueuedBytes = Bytes(1024);
  publish({"na", "m"}, FakeBackend::Mode::Manual, settings);
  EXPECT_EQ(infer("m", json(256))->status, 0);
  const Sent large = infer("m", json(257));
  EXPECT_EQ(large->status, 413);
  EXPECT_TRUE(has(large->text, R"("limit":"bytes=1024")")) << large->text;
}

}  // namespace
}  // namespace coterie::gateway
