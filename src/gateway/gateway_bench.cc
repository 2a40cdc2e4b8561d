// What the gateway itself costs: requests per CPU-second of its process with a backend that answers at once, over real loopback connections.
//
// usage: gateway [--seconds S] [--connections N] [--repetitions R] [--out FILE]. The load comes from a process of its own; CPU time is this process's alone.
// Cases: a tiny request as JSON and as binary, and 600 KB binary tensors with a reply below 1 KB (in GB per CPU-second). Medians of R repetitions, interleaved.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/gateway.h"
#include "http/asio_loop.h"
#include "http/server.h"
#include "testing/bench_report.h"
#include "testing/http_load.h"

namespace {

using namespace coterie;

// Cells from a free list, one lane per connection, the same 4 bytes as answer on the loop's next turn.
class NullBackend final : public ModelBackend {
 public:
  NullBackend(EventLoop& loop, ModelSignature signature, int lanes) : loop_(loop), signature_(std::move(signature)), lanes_(lanes), pool_(std::make_shared<Pool>()) {}

  void setListener(Listener* listener) override {
    if (listener == nullptr) return;
    for (int lane = 0; lane < lanes_; ++lane) listener->laneReady({{InstanceId(0), LaneId(lane)}, LaneClass::Own});
  }
  const ModelSignature& signature() const override { return signature_; }
  Result<std::shared_ptr<InputCell>> allocate(std::size_t bytes) override {
    auto cell = std::make_shared<Cell>(pool_, bytes);
    return std::shared_ptr<InputCell>(std::move(cell));
  }
  void run(const LaneRef&, RunRequest, Completion completion) override {
    waiting_.push_back(std::move(completion));
    if (waiting_.size() > 1) return;
    loop_.post([this] {
      std::vector<Completion> all;
      all.swap(waiting_);
      for (const Completion& each : all) each({std::unique_ptr<Answer>(std::make_unique<FourBytes>()), Micros(1), {}, Micros(1)});
    });
  }
  void terminate(const LaneRef&) override {}

 private:
  struct Pool {
    std::vector<std::vector<std::byte>> free;
  };
  class Cell final : public InputCell {
   public:
    Cell(std::shared_ptr<Pool> pool, std::size_t bytes) : pool_(std::move(pool)) {
      if (!pool_->free.empty()) {
        memory_ = std::move(pool_->free.back());
        pool_->free.pop_back();
      }
      if (memory_.size() < bytes) memory_.resize(bytes);
    }
    ~Cell() override { pool_->free.push_back(std::move(memory_)); }
    std::span<std::byte> bytes() override { return memory_; }

   private:
    std::shared_ptr<Pool> pool_;
    std::vector<std::byte> memory_;
  };
  class FourBytes final : public Answer {
   public:
    std::span<const OutputTensor> outputs() const override { return outputs_; }

   private:
    static constexpr float kValue = 1.5F;
    std::vector<OutputTensor> outputs_{{0, {1}, std::as_bytes(std::span(&kValue, 1))}};
  };

  EventLoop& loop_;
  ModelSignature signature_;
  int lanes_;
  std::shared_ptr<Pool> pool_;
  std::vector<Completion> waiting_;
};

struct Case {
  std::string path;
  std::int64_t tensorBytes{0};
  std::string request;
};

std::string httpRequest(const std::string& model, const std::string& headers, const std::string& body) {
  return "POST /v2/models/" + model + "/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer key\r\n" + headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::vector<Case> cases() {
  const std::string tiny = R"({"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1.5,2.25,-3,4e-3]}]})";
  const auto binary = [](std::int64_t count) {
    const std::string json = R"({"inputs":[{"name":"x","shape":[)" + std::to_string(count) + R"(],"datatype":"FP32","parameters":{"binary_data_size":)" + std::to_string(4 * count) +
                             R"(}}],"parameters":{"binary_data_output":true}})";
    return httpRequest("m", "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n", json + std::string(static_cast<std::size_t>(4 * count), 'x'));
  };
  return {{"rest-json", 16, httpRequest("m", "", tiny)}, {"rest-binary", 16, binary(4)}, {"rest-binary", 602112, binary(150528)}};
}

double cpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Sample {
  double perCpuSecond{0};
  double gigabytesPerCpuSecond{0};
  double perSecond{0};
  double p50Micros{0};
  double p99Micros{0};
  std::int64_t errors{0};
};

class Bench {
 public:
  Bench(testing::HttpLoad& load, int connections)
      : load_(load),
        connections_(connections),
        gateway_(loop_, gateway::GatewayOptions{}, [](std::string_view) -> Result<TenantName> { return TenantName("tenant"); }),
        backend_(loop_, {{{"x", ElementType::Fp32, {kDynamic}, false}}, {{"y", ElementType::Fp32, {1}, false}}}, connections) {
    gateway_.setTenant(TenantName("tenant"), {{"space"}, 100, {}});
    gateway::ServiceSettings settings;
    settings.tenant = TenantName("tenant");
    gateway_.publishService({"space", "m"}, settings, &backend_);
    gateway_.setLanes({"space", "m"}, InstanceId(0), {connections, 0});
  }

  Status listen() {
    auto server = http::Server::listenTcp(loop_, "127.0.0.1", 0, {}, gateway_);
    if (!server) return server.error();
    server_ = std::move(*server);
    return {};
  }

  Result<Sample> measure(const Case& test, Nanos duration) {
    const double before = cpuSeconds();
    if (const Status begun = load_.begin({server_->port(), connections_, duration, test.request}); !begun) return begun.error();
    bool done = false;
    const TimerHandle watch = loop_.whenReadable(load_.resultFd(), [&] { done = true; });
    loop_.runUntil([&] { return done; }, duration + Seconds(30));
    const double cpu = cpuSeconds() - before;
    const auto result = load_.finish();
    if (!result) return result.error();
    const auto count = static_cast<double>(result->requests);
    return Sample{count / cpu, count * static_cast<double>(test.tensorBytes) / cpu * 1e-9, count / (static_cast<double>(result->wall.count()) * 1e-9),
                  static_cast<double>(result->latency.quantile(.5)) * 1e-3, static_cast<double>(result->latency.quantile(.99)) * 1e-3, result->errors};
  }

 private:
  testing::HttpLoad& load_;
  int connections_;
  http::AsioLoop loop_;
  gateway::Gateway gateway_;
  NullBackend backend_;
  std::unique_ptr<http::Server> server_;
};

double median(const std::vector<Sample>& samples, double Sample::*field) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.*field);
  return testing::quantile(values, .5);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = std::strtod(testing::benchOption(argc, argv, "seconds", "2").c_str(), nullptr);
  const int connections = std::atoi(testing::benchOption(argc, argv, "connections", "16").c_str());
  const int repetitions = std::atoi(testing::benchOption(argc, argv, "repetitions", "5").c_str());
  const std::string out = testing::benchOption(argc, argv, "out", "build/bench/gateway.json");
  const auto load = testing::HttpLoad::start();
  if (!load) return std::fprintf(stderr, "error: %s\n", load.error().message.c_str()), 1;
  Bench bench(**load, connections);
  if (const Status listening = bench.listen(); !listening) return std::fprintf(stderr, "error: %s\n", listening.error().message.c_str()), 1;

  const std::vector<Case> all = cases();
  std::map<std::size_t, std::vector<Sample>> samples;
  for (int i = 0; i < repetitions; ++i) {
    for (std::size_t c = 0; c < all.size(); ++c) {
      const auto sample = bench.measure(all[c], Nanos(static_cast<std::int64_t>(seconds * 1e9)));
      if (!sample) return std::fprintf(stderr, "error: %s\n", sample.error().message.c_str()), 1;
      if (sample->errors > 0) std::fprintf(stderr, "warning: %s: %lld errors\n", all[c].path.c_str(), static_cast<long long>(sample->errors));
      samples[c].push_back(*sample);
    }
  }
  testing::BenchReport report("gateway", 1, repetitions);
  for (std::size_t c = 0; c < all.size(); ++c) {
    const std::vector<testing::BenchCase> of{{"path", "null-backend/" + all[c].path}, {"subject", "coterie"}, {"tensor_bytes", all[c].tensorBytes}};
    report.add({"requests_per_cpu_second", "requests/s", median(samples[c], &Sample::perCpuSecond), of, {}, {}});
    report.add({"gigabytes_per_cpu_second", "GB/s", median(samples[c], &Sample::gigabytesPerCpuSecond), of, {}, {}});
    report.add({"requests_per_second", "requests/s", median(samples[c], &Sample::perSecond), of, {}, {}});
    report.add({"latency_p50", "us", median(samples[c], &Sample::p50Micros), of, {}, {}});
    report.add({"latency_p99", "us", median(samples[c], &Sample::p99Micros), of, {}, {}});
  }
  std::fputs(report.table().c_str(), stdout);
  if (const Status written = report.write(out); !written) return std::fprintf(stderr, "error: %s\n", written.error().message.c_str()), 1;
  return 0;
}
