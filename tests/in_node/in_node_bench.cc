// The in-node scheduler against what its users would otherwise run, on this machine: throughput of services that share it.
//
//   in-node [--quick] [--scenario TEXT] [--against POLICY] [--minutes N] [--json PATH] [--svg PATH] [--slices PATH] [--mix|--no-mix|--only-mix]
//           [--mix-seconds N]
//   in-node --controls       only drc against itself (A/A), on every scenario: how well the method measures here
//   in-node --pack FOLDER    the quick form as a folder that runs on another machine
//
// Each service is a tenant of its own under a closed loop of 2 requests per usable CPU over the worker channel. Every subject runs the same worker,
// options and generator; only policy and threads differ: `shipped` = threads as many as visible CPUs, spinning; `paper` = CPUs/n threads per
// container; `tuned` = the best of 1, CPUs/n and CPUs threads without spinning; `follow` = lanes follow the allocation. Method: session.h, rows.h,
// mix.h. Time: --minutes for the rows (10.5 quick, 51 full), and about 16 for the mix.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench_node.h"
#include "chart.h"
#include "mix.h"
#include "pack.h"
#include "rows.h"
#include "subject.h"
#include "testing/bench_report.h"

namespace coterie::in_node {
namespace {

int packMain(const std::string& folder) {
  if (const Status packed = pack(folder, runtimeLibrary()); !packed) {
    std::fprintf(stderr, "in-node: %s\n", packed.error().message.c_str());
    return 1;
  }
  std::printf("%s/run.sh runs the quick form on another machine\n", folder.c_str());
  return 0;
}

int benchMain(int argc, char** argv) {
  if (!testing::benchArguments(argc, argv, {"quick", "controls", "only-mix", "mix", "no-mix"},
                               {"pack", "scenario", "against", "slices", "minutes", "json", "svg", "mix-seconds"}))
    return 2;
  if (const std::string folder = testing::benchOption(argc, argv, "pack", ""); !folder.empty()) return packMain(folder);
  RowsOptions options;
  options.quick = testing::benchFlag(argc, argv, "quick");
  options.onlyControls = testing::benchFlag(argc, argv, "controls");
  options.scenario = testing::benchOption(argc, argv, "scenario", "");
  options.against = testing::benchOption(argc, argv, "against", "");
  options.slices = testing::benchOption(argc, argv, "slices", "");
  const double minutes = std::atof(testing::benchOption(argc, argv, "minutes", options.quick ? "10.5" : "51").c_str());
  options.limit = Seconds(static_cast<int>(minutes * 60));
  const bool onlyMix = testing::benchFlag(argc, argv, "only-mix");
  const bool mix =
      onlyMix || testing::benchFlag(argc, argv, "mix") || !(options.quick || options.onlyControls || testing::benchFlag(argc, argv, "no-mix"));
  const std::string json = testing::benchOption(argc, argv, "json", "build/bench/in-node.json");
  const std::string svg = testing::benchOption(argc, argv, "svg", "build/bench/in-node.svg");
  if (const Status made = makeModels({"mobilenet_v2", "resnet50", "vgg16"}); !made) {
    std::fprintf(stderr, "in-node: %s\n", made.error().message.c_str());
    return 1;
  }
  testing::BenchReport report("in-node", 1, 1);
  std::vector<Bar> bars;
  bool good = true;
  if (!onlyMix) {
    std::printf("Throughput of drc against each baseline: geometric mean over the services, 99 %% interval\n");
    good = runRows(report, bars, options);
  }
  if (mix) good = runMix(report, std::atof(testing::benchOption(argc, argv, "mix-seconds", "25").c_str())) && good;
  if (const Status written = report.write(json); !written) {
    std::fprintf(stderr, "in-node: %s\n", written.error().message.c_str());
    return 1;
  }
  std::ofstream(svg) << ratioChart("drc against each baseline (throughput ratio, 99 % interval)", bars);
  std::printf("%s\nfigures: %s  chart: %s\n", report.table().c_str(), json.c_str(), svg.c_str());
  return good ? 0 : 1;
}

}  // namespace
}  // namespace coterie::in_node

int main(int argc, char** argv) {
  if (coterie::in_node::isWorkerCall(argc, argv)) return coterie::in_node::workerCall(argc, argv);
  if (coterie::testing::benchFlag(argc, argv, "subject")) return coterie::in_node::subjectMain(argc, argv);
  return coterie::in_node::benchMain(argc, argv);
}
