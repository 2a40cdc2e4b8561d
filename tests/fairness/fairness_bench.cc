// What a tenant's neighbours cost it, through the whole path: `coterie serve`, keys, HTTP, real workers running ONNX models.
//
// usage: fairness [--seconds S] [--pairs N] [--only services|shared|weights] [--json PATH]
//   services  two services: A of 124 ms a run, offered ten times its share over 40 connections; B of 7 ms at 30 % of its entitlement. B alone and B
//   with
//             A, N pairs of S seconds each, ordered ABBA. B's p50 at most twice that alone, p99 at most 1.5 times that alone and 5 ms, no error.
//   shared    one service of both, 20 ms a run (c): p50 at most that alone and c, p99 at most 1.3 times that alone and 2c, no error.
//   weights   one service of 2 to 8 tenants, weights 1 to 8, costs of 1 to 200 ms by the rows of their inputs, all of them always wanting more:
//   Jain's
//             index of slot-time by weight in each window of max(10 s, 20 requests of the lightest tenant at its share) at least .98; a slot free
//             beside waiting work at most 1 % of the time. From the record of the station's decisions (--record).
// Generators are processes of their own on the same CPUs where there are no others. Models are sized to their times by a measurement at the start. A
// case in which B sent less than 95 % of its plan is void and fails.
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "bench_server.h"
#include "manifests.h"
#include "testing/bench_report.h"
#include "testing/http_load.h"
#include "work_record.h"

namespace coterie::fairness {
namespace {

using testing::BenchTarget;
using testing::HttpLoad;
using testing::HttpLoadResult;
using testing::HttpLoadTask;

constexpr double kMost = 1e6;

class Bench {
 public:
  Bench(testing::BenchVerdicts& verdicts, Nanos length, int pairs) : verdicts_(verdicts), length_(length), pairs_(pairs) {
    for (int i = 0; i < 8; ++i) {  // before there is any thread
      auto load = HttpLoad::start();
      if (!load) std::exit(1);
      loads_.push_back(std::move(*load));
    }
  }

  void services();
  void shared();
  void weights();

 private:
  struct Both {
    Histogram alone;
    Histogram beside;
    std::int64_t errors{0};
    double sent{1};  // the least part of its plan
  };
  // One load for a while: figures.
  HttpLoadResult run(const HttpLoadTask& task) {
    static_cast<void>(loads_[0]->begin(task));
    return *loads_[0]->finish();
  }
  HttpLoadTask task(const BenchServer& server, std::string text, int connections, double rate, Nanos length) {
    return {server.port(), connections, length, rate, std::move(text), false, {}};
  }
  Both pairs(const HttpLoadTask& steady, const HttpLoadTask& flood);
  void judge(const std::string& name, const Both& both, double p50, double p99);
  double rowSeconds(int links);

  testing::BenchVerdicts& verdicts_;
  Nanos length_;
  int pairs_;
  std::vector<std::unique_ptr<HttpLoad>> loads_;
};

double Bench::rowSeconds(int links) {
  constexpr int kRows = 1000;
  const std::string model = "rows_x" + std::to_string(links);
  BenchServer server({"a/" + model});
  server.start();
  server.apply(tenantText("a") + serviceText("a/m", model));
  server.waitReady("a/m");
  return solo(*loads_[0], server, request("m", server.key("a"), kRows)) / kRows;
}

Bench::Both Bench::pairs(const HttpLoadTask& steady, const HttpLoadTask& flood) {
  Both both;
  const auto once = [&](bool beside) {
    if (beside) static_cast<void>(loads_[1]->begin(flood));
    const HttpLoadResult result = run(steady);
    if (beside) static_cast<void>(loads_[1]->finish());
    (beside ? both.beside : both.alone).merge(result.latency);
    both.errors += result.errors;
    both.sent = std::min(both.sent, static_cast<double>(result.sent) / (steady.ratePerSecond * std::chrono::duration<double>(result.wall).count()));
  };
  run(steady);  // everything warm
  for (int i = 0; i < pairs_; ++i) {
    once(i % 2 == 1);
    once(i % 2 == 0);
  }
  return both;
}

void Bench::judge(const std::string& name, const Both& both, double p50, double p99) {
  const auto milliseconds = [](const Histogram& from, double q) { return static_cast<double>(from.quantile(q)) / 1e6; };
  const std::vector<testing::BenchCase> of{{"case", name}};
  verdicts_.add({"alone_p50", "ms", milliseconds(both.alone, .5), of, {}, {}});
  verdicts_.add({"alone_p99", "ms", milliseconds(both.alone, .99), of, {}, {}});
  verdicts_.add({"beside_p50", "ms", milliseconds(both.beside, .5), of, {}, {}}, {BenchTarget::Bound::AtMost, p50});
  verdicts_.add({"beside_p99", "ms", milliseconds(both.beside, .99), of, {}, {}}, {BenchTarget::Bound::AtMost, p99});
  verdicts_.add({"errors", "", static_cast<double>(both.errors), of, {}, {}}, {BenchTarget::Bound::AtMost, 0});
  verdicts_.add({"sent_of_plan", "", both.sent, of, {}, {}}, {BenchTarget::Bound::AtLeast, .95});
}

void Bench::services() {
  constexpr double kHeavy = .124;
  constexpr double kLight = .007;
  const double link = linkSeconds(*loads_[0]);
  const std::string heavy = "slow_x" + std::to_string(std::lround(kHeavy / link));
  const std::string light = "slow_x" + std::to_string(std::lround(kLight / link));
  BenchServer server({"a/" + heavy, "b/" + light});
  server.start();
  server.apply(tenantText("a") + tenantText("b") + serviceText("a/m", heavy) + serviceText("b/m", light));
  server.waitReady("a/m");
  server.waitReady("b/m");
  const double cpus = testing::thisMachine().cpus / 2.0;  // each one's share
  const HttpLoadTask steady = task(server, request("m", server.key("b"), 1), 16, .3 * cpus / kLight, length_);
  const HttpLoadTask flood = task(server, request("m", server.key("a"), 1), 40, 10 * cpus / kHeavy, length_);
  const Both both = pairs(steady, flood);
  judge("two services, 124 and 7 ms", both, 2 * static_cast<double>(both.alone.quantile(.5)) / 1e6,
        1.5 * static_cast<double>(both.alone.quantile(.99)) / 1e6 + 5);
}

void Bench::shared() {
  constexpr double kCost = .020;
  const std::string model = "slow_x" + std::to_string(std::lround(kCost / linkSeconds(*loads_[0])));
  BenchServer server({"a/" + model});
  server.start();
  server.apply(tenantText("a") + tenantText("b") + serviceText("a/m", model, ", consumers: [b]"));
  server.waitReady("a/m");
  const double share = testing::thisMachine().cpus / 2.0 / kCost;
  const HttpLoadTask steady = task(server, request("a.m", server.key("b"), 1), 16, .3 * share, length_);
  const HttpLoadTask flood = task(server, request("a.m", server.key("a"), 1), 40, 10 * share, length_);
  const Both both = pairs(steady, flood);
  judge("one service, 20 ms", both, static_cast<double>(both.alone.quantile(.5)) / 1e6 + kCost * 1e3,
        1.3 * static_cast<double>(both.alone.quantile(.99)) / 1e6 + 2 * kCost * 1e3);
}

void Bench::weights() {
  constexpr int kLinks = 10;
  const std::string model = "rows_x" + std::to_string(kLinks);
  const double row = rowSeconds(kLinks);
  Rng rng(5);
  for (const int count : {2, 4, 8}) {
    std::map<std::string, double> weights;
    std::string objects;
    std::string consumers;
    double longest = 10;  // of a window, seconds
    std::vector<double> costs;
    double sum = 0;
    for (int i = 0; i < count; ++i) {
      const std::string name = "t" + std::to_string(i);
      weights[name] = static_cast<double>(rng.between(1, 8));
      sum += weights[name];
      costs.push_back(std::exp(static_cast<double>(rng.between(0, 1000)) / 1000 * std::log(200)) / 1000);
      objects += tenantText(name, static_cast<int>(weights[name]) * 100);
      if (i > 0) consumers += (consumers.empty() ? "" : ", ") + name;
    }
    const int cpus = testing::thisMachine().cpus;
    double lightest = kMost;
    double its = 0;
    for (int i = 0; i < count; ++i) {
      if (weights["t" + std::to_string(i)] >= lightest) continue;
      lightest = weights["t" + std::to_string(i)];
      its = costs[static_cast<std::size_t>(i)];
    }
    longest = std::max(longest, 20 * its * sum / lightest / cpus);
    BenchServer server({"t0/" + model});
    server.start("decisions");
    server.apply(objects + serviceText("t0/m", model, ", consumers: [" + consumers + "]"));
    server.waitReady("t0/m");
    const Nanos length(static_cast<std::int64_t>((2 * longest + 3) * 1e9));
    for (int i = 0; i < count; ++i) {
      const int rows = std::max(1, static_cast<int>(std::lround(costs[static_cast<std::size_t>(i)] / row)));
      static_cast<void>(loads_[static_cast<std::size_t>(i)]->begin(
          task(server, request("t0.m", server.key("t" + std::to_string(i)), rows), 2 * cpus + 2, 0, length)));
    }
    for (int i = 0; i < count; ++i) static_cast<void>(loads_[static_cast<std::size_t>(i)]->finish());
    server.stop();
    std::ostringstream bytes;
    bytes << std::ifstream(server.pathOf("decisions"), std::ios::binary).rdbuf();
    const WorkRecord record = workOf(bytes.str(), "t0/m", Nanos(static_cast<std::int64_t>(longest * 1e9)));
    double least = 1;
    // The first window has the beginning in it, in which not everybody was there yet; the last is not whole.
    for (std::size_t i = 0; i + 1 < record.windows.size(); ++i) least = std::min(least, jain(record.windows[i], weights));
    const std::vector<testing::BenchCase> of{{"case", "weights"}, {"tenants", count}, {"window_s", std::to_string(static_cast<int>(longest))}};
    verdicts_.add({"jain", "", least, of, {}, {}}, {BenchTarget::Bound::AtLeast, .98});
    verdicts_.add({"idle_beside_work", "percent", record.waiting > 0 ? 100 * record.idleBesideWork / record.waiting : 100, of, {}, {}},
                  {BenchTarget::Bound::AtMost, 1});
  }
}

}  // namespace
}  // namespace coterie::fairness

int main(int argc, char** argv) {
  using namespace coterie;
  if (!testing::benchArguments(argc, argv, {}, {"seconds", "pairs", "only", "json"})) return 2;
  const int seconds = std::stoi(testing::benchOption(argc, argv, "seconds", "10"));
  const int pairs = std::stoi(testing::benchOption(argc, argv, "pairs", "5"));
  const std::string only = testing::benchOption(argc, argv, "only", "");
  testing::BenchReport report("fairness", 5, pairs);
  testing::BenchVerdicts verdicts(report);
  fairness::Bench bench(verdicts, Seconds(seconds), pairs);
  if (only.empty() || only == "services") bench.services();
  if (only.empty() || only == "shared") bench.shared();
  if (only.empty() || only == "weights") bench.weights();
  const Status written = report.write(testing::benchOption(argc, argv, "json", "build/bench/fairness.json"));
  if (!written) std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return written && verdicts.good() ? 0 : 1;
}
