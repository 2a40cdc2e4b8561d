// Decision and re-plan times of decide(), its memory, and how its CPU time grows with the machine.
//
// decision: a decision on a settled machine whose demand changes (loans are re-planned, nothing else moves). replan: a decision after a membership,
// spec or machine event (join, leave, resize, worker, CPU offline). CPU time of the thread. planner_rss: resident memory of this process after the
// case, machine and snapshots included. slope: log-log, CPU time of all decisions of a pass against CPUs, over (64,16), (128,32), (256,64),
// (512,128); the limit is 2.2. usage: allocation [--json PATH] [--seed N] [--samples N]
#include <ctime>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "allocation/decide.h"
#include "allocation/planner.h"
#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "base/rng.h"
#include "testing/bench_report.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

constexpr double kSlopeLimit = 2.2;

double cpuMicros() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

double residentMegabytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * 4096 / 1e6;
}

struct Case {
  int cpus;
  int nodes;
  int groups;
};

class Load {
 public:
  Load(const Case& size, std::uint64_t seed) : rng_(seed), whole_(testing::bigMachine(size.cpus)), machine_(whole_), builder_(machine_) {
    for (int g = 0; g < size.groups; ++g) join();
    settle();
  }

  // One settled decision under new demand: microseconds.
  double decision() {
    for (GroupState& group : snapshot().groups) {
      group.demand = MilliCpu(rng_.between(0, 8000));
      group.queuedBeyondOwnLanes = rng_.chance(50);
    }
    return timed();
  }

  // One decision after an event: microseconds.
  double replan() {
    switch (rng_.between(0, 4)) {
      case 0: replaceOne(); break;
      case 1: resizeOne(); break;
      case 2: restartWorker(); break;
      case 3: toggleCpu(); break;
      default: any().weight = rng_.between(50, 200); break;
    }
    return timed();
  }

 private:
  Snapshot& snapshot() { return builder_.snapshot; }
  GroupState& any() { return snapshot().groups[static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(snapshot().groups.size()) - 1))]; }

  void join() {
    GroupState& group = builder_.group(static_cast<int>(rng_.between(0, 15)), rng_.chance(70) ? 1 : 2);
    group.weight = rng_.between(50, 200);
    group.loanLanes = 4;
  }
  void replaceOne() {
    snapshot().groups.erase(snapshot().groups.begin() + (&any() - snapshot().groups.data()));
    join();
  }
  void resizeOne() {
    GroupState& group = any();
    group.floor = MilliCpu(rng_.between(0, 1) * 1000);
    if (missingForFloor(snapshot(), GroupState{}).value > 0) group.floor = MilliCpu(0);
    group.ceiling = MilliCpu(rng_.between(2, 16) * 1000);
  }
  void restartWorker() {
    GroupState& group = any();
    group.containers.erase(group.containers.begin());
    builder_.addContainer(group);
  }
  void toggleCpu() {
    const std::vector<int> all = whole_.online.toVector();
    CpuSet online = machine_.online;
    const int cpu = all[static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(all.size()) - 1))];
    if (online.contains(cpu) && online.count() * 10 > static_cast<int>(all.size()) * 9) {
      online.remove(cpu);
    } else {
      online = whole_.online;
    }
    machine_ = testing::withOnline(whole_, online, online);
  }

  double timed() {
    snapshot().now += Millis(rng_.between(1, 2000));
    const double start = cpuMicros();
    const Plan& plan = planner_.decide(snapshot(), config_);
    const double spent = cpuMicros() - start;
    applyAll(snapshot(), plan);
    std::erase_if(snapshot().groups, [&](const GroupState& group) {
      return std::any_of(plan.groups.begin(), plan.groups.end(), [&](const GroupTarget& target) { return target.id == group.id && target.pending; });
    });
    return spent;
  }
  void settle() {
    for (int i = 0; i < 8; ++i) timed();
  }

  Rng rng_;
  Machine whole_;
  Machine machine_;
  SnapshotBuilder builder_;
  Config config_;
  Planner planner_;
};

double measure(const Case& size, std::uint64_t seed, int samples, testing::BenchReport& report) {
  Load load(size, seed);
  std::vector<double> decisions;
  std::vector<double> replans;
  double total = 0;
  for (int i = 0; i < samples; ++i) total += decisions.emplace_back(load.decision());
  for (int i = 0; i < samples; ++i) total += replans.emplace_back(load.replan());
  const std::vector<testing::BenchCase> of{{"cpus", size.cpus}, {"nodes", size.nodes}, {"groups", size.groups}};
  const auto add = [&](const char* name, const char* unit, double value) { report.add({name, unit, value, of, std::nullopt, std::nullopt}); };
  add("decision_p50", "us", testing::quantile(decisions, .5));
  add("decision_p99", "us", testing::quantile(decisions, .99));
  add("replan_p50", "us", testing::quantile(replans, .5));
  add("replan_p99", "us", testing::quantile(replans, .99));
  add("planner_rss", "MB", residentMegabytes());
  return total;
}

int run(int argc, char** argv) {
  if (!testing::benchArguments(argc, argv, {}, {"seed", "samples", "json"})) return 2;
  const std::uint64_t seed = std::strtoull(testing::benchOption(argc, argv, "seed", "1").c_str(), nullptr, 10);
  const int samples = std::atoi(testing::benchOption(argc, argv, "samples", "1000").c_str());
  if (samples < 300) {
    std::fprintf(stderr, "--samples: a p99 needs 300 at least\n");
    return 2;
  }
  testing::BenchReport report("allocation", seed, samples);
  std::vector<std::pair<double, double>> growth;
  for (const Case& size : {Case{8, 1, 8}, Case{64, 2, 8}, Case{64, 2, 16}, Case{64, 2, 64}, Case{128, 4, 32}, Case{256, 8, 8}, Case{256, 8, 64},
                           Case{512, 8, 8}, Case{512, 8, 128}}) {
    const double total = measure(size, seed, samples, report);
    if (size.cpus >= 64 && size.groups * 4 == size.cpus) growth.emplace_back(size.cpus, total);
  }
  const double slope = testing::logLogSlope(growth);
  report.add({"slope", "", slope, {{"over", "64/16 128/32 256/64 512/128"}}, std::nullopt, std::nullopt});
  std::fputs(report.table().c_str(), stdout);
  std::printf("slope %.2f, limit %.1f: %s\n", slope, kSlopeLimit, slope <= kSlopeLimit ? "held" : "NOT HELD");
  const Status written = report.write(testing::benchOption(argc, argv, "json", "build/bench/allocation.json"));
  if (!written.ok()) std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return written.ok() && slope <= kSlopeLimit ? 0 : 1;
}

}  // namespace
}  // namespace coterie::allocation

int main(int argc, char** argv) { return coterie::allocation::run(argc, argv); }
