// The gateway over real connections: the repository's client suite (stock tritonclient, sync and asyncio, and bytes on the wire), and clients that
// misbehave.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gateway/gateway.h"
#include "http/asio_loop.h"
#include "http/client.h"
#include "testing/fake_backend.h"

extern char** environ;

namespace coterie::gateway {
namespace {

using testing::FakeBackend;

// Services identity-<type> of one tenant, served from a loop on a thread of its own.
class Served : public ::testing::Test {
 protected:
  void SetUp() override {
    gateway_ = std::make_unique<Gateway>(loop_, options_, [](std::string_view key) -> Result<Caller> {
      if (key == "ctk_test") return Caller{TenantName("tenant"), Role::Infer};
      if (key == "ctk_other") return Caller{TenantName("other"), Role::Infer};
      return Error{Code::Unauthenticated, "InvalidKey", "unknown key"};
    });
    gateway_->setTenant(TenantName("tenant"), {{"space"}, 100, {}});
    gateway_->setTenant(TenantName("other"), {{"elsewhere"}, 100, {}});
    for (int i = 0; i < kElementTypes; ++i) publish(static_cast<ElementType>(i), "space", "tenant");
    publish(ElementType::Int8, "elsewhere", "other");
    http::ServerOptions options;
    options.limits.bodyIdleTimeout = bodyIdle_;
    auto server = http::Server::listenTcp(loop_, "127.0.0.1", 0, options, *gateway_);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_.run(); });
  }
  void TearDown() override {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
    server_.reset();
    gateway_.reset();
  }
  void publish(ElementType type, const std::string& nameSpace, const std::string& tenant) {
    std::string name = "identity-";
    for (const char c : elementTypeName(type)) name += static_cast<char>(std::tolower(c));
    backends_.push_back(std::make_unique<FakeBackend>(
        loop_, ModelSignature{{{"INPUT0", type, {kDynamic, kDynamic}, false}}, {{"OUTPUT0", type, {kDynamic, kDynamic}, false}}},
        FakeBackend::Mode::Echo));
    ServiceSettings settings;
    settings.tenant = TenantName(tenant);
    gateway_->publishService({nameSpace, name}, settings, backends_.back().get());
    gateway_->setLanes({nameSpace, name}, InstanceId(1), {2, 0});
    for (int lane = 0; lane < 2; ++lane) backends_.back()->addLane(1, lane);
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  // Asks on the loop's thread.
  template <typename Ask>
  [[nodiscard]] auto onLoop(Ask ask) {
    std::promise<decltype(ask())> answer;
    loop_.post([&] { answer.set_value(ask()); });
    return answer.get_future().get();
  }
  [[nodiscard]] std::size_t cellsAlive() {
    return onLoop([&] {
      std::size_t all = 0;
      for (const auto& backend : backends_) all += backend->cells();
      return all;
    });
  }

  GatewayOptions options_;
  Millis bodyIdle_{300};
  http::AsioLoop loop_;
  std::vector<std::unique_ptr<FakeBackend>> backends_;
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
};

TEST_F(Served, StockClientsPassTheirSuite) {
  const char* cache = std::getenv("COTERIE_CACHE");
  const char* user = std::getenv("HOME");
  const std::string home = cache != nullptr ? cache : std::string(user != nullptr ? user : "") + "/.cache/coterie";
  const std::string python = home + "/venv/bin/python";
  const std::string script = std::string(COTERIE_SOURCE_DIR) + "/tests/clients/oip_clients.py";
  if (::access(python.c_str(), X_OK) != 0 || ::access((home + "/venv/lib").c_str(), R_OK) != 0)
    GTEST_SKIP() << "no Python environment with tritonclient at " << home << "/venv (./dev setup makes it)";
  const std::string address = url();
  std::vector<const char*> arguments{python.c_str(), script.c_str(), "--url", address.c_str(), "--key", "ctk_test", nullptr};
  std::vector<char*> argv;
  for (const char* argument : arguments) argv.push_back(const_cast<char*>(argument));
  pid_t child = -1;
  ASSERT_EQ(::posix_spawn(&child, python.c_str(), nullptr, nullptr, argv.data(), environ), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "run: " << python << " " << script << " -v";
  EXPECT_EQ(cellsAlive(), 0U);
}

TEST_F(Served, ASlowClientLosesItsConnectionAndHoldsNoCell) {
  auto slow = http::Client::tcp("127.0.0.1", server_->port());
  const std::string json = R"({"inputs":[{"name":"INPUT0","shape":[1,1000],"datatype":"FP32","parameters":{"binary_data_size":4000}}]})";
  ASSERT_TRUE(
      slow.sendRaw("POST /v2/models/identity-fp32/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ctk_test\r\nInference-Header-Content-Length: " +
                   std::to_string(json.size()) + "\r\nContent-Length: " + std::to_string(json.size() + 4000) + "\r\n\r\n" + json + "only some")
          .ok());
  const auto answer = slow.receive();  // waits for the server's own time-out
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->status, 408);
  EXPECT_EQ(cellsAlive(), 0U);
  auto other = http::Client::tcp("127.0.0.1", server_->port());
  const auto fine = other.request({"POST",
                                   "/v2/models/identity-fp32/infer",
                                   {{"Authorization", "Bearer ctk_test"}},
                                   R"({"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[2]}]})"});
  ASSERT_TRUE(fine.ok());
  EXPECT_EQ(fine->status, 200);
}

// A watch for the client's leaving was under way when the next request came, and its bytes were looked for in the wrong place.
TEST_F(Served, RequestsOfOneConnectionAreNotMixedUp) {
  auto client = http::Client::tcp("127.0.0.1", server_->port());
  for (int i = 0; i < 500; ++i) {
    const std::string id = std::string(static_cast<std::size_t>(i), 'i') + std::to_string(i);
    const auto answer = client.request({"POST",
                                        "/v2/models/identity-int64/infer",
                                        {{"Authorization", "Bearer ctk_test"}},
                                        R"({"id":")" + id + R"(","inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"INT64","data":[7]}]})"});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    ASSERT_NE(answer->body.find("\"id\":\"" + id + "\""), std::string::npos) << answer->body;
  }
}

TEST_F(Served, PipelinedRequestsAreAnsweredInOrder) {
  auto client = http::Client::tcp("127.0.0.1", server_->port());
  std::string all;
  for (int i = 0; i < 20; ++i) {
    const std::string body =
        R"({"id":")" + std::to_string(i) + R"(","inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"INT64","data":[)" + std::to_string(i) + "]}]}";
    all += "POST /v2/models/identity-int64/infer HTTP/1.1\r\nHost: x\r\nX-API-Key: ctk_test\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  ASSERT_TRUE(client.sendRaw(all).ok());
  for (int i = 0; i < 20; ++i) {
    const auto answer = client.receive();
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_NE(answer->body.find("\"id\":\"" + std::to_string(i) + "\""), std::string::npos);
  }
}

class Patient : public Served {
 protected:
  Patient() { bodyIdle_ = Seconds(60); }
};

// The quota was not charged for chunked bodies: they could take all of the gateway's buffers.
TEST_F(Patient, AChunkedBodyIsChargedWhileItGrows) {
  TenantQuota quota;
  quota.queuedBytes = Bytes(1 << 20);
  (void)onLoop([&] { return gateway_->setTenant(TenantName("tenant"), {{"space"}, 100, quota}), 0; });
  const auto start = [&](http::Client& client) {
    ASSERT_TRUE(client
                    .sendRaw("POST /v2/models/identity-int8/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ctk_test\r\n"
                             "Transfer-Encoding: chunked\r\n\r\n80000\r\n" +
                             std::string(0x80000, ' ') + "\r\n")
                    .ok());
  };
  const auto charged = [&] {
    return onLoop([&] {
      const auto tenants = gateway_->snapshot().tenants;
      return std::find_if(tenants.begin(), tenants.end(), [](const auto& row) { return row.tenant == TenantName("tenant"); })->queuedBytes;
    });
  };
  auto first = http::Client::tcp("127.0.0.1", server_->port());
  start(first);
  while (charged() < 0x80000) std::this_thread::yield();
  auto second = http::Client::tcp("127.0.0.1", server_->port());
  start(second);  // both together are too much
  const auto refused = second.receive();
  ASSERT_TRUE(refused.ok()) << refused.error().message;
  EXPECT_EQ(refused->status, 429) << refused->body;
  EXPECT_NE(refused->body.find("quota.queuedBytes=1048576"), std::string::npos) << refused->body;
  (void)first.sendRaw("80001\r\n" + std::string(0x80001, ' ') + "\r\n");  // and this one alone is
  const auto large = first.receive();
  ASSERT_TRUE(large.ok()) << large.error().message;
  EXPECT_EQ(large->status, 413) << large->body;
  while (charged() > 0) std::this_thread::yield();
}

// --- Clients that do not read ---

class WithSmallBuffers : public Served {
 protected:
  static constexpr std::int64_t kBound = 48 << 20;
  static constexpr std::size_t kLarge = 12 << 20;  // beyond what the sockets' own buffers take
  WithSmallBuffers() { options_.maxBufferedBytes = Bytes(kBound); }
  [[nodiscard]] static http::ClientRequest echo(const std::string& key, std::size_t bytes) {
    const std::string json = R"({"inputs":[{"name":"INPUT0","shape":[1,)" + std::to_string(bytes) +
                             R"(],"datatype":"INT8","parameters":{"binary_data_size":)" + std::to_string(bytes) +
                             R"(}}],"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]})";
    return {"POST",
            "/v2/models/identity-int8/infer",
            {{"Authorization", "Bearer " + key}, {"Inference-Header-Content-Length", std::to_string(json.size())}},
            json + std::string(bytes, 'x')};
  }
  [[nodiscard]] RequestCounts answered() {
    return onLoop([&] {
      for (const auto& row : gateway_->snapshot().tenants) {
        if (row.tenant == TenantName("tenant")) return row.requests;
      }
      return RequestCounts{};
    });
  }
};

// Sixty such connections had the gateway hold 1.15 GB.
TEST_F(WithSmallBuffers, ClientsThatNeverReadHoldABoundedAmountAndOthersAreServed) {
  constexpr int kClients = 60;
  const http::ClientRequest request = echo("ctk_test", kLarge);
  std::string bytes = "POST " + request.target + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(request.body.size()) + "\r\n";
  for (const auto& [name, value] : request.headers) bytes.append(name).append(": ").append(value).append("\r\n");
  bytes += "\r\n" + request.body;
  std::vector<http::Client> deaf;
  for (int i = 0; i < kClients; ++i) {
    deaf.push_back(http::Client::tcp("127.0.0.1", server_->port()));
    (void)deaf.back().sendRaw(bytes);  // refused ones may be cut within their body
    ASSERT_LE(onLoop([&] { return gateway_->snapshot().bufferedBytes; }), kBound);
  }
  while (answered().answered() < kClients) std::this_thread::yield();
  EXPECT_LE(onLoop([&] { return gateway_->snapshot().bufferedBytes; }), kBound);
  EXPECT_LE(cellsAlive() * kLarge, static_cast<std::size_t>(kBound));
  EXPECT_GT(answered().of(503), 0);

  auto other = http::Client::tcp("127.0.0.1", server_->port());
  const auto fine = other.request(echo("ctk_other", kLarge));
  ASSERT_TRUE(fine.ok()) << fine.error().message;
  EXPECT_EQ(fine->status, 200);
  const auto refused = http::Client::tcp("127.0.0.1", server_->port()).request(echo("ctk_test", 64 << 10));
  ASSERT_TRUE(refused.ok()) << refused.error().message;
  EXPECT_TRUE(refused->status == 200 ||
              (refused->status == 503 && refused->header("Coterie-Reason") == "BuffersFull" && !refused->header("Retry-After").empty()))
      << refused->status << refused->body;
  deaf.clear();
  while (onLoop([&] { return gateway_->snapshot().bufferedBytes; }) > 0) std::this_thread::yield();
  EXPECT_EQ(cellsAlive(), 0U);
}

}  // namespace
}  // namespace coterie::gateway
