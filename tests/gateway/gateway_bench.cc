// What a request costs: the gateway's process alone over a backend that answers at once, and the whole tree of processes with real workers.
//
// usage: gateway [--seconds S] [--connections N] [--repetitions R] [--lanes L] [--half-load] [--batching] [--out FILE]
// The load comes over real loopback connections from a process of its own, whose CPU time does not count. Cases:
//   null-backend/rest-json, rest-binary   a tiny request; 600 KB binary tensors with a reply below 1 KB
//   tree/rest-binary                      the same through a worker: identity of 16 bytes; the mean of 600 KB
//   tree/half-load                        MobileNetV2 on L lanes (default: one per CPU), open loop at half of the rate that a closed loop reached
//                                         (--half-load: only this); added_p99 is the requests' p99 less the p99 of the runs themselves, so it
//                                         holds queueing and everything that the gateway adds
//   tree/one-by-one, tree/batched         a fully connected model of 25 MB on one lane, 32 connections, without batching and with 32 requests that
//   may
//                                         run as one, ABBA (--batching: only this); batching_gain is the median of the pairs' ratios of requests/s
// Medians of R repetitions, interleaved.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends.h"
#include "gateway/gateway.h"
#include "http/server.h"
#include "testing/bench_report.h"
#include "testing/http_load.h"

namespace coterie::gateway_bench {
namespace {

constexpr int kDenseClients = 32;

struct Case {
  std::string path;
  std::int64_t tensorBytes{0};
  std::string request;
  double rate{0};
};

std::string httpRequest(const std::string& model, const std::string& headers, const std::string& body) {
  return "POST /v2/models/" + model + "/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer key\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string binaryRequest(const std::string& model, const std::string& input, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(*tensorBytes(ElementType::Fp32, shape));
  const std::string json = R"({"inputs":[{"name":")" + input + R"(","shape":)" + shapeText(shape) +
                           R"(,"datatype":"FP32","parameters":{"binary_data_size":)" + std::to_string(bytes) +
                           R"(}}],"parameters":{"binary_data_output":true}})";
  return httpRequest(model, "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n", json + std::string(bytes, '\0'));
}

std::vector<Case> cases() {
  const std::string tiny = R"({"inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"FP32","data":[1.5,2.25,-3,4e-3]}]})";
  return {{"null-backend/rest-json", 16, httpRequest("null", "", tiny)},
          {"null-backend/rest-binary", 16, binaryRequest("null", "INPUT0", {1, 4})},
          {"null-backend/rest-binary", 602112, binaryRequest("null", "INPUT0", {1, 150528})},
          {"tree/rest-binary", 16, binaryRequest("identity", "INPUT0", {1, 4})},
          {"tree/rest-binary", 602112, binaryRequest("mean", "INPUT0", {1, 150528})}};
}

struct Sample {
  double perCpuSecond{0};
  double gigabytesPerCpuSecond{0};
  double perSecond{0};
  double p50Micros{0};
  double p99Micros{0};
  std::int64_t errors{0};
};

double median(const std::vector<Sample>& samples, double Sample::* field) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.*field);
  return testing::quantile(values, .5);
}

class Bench {
 public:
  Bench(testing::HttpLoad& load, int connections)
      : load_(load),
        connections_(connections),
        gateway_(loop_, gateway::GatewayOptions{},
                 [](std::string_view) -> Result<gateway::Caller> { return gateway::Caller{TenantName("tenant"), Role::Infer}; }),
        null_(loop_, {{{"INPUT0", ElementType::Fp32, {kDynamic, kDynamic}, false}}, {{"OUTPUT0", ElementType::Fp32, {kDynamic, 1}, false}}},
              connections),
        workers_(std::make_unique<Workers>(loop_, gateway_)) {
    gateway_.setTenant(TenantName("tenant"), {{"space"}, 100, {}});
    gateway::ServiceSettings settings;
    settings.tenant = TenantName("tenant");
    gateway_.publishService({"space", "null"}, settings, &null_);
    gateway_.setLanes({"space", "null"}, InstanceId(0), {connections, 0});
  }
  ~Bench() {
    server_.reset();
    workers_.reset();
  }

  Status begin(int lanes) {
    for (const auto& [name, model] :
         {std::pair{"identity", "identity_fp32"}, {"mean", "mean"}, {"image", "mobilenet_v2"}, {"image-half", "mobilenet_v2"}}) {
      if (const Status served = workers_->serve(name, model, lanes); !served) return served;
    }
    for (const auto& [name, maxBatch] : {std::pair{"one-by-one", 1}, {"batched", kDenseClients}}) {
      if (const Status served = workers_->serve(name, "mlp_wide", 1, maxBatch); !served) return served;
    }
    auto server = http::Server::listenTcp(loop_, "127.0.0.1", 0, {}, gateway_);
    if (!server) return server.error();
    server_ = std::move(*server);
    return {};
  }

  Result<Sample> measure(const Case& test, Nanos duration, int connections = 0) {
    const auto cpu = [&] { return cpuSecondsOf(::getpid()) + workers_->cpuSeconds(); };
    const double before = cpu();
    if (const Status begun = load_.begin({server_->port(), connections > 0 ? connections : connections_, duration, test.rate, test.request}); !begun)
      return begun.error();
    bool done = false;
    const TimerHandle watch = loop_.whenReadable(load_.resultFd(), [&] { done = true; });
    loop_.runUntil([&] { return done; }, duration + Seconds(30));
    const double used = cpu() - before;
    const auto result = load_.finish();
    if (!result) return result.error();
    const auto count = static_cast<double>(result->requests);
    return Sample{count / used,
                  count * static_cast<double>(test.tensorBytes) / used * 1e-9,
                  count / (static_cast<double>(result->wall.count()) * 1e-9),
                  static_cast<double>(result->latency.quantile(.5)) * 1e-3,
                  static_cast<double>(result->latency.quantile(.99)) * 1e-3,
                  result->errors};
  }

  // Requests to a run, since the beginning.
  [[nodiscard]] double requestsPerRun(const std::string& service) const {
    for (const auto& row : gateway_.snapshot().services) {
      if (row.name.name == service && row.runs.runs() > 0) return static_cast<double>(row.runs.requests()) / static_cast<double>(row.runs.runs());
    }
    return 0;
  }

  // How long the runs of a service took on their lanes, as the gateway saw them.
  [[nodiscard]] Histogram runs(const std::string& service) const {
    for (const auto& row : gateway_.snapshot().services) {
      if (row.name.name == service) return row.run;
    }
    return {};
  }

 private:
  testing::HttpLoad& load_;
  int connections_;
  http::AsioLoop loop_;
  gateway::Gateway gateway_;
  NullBackend null_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<http::Server> server_;
};

std::vector<testing::BenchCase> caseOf(const Case& test) { return {{"path", test.path}, {"subject", "coterie"}, {"tensor_bytes", test.tensorBytes}}; }

Status throughput(Bench& bench, Nanos duration, int repetitions, testing::BenchReport& report) {
  const std::vector<Case> all = cases();
  std::map<std::size_t, std::vector<Sample>> samples;
  for (int i = 0; i < repetitions; ++i) {
    for (std::size_t c = 0; c < all.size(); ++c) {
      const auto sample = bench.measure(all[c], duration);
      if (!sample) return sample.error();
      if (sample->errors > 0) std::fprintf(stderr, "warning: %s: %lld errors\n", all[c].path.c_str(), static_cast<long long>(sample->errors));
      samples[c].push_back(*sample);
    }
  }
  for (std::size_t c = 0; c < all.size(); ++c) {
    report.add({"requests_per_cpu_second", "requests/s", median(samples[c], &Sample::perCpuSecond), caseOf(all[c]), {}, {}});
    report.add({"gigabytes_per_cpu_second", "GB/s", median(samples[c], &Sample::gigabytesPerCpuSecond), caseOf(all[c]), {}, {}});
    report.add({"requests_per_second", "requests/s", median(samples[c], &Sample::perSecond), caseOf(all[c]), {}, {}});
    report.add({"latency_p50", "us", median(samples[c], &Sample::p50Micros), caseOf(all[c]), {}, {}});
    report.add({"latency_p99", "us", median(samples[c], &Sample::p99Micros), caseOf(all[c]), {}, {}});
  }
  return {};
}

// Ten times as long as the other cases: a p99 of some hundred requests is the fate of the three slowest.
Status halfLoad(Bench& bench, Nanos duration, int lanes, testing::BenchReport& report) {
  const Shape image{1, 3, 224, 224};
  const auto full = bench.measure({"", 0, binaryRequest("image", "input", image), 0}, duration, 2 * lanes);
  if (!full) return full.error();
  Case half{"tree/half-load", 602112, binaryRequest("image-half", "input", image), full->perSecond / 2};
  const auto sample = bench.measure(half, std::max(10 * duration, Nanos(static_cast<std::int64_t>(330 / half.rate * 1e9))), 16);
  if (!sample) return sample.error();
  const double runP99 = static_cast<double>(bench.runs("image-half").quantile(.99)) * 1e-3;
  report.add({"requests_per_second", "requests/s", sample->perSecond, caseOf(half), {}, {}});
  report.add({"latency_p50", "us", sample->p50Micros, caseOf(half), {}, {}});
  report.add({"latency_p99", "us", sample->p99Micros, caseOf(half), {}, {}});
  report.add({"added_p99", "us", sample->p99Micros - runP99, caseOf(half), {}, {}});
  return {};
}

Status batching(Bench& bench, Nanos duration, int repetitions, testing::BenchReport& report) {
  const Shape row{1, 512};
  const std::vector<Case> both{{"tree/one-by-one", 2048, binaryRequest("one-by-one", "input", row)},
                               {"tree/batched", 2048, binaryRequest("batched", "input", row)}};
  std::map<std::size_t, std::vector<Sample>> samples;
  std::vector<double> gains;
  for (int i = 0; i < repetitions; ++i) {
    std::array<double, 2> reached{};
    for (std::size_t turn = 0; turn < 2; ++turn) {
      const std::size_t c = i % 2 == 0 ? turn : 1 - turn;
      const auto sample = bench.measure(both[c], duration, kDenseClients);
      if (!sample) return sample.error();
      if (sample->errors > 0) return Error{Code::Internal, "Errors", both[c].path + ": " + std::to_string(sample->errors) + " errors"};
      samples[c].push_back(*sample);
      reached[c] = sample->perSecond;
    }
    gains.push_back(reached[1] / reached[0]);
  }
  for (std::size_t c = 0; c < both.size(); ++c) {
    report.add({"requests_per_second", "requests/s", median(samples[c], &Sample::perSecond), caseOf(both[c]), {}, {}});
    report.add({"requests_per_cpu_second", "requests/s", median(samples[c], &Sample::perCpuSecond), caseOf(both[c]), {}, {}});
    report.add({"latency_p50", "us", median(samples[c], &Sample::p50Micros), caseOf(both[c]), {}, {}});
    report.add({"latency_p99", "us", median(samples[c], &Sample::p99Micros), caseOf(both[c]), {}, {}});
  }
  report.add({"requests_per_run", "requests", bench.requestsPerRun("batched"), caseOf(both[1]), {}, {}});
  report.add({"batching_gain", "ratio", testing::quantile(gains, .5), caseOf(both[1]), {}, {}});
  return {};
}

int run(int argc, char** argv) {
  if (!testing::benchArguments(argc, argv, {"half-load", "batching"}, {"seconds", "connections", "repetitions", "lanes", "out"})) return 2;
  const auto duration = Nanos(static_cast<std::int64_t>(std::strtod(testing::benchOption(argc, argv, "seconds", "2").c_str(), nullptr) * 1e9));
  const int connections = std::atoi(testing::benchOption(argc, argv, "connections", "16").c_str());
  const int repetitions = std::atoi(testing::benchOption(argc, argv, "repetitions", "5").c_str());
  const int lanes = std::atoi(testing::benchOption(argc, argv, "lanes", std::to_string(std::max(1, testing::thisMachine().cpus))).c_str());
  const std::string out = testing::benchOption(argc, argv, "out", "build/bench/gateway.json");
  const auto fail = [](const Error& error) { return std::fprintf(stderr, "error: %s\n", error.message.c_str()), 1; };
  const auto load = testing::HttpLoad::start();
  if (!load) return fail(load.error());
  Bench bench(**load, connections);
  if (const Status begun = bench.begin(lanes); !begun) return fail(begun.error());
  testing::BenchReport report("gateway", 1, repetitions);
  const bool onlyHalfLoad = testing::benchFlag(argc, argv, "half-load");
  const bool onlyBatching = testing::benchFlag(argc, argv, "batching");
  if (!onlyHalfLoad && !onlyBatching) {
    if (const Status done = throughput(bench, duration, repetitions, report); !done) return fail(done.error());
  }
  if (!onlyBatching) {
    if (const Status done = halfLoad(bench, duration, lanes, report); !done) return fail(done.error());
  }
  if (!onlyHalfLoad) {
    if (const Status done = batching(bench, duration, repetitions, report); !done) return fail(done.error());
  }
  std::fputs(report.table().c_str(), stdout);
  if (const Status written = report.write(out); !written) return fail(written.error());
  return 0;
}

}  // namespace
}  // namespace coterie::gateway_bench

int main(int argc, char** argv) { return coterie::gateway_bench::run(argc, argv); }
