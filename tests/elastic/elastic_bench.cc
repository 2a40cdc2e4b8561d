// How fast an allocation takes effect, and what lending costs and brings, on this machine.
//
//   elastic [--changes N] [--pause MS] [--blocks N] [--phase SECONDS] [--only changes|lending] [--dump PATH] [--json PATH]
//
// Methods: changes.h, lending.h. Exit status 1 if a target is missed or a part failed. The whole takes about six minutes.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "changes.h"
#include "lending.h"
#include "testing/bench_report.h"

namespace coterie::elastic {
namespace {

using testing::BenchReport;
using testing::BenchTarget;
using testing::BenchVerdicts;
using testing::quantile;

constexpr std::size_t kChanging = 0, kOwner = 1, kBorrower = 2, kServices = 3;
constexpr std::size_t kLeastForP99 = 300;

void addDelays(BenchVerdicts& verdicts, const std::string& name, const std::vector<double>& delays) {
  verdicts.add({name + "_p50", "ms", quantile(delays, 0.5), {}, {}, {}});
  if (delays.size() >= kLeastForP99) {
    verdicts.add({name + "_p99", "ms", quantile(delays, 0.99), {}, {}, {}}, {BenchTarget::Bound::AtMost, 20});
  } else {
    verdicts.tooFew(name + "_p99");
  }
  verdicts.add({name + "_max", "ms", quantile(delays, 1), {}, {}, {}});
}

void addChanges(BenchVerdicts& verdicts, const ChangesFigures& figures) {
  std::printf("Changes: %zu grow, %zu shrink; a run of %.2f ms, %.0f answers/s on one CPU, %.0f on all; looked every %.2f ms (p99)%s\n",
              figures.laneStarts.size(), figures.cpuLeft.size(), figures.runP50, figures.smallRate, figures.largeRate, figures.sampleGapP99,
              figures.realtimeSampler ? "" : ", not in real time");
  verdicts.add({"foreign_cpus", "CPUs", figures.foreignCpus, {{"part", "changes"}}, {}, {}});
  addDelays(verdicts, "lane_starts", figures.laneStarts);
  addDelays(verdicts, "cpu_left", figures.cpuLeft);
  verdicts.add({"throughput_follows_p50", "ms", quantile(figures.followed, 0.5), {}, {}, {}});
  verdicts.add({"throughput_holds_p50", "ms", quantile(figures.held, 0.5), {}, {}, {}});
  if (figures.followed.size() >= kLeastForP99) {
    verdicts.add({"throughput_follows_p99", "ms", quantile(figures.followed, 0.99), {}, {}, {}}, {BenchTarget::Bound::AtMost, 50});
    verdicts.add({"cpu_time_follows_p99", "ms", quantile(figures.cpuFollowed, 0.99), {}, {}, {}});
    verdicts.add({"throughput_holds_p99", "ms", quantile(figures.held, 0.99), {}, {}, {}});
  } else {
    verdicts.tooFew("throughput_follows_p99");
  }
  verdicts.add({"worker_rss_growth", "ratio", figures.rssGrowth, {}, {}, {}}, {BenchTarget::Bound::AtMost, 1.05});
  std::printf(
      "  (cpu_time: the same rule for the runs' CPU time, holds: for answers where nothing changed; both tell the machine's unsteadiness from the "
      "controller)\n");
  if (figures.notFollowed > 0) std::printf("  (%d growths did not reach the level before the next change)\n", figures.notFollowed);
}

void addLending(BenchVerdicts& verdicts, const LendingFigures& figures) {
  std::printf(
      "Lending: owner at %.1f requests/s, %zu answers a condition; p50 %.2f ms alone, %.2f lending, %.2f partitioned; borrower %.2f/s lending, "
      "%.2f/s partitioned\n",
      figures.ownerRate, figures.alone.size(), quantile(figures.alone, 0.5), quantile(figures.lending, 0.5), quantile(figures.partition, 0.5),
      figures.borrowerLending, figures.borrowerPartition);
  std::printf("         p99 %.2f ms alone, %.2f lending, %.2f partitioned; failed requests %lld\n", quantile(figures.alone, 0.99),
              quantile(figures.lending, 0.99), quantile(figures.partition, 0.99), static_cast<long long>(figures.failed));
  verdicts.add({"foreign_cpus", "CPUs", figures.foreignCpus, {{"part", "lending"}}, {}, {}});
  const auto ratio = [](double q, const std::vector<double>& with, const std::vector<double>& without) {
    return quantile(with, q) / quantile(without, q);
  };
  verdicts.add({"owner_p50_ratio", "ratio", ratio(0.5, figures.lending, figures.alone), {}, figures.ownerP50.low, figures.ownerP50.high},
               {BenchTarget::Bound::AtMost, 1.15});
  if (figures.alone.size() >= kLeastForP99) {
    verdicts.add({"owner_p99_ratio", "ratio", ratio(0.99, figures.lending, figures.alone), {}, {}, {}}, {BenchTarget::Bound::AtMost, 1.3});
  } else {
    verdicts.tooFew("owner_p99_ratio");
  }
  verdicts.add({"borrower_gain", "ratio", figures.gain.value, {}, figures.gain.low, figures.gain.high}, {BenchTarget::Bound::AtLeast, 1.3});
}

Status measure(int argc, char** argv, BenchVerdicts& verdicts) {
  const auto option = [&](const char* name, const char* otherwise) { return testing::benchOption(argc, argv, name, otherwise); };
  const std::string only = option("only", "");
  if (Status made = in_node::makeModels({"slow_1ms", "mobilenet_v2", "resnet50"}); !made) return made;
  ElasticNode node;
  if (Status started = node.start(kServices); !started) return started;
  std::printf("Actuator: %s\n", node.node().actuator().c_str());
  if (only != "lending") {
    node.node().drc().setLending(false);
    if (Status served = node.serve(kChanging, "slow_1ms"); !served) return served;
    const ChangesOptions options{std::atoi(option("changes", "600").c_str()), Millis(std::atoi(option("pause", "180").c_str())), option("dump", "")};
    const auto figures = measureChanges(node, kChanging, options);
    if (!figures) return figures.error();
    addChanges(verdicts, *figures);
    std::fflush(stdout);
  }
  if (only != "changes") {
    const LendingOptions options{std::atoi(option("blocks", "8").c_str()), Millis(static_cast<int>(std::atof(option("phase", "5").c_str()) * 1000)),
                                 0.3};
    const auto figures = measureLending(node, kOwner, kBorrower, options);
    if (!figures) return figures.error();
    addLending(verdicts, *figures);
  }
  return {};
}

int benchMain(int argc, char** argv) {
  if (!testing::benchArguments(argc, argv, {}, {"only", "changes", "pause", "dump", "blocks", "phase", "json"})) return 2;
  BenchReport report("elastic", 1, 1);
  BenchVerdicts verdicts(report);
  if (const Status measured = measure(argc, argv, verdicts); !measured) {
    std::fprintf(stderr, "elastic: %s\n", measured.error().message.c_str());
    return 1;
  }
  const std::string path = testing::benchOption(argc, argv, "json", "build/bench/elastic.json");
  if (const Status written = report.write(path); !written) {
    std::fprintf(stderr, "elastic: %s\n", written.error().message.c_str());
    return 1;
  }
  std::printf("figures: %s\n", path.c_str());
  return verdicts.good() ? 0 : 1;
}

}  // namespace
}  // namespace coterie::elastic

int main(int argc, char** argv) {
  if (coterie::in_node::isWorkerCall(argc, argv)) return coterie::in_node::workerCall(argc, argv);
  return coterie::elastic::benchMain(argc, argv);
}
