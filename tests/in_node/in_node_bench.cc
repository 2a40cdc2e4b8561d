// The in-node scheduler against what its users would otherwise run, on this machine: throughput of services that share it.
//
//   in-node [--quick] [--scenario TEXT] [--against NAME] [--limit SECONDS] [--json PATH] [--svg PATH] [--mix|--no-mix]
//   in-node --pack FOLDER    the quick form as a folder that runs on another machine
//
// Each service is a tenant of its own under a closed loop of 2 requests per usable CPU over the worker channel. Every subject runs the same worker,
// options and generator; only policy and threads differ: `shipped` = threads as many as visible CPUs, spinning; `paper` = CPUs/n threads per
// container; `tuned` = the best of 1, CPUs/n and CPUs threads without spinning, found by a glance in the same run; `follow` = lanes follow the
// allocation. Method: comparison.h.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "bench_node.h"
#include "chart.h"
#include "comparison.h"
#include "pack.h"
#include "subject.h"
#include "testing/bench_report.h"

namespace coterie::in_node {
namespace {

using testing::BenchCase;
using testing::BenchReport;

const Subject kDrc{"drc", Threads::Follow};

struct Options {
  bool quick{false};
  bool mix{false};
  std::string scenario;
  std::string against;
  Seconds limit{300};
  std::string json;
  std::string svg;
};

std::string ratioText(const testing::Ratio& ratio) {
  return fmt::format("{:.3f} [{:.3f}, {:.3f}] in {} blocks", ratio.value, ratio.low, ratio.high, ratio.blocks);
}

void addServices(BenchReport& report, const Scenario& scenario, const Subject& subject, const std::vector<ServiceFigures>& figures) {
  const std::string threads = threadsName(subject.threads);
  double logs = 0;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const std::vector<BenchCase> of{{"scenario", scenario.name},
                                    {"n", static_cast<int>(figures.size())},
                                    {"policy", subject.policy},
                                    {"threads", threads},
                                    {"service", fmt::format("{}:{}", i, scenario.services[i].model)}};
    report.add({"throughput", "requests/s", figures[i].throughput, of, {}, {}});
    report.add({"latency_p50", "ms", static_cast<double>(figures[i].p50.count()) / 1e6, of, {}, {}});
    if (figures[i].p99 != Nanos{}) report.add({"latency_p99", "ms", static_cast<double>(figures[i].p99.count()) / 1e6, of, {}, {}});
    logs += std::log(std::max(figures[i].throughput, 1e-9)) / static_cast<double>(figures.size());
  }
  report.add({"geomean_throughput",
              "requests/s",
              std::exp(logs),
              {{"scenario", scenario.name}, {"n", static_cast<int>(figures.size())}, {"policy", subject.policy}, {"threads", threads}},
              {},
              {}});
}

// Which of the tuned forms of a policy is best here; they differ only in the number of threads.
Result<Subject> tunedOf(const Scenario& scenario, const std::string& policy) {
  std::map<double, Subject> byWork;
  for (const Threads threads : {Threads::One, Threads::Share, Threads::All}) {
    const auto work = glance(scenario, {policy, threads});
    if (!work) return work.error();
    std::printf("    glance %-24s %8.2f requests/s\n", Subject{policy, threads}.name().c_str(), std::exp(*work));
    byWork[*work] = {policy, threads};
  }
  return byWork.rbegin()->second;
}

bool row(BenchReport& report, std::vector<Bar>& bars, const Scenario& scenario, const Subject& baseline, const std::string& label,
         const Subject& subject, const Options& options) {
  const auto result = compare(scenario, baseline, subject, options.limit);
  if (!result) {
    std::printf("  %-28s %-26s failed: %s\n", scenario.name.c_str(), label.c_str(), result.error().message.c_str());
    return false;
  }
  std::printf("  %-28s %-26s %s%s\n", scenario.name.c_str(), label.c_str(), ratioText(result->ratio).c_str(),
              result->ratio.halfWidth() > 0.03 ? "  (wider than 3 %)" : "");
  std::fflush(stdout);
  report.add({"throughput_ratio",
              "ratio",
              result->ratio.value,
              {{"scenario", scenario.name},
               {"n", static_cast<int>(scenario.services.size())},
               {"policy", subject.policy},
               {"against", baseline.policy},
               {"threads", label},
               {"blocks", static_cast<int>(result->ratio.blocks)}},
              result->ratio.low,
              result->ratio.high});
  bars.push_back({scenario.name + " / " + label, result->ratio});
  addServices(report, scenario, baseline, result->a);
  addServices(report, scenario, subject, result->b);
  return true;
}

bool steady(BenchReport& report, std::vector<Bar>& bars, const Options& options) {
  bool good = true;
  bool first = true;
  for (const Scenario& scenario : steadyScenarios(options.quick)) {
    if (!options.scenario.empty() && scenario.name.find(options.scenario) == std::string::npos) continue;
    if (std::exchange(first, false)) good = row(report, bars, scenario, kDrc, "A/A: drc", kDrc, options) && good;
    for (const std::string& policy :
         options.quick ? std::vector<std::string>{"none-single"} : std::vector<std::string>{"none-single", "none-multi", "cm-single", "cm-multi"}) {
      if (!options.against.empty() && policy != options.against) continue;
      good = row(report, bars, scenario, {policy, Threads::Shipped}, policy + "/shipped", kDrc, options) && good;
      if (!options.quick) good = row(report, bars, scenario, {policy, Threads::Paper}, policy + "/paper", kDrc, options) && good;
      const auto tuned = tunedOf(scenario, policy);
      if (!tuned) {
        std::printf("  %-28s tuned: %s\n", scenario.name.c_str(), tuned.error().message.c_str());
        good = false;
        continue;
      }
      good = row(report, bars, scenario, *tuned, policy + "/tuned=" + threadsName(tuned->threads), kDrc, options) && good;
    }
  }
  return good;
}

// Three services arrive at 0, 5 and 10 s, each with work for about 25 s alone; the time until all is done.
bool mix(BenchReport& report) {
  std::vector<std::string> models{"mobilenet_v2", "resnet50", "vgg16"};
  std::map<std::string, int> counts;
  for (const auto& model : models) {
    const auto work = glance({model, {{model, 0, 0}}}, kDrc);
    if (!work) return std::printf("  mix: %s\n", work.error().message.c_str()), false;
    counts[model] = static_cast<int>(std::exp(*work) * 25);
  }
  for (int order = 0; order < 2; ++order) {
    Scenario scenario;
    for (std::size_t i = 0; i < models.size(); ++i) scenario.services.push_back({models[i], 5.0 * static_cast<double>(i), counts[models[i]]});
    scenario.name = order == 0 ? "mix, light first" : "mix, heavy first";
    for (const Subject& subject : std::vector<Subject>{kDrc,
                                                       {"none-single", Threads::Shipped},
                                                       {"none-single", Threads::One},
                                                       {"none-single", Threads::All},
                                                       {"cm-multi", Threads::One},
                                                       kDrc}) {
      const auto seconds = makespan(scenario, subject);
      if (!seconds) return std::printf("  %s %s: %s\n", scenario.name.c_str(), subject.name().c_str(), seconds.error().message.c_str()), false;
      std::printf("  %-28s %-26s %.1f s\n", scenario.name.c_str(), subject.name().c_str(), *seconds);
      std::fflush(stdout);
      report.add(
          {"makespan", "s", *seconds, {{"scenario", scenario.name}, {"policy", subject.policy}, {"threads", threadsName(subject.threads)}}, {}, {}});
    }
    std::reverse(models.begin(), models.end());
  }
  return true;
}

int packMain(const std::string& folder) {
  if (const Status packed = pack(folder, runtimeLibrary()); !packed) {
    std::fprintf(stderr, "in-node: %s\n", packed.error().message.c_str());
    return 1;
  }
  std::printf("%s/run.sh runs the quick form on another machine\n", folder.c_str());
  return 0;
}

int benchMain(int argc, char** argv) {
  if (const std::string folder = testing::benchOption(argc, argv, "pack", ""); !folder.empty()) return packMain(folder);
  Options options;
  options.quick = testing::benchFlag(argc, argv, "quick");
  options.mix = testing::benchFlag(argc, argv, "mix") || (!options.quick && !testing::benchFlag(argc, argv, "no-mix"));
  options.scenario = testing::benchOption(argc, argv, "scenario", "");
  options.against = testing::benchOption(argc, argv, "against", "");
  options.limit = Seconds(std::atoi(testing::benchOption(argc, argv, "limit", "300").c_str()));
  options.json = testing::benchOption(argc, argv, "json", "build/bench/in-node.json");
  options.svg = testing::benchOption(argc, argv, "svg", "build/bench/in-node.svg");
  if (const Status made = makeModels({"mobilenet_v2", "resnet50", "vgg16"}); !made) {
    std::fprintf(stderr, "in-node: %s\n", made.error().message.c_str());
    return 1;
  }
  BenchReport report("in-node", 1, 1);
  std::vector<Bar> bars;
  std::printf("Throughput of drc against each baseline: geometric mean over the services, 99 %% interval\n");
  bool good = steady(report, bars, options);
  if (options.mix) good = mix(report) && good;
  if (const Status written = report.write(options.json); !written) {
    std::fprintf(stderr, "in-node: %s\n", written.error().message.c_str());
    return 1;
  }
  std::ofstream(options.svg) << ratioChart("drc against each baseline (throughput ratio, 99 % interval)", bars);
  std::printf("%s\nfigures: %s  chart: %s\n", report.table().c_str(), options.json.c_str(), options.svg.c_str());
  return good ? 0 : 1;
}

}  // namespace
}  // namespace coterie::in_node

int main(int argc, char** argv) {
  if (coterie::in_node::isWorkerCall(argc, argv)) return coterie::in_node::workerCall(argc, argv);
  if (coterie::testing::benchFlag(argc, argv, "subject")) return coterie::in_node::subjectMain(argc, argv);
  return coterie::in_node::benchMain(argc, argv);
}
