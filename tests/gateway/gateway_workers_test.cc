// From a socket to a real model in a real worker and back; and a worker that is killed under load.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
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

std::string lookup(int id, int rows) {
  std::string ids;
  std::string x;
  for (int i = 0; i < rows; ++i) {
    ids += (i > 0 ? "," : "") + std::to_string(id);
    x += (i > 0 ? "," : "") + std::to_string(i) + ",0.5,-3,1e3";
  }
  const std::string n = std::to_string(rows);
  return R"({"inputs":[{"name":"ids","shape":[)" + n + R"(],"datatype":"INT64","data":[)" + ids + R"(]},{"name":"x","shape":[)" + n +
         R"(,4],"datatype":"FP32","data":[)" + x + "]}]}";
}

// Many at one lane: most run as one with others, all are answered what they are answered alone, and one that the model cannot run is nobody else's
// fault.
TEST_F(WithWorkers, RequestsThatRunAsOneAreAnsweredAsAlone) {
  const Status served = workers_->serve("batched", "lookup", 1, 8);
  ASSERT_TRUE(served.ok()) << served.error().message;
  constexpr int kClients = 16;
  const auto batches = [&] {
    const auto all = gateway_->snapshot().services;
    return all.at(0).runs.runs() - all.at(0).runs.of(1).runs;
  };
  std::atomic<bool> enough{false};
  std::atomic<int> wrong{0};
  serveWhile(
      [&] {
        std::vector<std::string> alone;
        for (int i = 0; i < kClients; ++i) alone.push_back(ask("batched", lookup(i, 1 + i % 5)).body);
        EXPECT_EQ(ask("batched", lookup(99, 1)).status, 400) << "no such row";
        std::vector<std::thread> clients;
        for (int i = 0; i < kClients; ++i) {
          clients.emplace_back([&, i] {
            do {
              const auto answer = ask("batched", lookup(i, 1 + i % 5));
              wrong += answer.status != 200 || answer.body != alone[static_cast<std::size_t>(i)];
              if (i == 0) wrong += ask("batched", lookup(99, 2)).status != 400;
            } while (!enough);
          });
        }
        for (std::thread& client : clients) client.join();
      },
      [&] { enough = batches() >= 50; });
  EXPECT_GE(batches(), 50);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(running("batched"), 0);
}

TEST_F(WithWorkers, AModelWhoseRowsAreNotIndependentServesOneByOne) {
  const Status served = workers_->serve("maxima", "column_maxima", 1, 8);
  ASSERT_TRUE(served.ok()) << served.error().message;
  std::atomic<int> wrong{0};
  const auto runs = [&] { return gateway_->snapshot().services.at(0).runs; };
  std::atomic<bool> enough{false};
  serveWhile(
      [&] {
        std::vector<std::thread> clients;
        for (int i = 0; i < 8; ++i) {
          clients.emplace_back([&, i] {
            const std::string n = std::to_string(i);
            do {
              const auto answer = ask("maxima", R"({"inputs":[{"name":"INPUT0","shape":[1,2],"datatype":"FP32","data":[3,)" + n + "]}]}");
              wrong += answer.status != 200 || answer.body.find(R"("data":[3,)" + n + "]") == std::string::npos;
            } while (!enough);
          });
        }
        for (std::thread& client : clients) client.join();
      },
      [&] { enough = enough || runs().runs() > 500; });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(runs().runs(), runs().of(1).runs) << "the first answer to one alone shows it";
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
