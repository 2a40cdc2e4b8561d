// From a socket to a real model in a real worker and back; and a worker that is killed under load.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "backends.h"
#include "http/client.h"
#include "http/server.h"

namespace coterie::gateway_bench {
namespace {

class WithWorkers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access(Workers::runtimeLibrary().c_str(), R_OK) != 0)
      GTEST_SKIP() << "no ONNX Runtime at " << Workers::runtimeLibrary() << " (./dev setup fetches it)";
    gateway_ = std::make_unique<gateway::Gateway>(loop_, gateway::GatewayOptions{}, [](std::string_view) -> Result<gateway::Caller> {
      return gateway::Caller{TenantName("tenant"), Role::Infer};
    });
    gateway_->setTenant(TenantName("tenant"), {{"space"}, 100, {}});
    workers_ = std::make_unique<Workers>(loop_, *gateway_);
    auto server = http::Server::listenTcp(loop_, "127.0.0.1", 0, {}, *gateway_);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }
  void TearDown() override {
    server_.reset();
    workers_.reset();
    gateway_.reset();
  }
  // Runs `client` on a thread of its own while the loop turns here; `meanwhile` is asked after each turn.
  void serveWhile(const std::function<void()>& client, const std::function<void()>& meanwhile = [] {}) {
    std::atomic<bool> done{false};
    std::thread thread([&] {
      client();
      done = true;
      loop_.post([] {});
    });
    EXPECT_TRUE(loop_.runUntil([&] { return meanwhile(), done.load(); }, Seconds(60)));
    thread.join();
  }
  [[nodiscard]] http::ClientResponse ask(const std::string& model, const std::string& body,
                                         std::vector<std::pair<std::string, std::string>> headers = {}) const {
    auto client = http::Client::tcp("127.0.0.1", server_->port());
    headers.emplace_back("Authorization", "Bearer key");
    auto answer = client.request({"POST", "/v2/models/" + model + "/infer", std::move(headers), body});
    if (!answer.ok()) return ADD_FAILURE() << answer.error().message, http::ClientResponse{};
    return std::move(*answer);
  }
  [[nodiscard]] std::int64_t running(const std::string& model) const {
    for (const auto& row : gateway_->snapshot().services) {
      if (row.name.name == model) return row.inFlight;
    }
    return 0;
  }

  http::AsioLoop loop_;
  std::unique_ptr<gateway::Gateway> gateway_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(WithWorkers, AModelAnswersOverJsonAndBinary) {
  const Status served = workers_->serve("mean", "mean", 2);
  ASSERT_TRUE(served.ok()) << served.error().message;
  serveWhile([&] {
    const auto json = ask("mean", R"({"inputs":[{"name":"INPUT0","shape":[2,2],"datatype":"FP32","data":[[1,2],[3,5]]}]})");
    EXPECT_EQ(json.status, 200);
    EXPECT_NE(json.body.find(R"("shape":[2,1],"data":[1.5,4])"), std::string::npos) << json.body;
    const std::string header =
        R"({"inputs":[{"name":"INPUT0","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]})";
    const float values[2] = {2, 4};
    const auto binary = ask("mean", header + std::string(reinterpret_cast<const char*>(values), 8),
                            {{"Inference-Header-Content-Length", std::to_string(header.size())}});
    EXPECT_EQ(binary.status, 200);
    float mean = 0;
    ASSERT_GE(binary.body.size(), sizeof mean);
    std::memcpy(&mean, binary.body.data() + binary.body.size() - sizeof mean, sizeof mean);
    EXPECT_EQ(mean, 3);
  });
}

TEST_F(WithWorkers, AKilledWorkerCostsOnlyItsOwnServicesRequests) {
  for (const auto& [name, model] : {std::pair{"victim", "slow_50ms"}, {"other", "identity_fp32"}}) {
    const Status served = workers_->serve(name, model, 1);
    ASSERT_TRUE(served.ok()) << served.error().message;
  }
  std::string row = R"({"inputs":[{"name":"INPUT0","shape":[1,64],"datatype":"FP32","data":[0)";
  for (int i = 1; i < 64; ++i) row += ",0";
  row += "]}]}";
  const std::string small = R"({"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[1]}]})";
  bool killed = false;
  std::atomic<bool> victimAnswered{false};
  http::ClientResponse victim;
  serveWhile(
      [&] {
        std::thread other([&] {
          while (!victimAnswered) EXPECT_EQ(ask("other", small).status, 200);
        });
        victim = ask("victim", row);
        victimAnswered = true;
        other.join();
        EXPECT_EQ(ask("other", small).status, 200);
      },
      [&] {
        if (!killed && running("victim") == 1) killed = ::kill(workers_->pidOf("victim"), SIGKILL) == 0;
      });
  EXPECT_TRUE(killed);
  EXPECT_EQ(victim.status, 503);
  EXPECT_NE(victim.body.find("InstanceCrashed"), std::string::npos) << victim.body;
  EXPECT_FALSE(victim.header("Retry-After").empty());
}

}  // namespace
}  // namespace coterie::gateway_bench
