// A service that is offered ten times what it can do: what it still does in time, and what a refusal costs.
//
// usage: overload [--seconds S] [--only 5ms|50ms|5ms-large|half|refusal] [--json PATH]
//   5ms, 50ms   models of that run time, open loop at ten times capacity for S seconds (60), deadline of four run times; -large: bodies of 600 KB.
//               goodput: answers in time (by the client's clock, from when it sent) of capacity, where capacity is slots / mean time that an answered
//               request held its slot in this very run, at least .95; in time of the accepted (by the server's clock) at least .99; refusals from the
//               end of their heads at p99 at most 5 ms; resident memory from the tenth second to the last within 2 %.
//   half        the 5 ms model at half of capacity, Poisson: refused at most 1 %.
//   refusal     a tiny model: the server's CPU time for a refusal (requests per second, by quota) at most half of that for an answer.
// Slots and times are read from the record of the station's decisions (--record). The generator shares the CPUs where there are no others.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

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

double residentMegabytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * 4096 / 1e6;
}

// User and system time of the server's own process: the gateway, not its workers.
double cpuSeconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::string word;
  double ticks = 0;
  for (int i = 3; i <= 15 && rest >> word; ++i) ticks += i >= 14 ? std::stod(word) : 0;
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

class Bench {
 public:
  Bench(testing::BenchVerdicts& verdicts, int seconds) : verdicts_(verdicts), seconds_(seconds) {
    auto load = HttpLoad::start();  // before there is any thread
    if (!load) std::exit(1);
    load_ = std::move(*load);
  }
  void overload(const std::string& name, double cost, bool large);
  void half();
  void refusal();

 private:
  struct Ran {
    HttpLoadResult load;
    WorkRecord record;
    double early{0};  // MB
    double late{0};
  };
  // factor: of capacity, which is known from runs one by one before.
  Ran run(const std::string& model, double factor, bool poisson, int rows);
  [[nodiscard]] double slots() const { return testing::thisMachine().cpus; }

  testing::BenchVerdicts& verdicts_;
  int seconds_;
  std::unique_ptr<HttpLoad> load_;
};

Bench::Ran Bench::run(const std::string& model, double factor, bool poisson, int rows) {
  BenchServer server({"a/" + model});
  server.start("decisions");
  server.apply(tenantText("a") + serviceText("a/m", model));
  server.waitReady("a/m");
  const std::string key = server.key("a");
  const double cost = solo(*load_, server, request("m", key, rows));
  const auto millis = static_cast<std::int64_t>(std::ceil(4 * cost * 1e3));
  const std::string text = request("m", key, rows, "Coterie-Timeout-Ms: " + std::to_string(millis) + "\r\n");
  static_cast<void>(load_->begin({server.port(), 64, Seconds(seconds_), factor * slots() / cost, text, poisson, Millis(millis)}));
  Ran ran;
  const int early = std::min(10, seconds_ / 2);
  std::this_thread::sleep_for(std::chrono::seconds(early));
  ran.early = residentMegabytes(server.pid());
  std::this_thread::sleep_for(std::chrono::milliseconds((seconds_ - early) * 1000 - 200));
  ran.late = residentMegabytes(server.pid());
  ran.load = *load_->finish();
  server.stop();
  std::ostringstream bytes;
  bytes << std::ifstream(server.pathOf("decisions"), std::ios::binary).rdbuf();
  ran.record = workOf(bytes.str(), "a/m", Seconds(10));
  return ran;
}

void Bench::overload(const std::string& name, double cost, bool large) {
  constexpr int kLargeRows = 2350;  // 600 KB
  const std::string model = "slow_x" + std::to_string(std::lround(cost / linkSeconds(*load_)));
  const Ran ran = run(model, 10, false, large ? kLargeRows : 1);
  const std::vector<testing::BenchCase> of{{"case", name}};
  const double wall = std::chrono::duration<double>(ran.load.wall).count();
  const double held = ran.record.held / static_cast<double>(std::max<std::int64_t>(ran.record.runs, 1));
  const double capacity = static_cast<double>(ran.record.slots) / held;
  verdicts_.add({"held", "ms", held * 1e3, of, {}, {}});
  verdicts_.add({"goodput", "of capacity", static_cast<double>(ran.load.inTime) / wall / capacity, of, {}, {}}, {BenchTarget::Bound::AtLeast, .95});
  verdicts_.add({"in_time",
                 "of accepted",
                 static_cast<double>(ran.record.inTime) / static_cast<double>(std::max<std::int64_t>(ran.record.accepted, 1)),
                 of,
                 {},
                 {}},
                {BenchTarget::Bound::AtLeast, .99});
  verdicts_.add({"refused", "of sent", static_cast<double>(ran.load.errors) / static_cast<double>(ran.load.sent), of, {}, {}});
  verdicts_.add({"refusal_p99", "ms", static_cast<double>(ran.load.refusals.quantile(.99)) / 1e6, of, {}, {}}, {BenchTarget::Bound::AtMost, 5});
  verdicts_.add({"memory_drift", "percent", 100 * (ran.late / ran.early - 1), of, {}, {}}, {BenchTarget::Bound::AtMost, 2});
}

void Bench::half() {
  constexpr double kCost = .005;
  const std::string model = "slow_x" + std::to_string(std::lround(kCost / linkSeconds(*load_)));
  const Ran ran = run(model, .5, true, 1);
  verdicts_.add({"refused",
                 "percent",
                 100 * static_cast<double>(ran.load.errors) / static_cast<double>(ran.load.sent),
                 {{"case", "half load, Poisson"}},
                 {},
                 {}},
                {BenchTarget::Bound::AtMost, 1});
}

void Bench::refusal() {
  BenchServer server({"a/mean"});
  server.start();
  server.apply(tenantText("a") + serviceText("a/m", "mean"));
  server.waitReady("a/m");
  const std::string text = request("m", server.key("a"), 1, "", 4);
  const auto costs = [&](bool answers) {
    const double before = cpuSeconds(server.pid());
    static_cast<void>(load_->begin({server.port(), 4, Seconds(5), 0, text, false, {}}));
    const HttpLoadResult result = *load_->finish();
    const std::int64_t count = answers ? result.requests : result.errors;
    return (cpuSeconds(server.pid()) - before) / static_cast<double>(std::max<std::int64_t>(count, 1));
  };
  static_cast<void>(costs(true));
  const double answer = costs(true);
  server.apply("apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata: {name: a}\nspec: {namespaces: [a], quota: {requestsPerSecond: 1}}\n");
  static_cast<void>(costs(false));
  const double refused = costs(false);
  verdicts_.add({"answer_cpu", "us", answer * 1e6, {{"case", "tiny model"}}, {}, {}});
  verdicts_.add({"refusal_cpu", "of an answer's", refused / answer, {{"case", "tiny model"}}, {}, {}}, {BenchTarget::Bound::AtMost, .5});
}

}  // namespace
}  // namespace coterie::fairness

int main(int argc, char** argv) {
  using namespace coterie;
  if (!testing::benchArguments(argc, argv, {}, {"seconds", "only", "json"})) return 2;
  const std::string only = testing::benchOption(argc, argv, "only", "");
  testing::BenchReport report("overload", 1, 1);
  testing::BenchVerdicts verdicts(report);
  fairness::Bench bench(verdicts, std::stoi(testing::benchOption(argc, argv, "seconds", "60")));
  const auto wanted = [&](const char* name) { return only.empty() || only == name; };
  if (wanted("5ms")) bench.overload("5 ms", .005, false);
  if (wanted("50ms")) bench.overload("50 ms", .050, false);
  if (wanted("5ms-large")) bench.overload("5 ms, 600 KB", .005, true);
  if (wanted("half")) bench.half();
  if (wanted("refusal")) bench.refusal();
  const Status written = report.write(testing::benchOption(argc, argv, "json", "build/bench/overload.json"));
  if (!written) std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return written && verdicts.good() ? 0 : 1;
}
