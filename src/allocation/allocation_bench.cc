// How long a planner takes to decide, what it keeps in memory, and how its CPU time grows with the machine.
//
// decision: on a settled machine the demand of every group changes (loans are planned anew, nothing else moves). one_demand: that of one group.
// replan: a decision after a membership, spec or machine event (join, leave, resize, worker, weight, CPU offline). CPU time of the thread; one
// planner for a case, as the agent has. Groups below their entitlement say since when, as the agent's do, so that loans are parked. planner_rss: what
// a planner adds to the resident memory of this process in 100 decisions of each kind, beside machine and snapshot. empty_nodes: a machine with 32
// nodes without CPUs against the same without them, one decision of each by turns; the ratio of their p50. slope: log-log, CPU time of all decisions
// of a pass against CPUs, over (64,16), (128,32), (256,64), (512,128). Each limit is printed with its verdict; one that is not held is exit status 1.
// usage: allocation [--json PATH] [--seed N] [--samples N]
#include <malloc.h>

#include <ctime>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
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
constexpr double kEmptyNodesLimit = 1.05;  // no slower, but for the noise of a median
constexpr double kPlannerMegabytes = 20;
constexpr int kMemoryRounds = 100;

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

// 0: no limit.
struct Case {
  int cpus;
  int nodes;
  int groups;
  double decisionLimit{0};  // us, p99
  double replanLimit{0};
};

constexpr Case kCases[] = {{8, 1, 8},
                           {64, 2, 8},
                           {64, 2, 16},
                           {64, 2, 64},
                           {128, 4, 32},
                           {256, 8, 8},
                           {256, 8, 64},
                           {512, 8, 8},
                           {512, 8, 128, 50, 5000},
                           {4096, 64, 1000, 1000, 100'000}};

Machine machineOf(const Case& size) { return size.cpus == 4096 ? *shapeNamed("64-nodes-4096") : testing::bigMachine(size.cpus); }

// Two sockets of 72 CPUs, without and with the 32 nodes that the memory of the GPUs beside them can be split into.
Machine twoNodes() {
  MachineShape shape{2, 1, 1, 72, 1};
  shape.nodeSize = Bytes(std::int64_t{480} << 30);
  shape.otherSocket = 40;
  return regularMachine("2-nodes-144", shape);
}
Machine manyEmptyNodes() { return *shapeNamed("grace-34-nodes-144"); }

class Load {
 public:
  Load(Machine whole, int groups, std::uint64_t seed) : rng_(seed), whole_(std::move(whole)), machine_(whole_), builder_(machine_) {
    for (int g = 0; g < groups; ++g) join();
    settle();
  }

  // One settled decision under new demand of everybody: microseconds.
  double decision() {
    for (GroupState& group : snapshot().groups) setDemand(group);
    return timed();
  }

  // The same, one group's.
  double oneDemand() {
    setDemand(any());
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

  // What a planner keeps, in MB: the growth of the process over machine and snapshot.
  double plannerMegabytes() {
    planner_ = {};
    malloc_trim(0);
    const double before = residentMegabytes();
    for (int i = 0; i < kMemoryRounds; ++i) decision(), replan();
    return residentMegabytes() - before;
  }

 private:
  Snapshot& snapshot() { return builder_.snapshot; }
  GroupState& any() { return snapshot().groups[static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(snapshot().groups.size()) - 1))]; }

  void setDemand(GroupState& group) {
    group.demand = MilliCpu(rng_.between(0, 8000));
    group.queuedBeyondOwnLanes = rng_.chance(50);
    const auto entitled = entitled_.find(group.id);
    if (entitled == entitled_.end() || group.demand > entitled->second) {
      group.demandBelowEntitlementSince.reset();
    } else if (!group.demandBelowEntitlementSince) {
      group.demandBelowEntitlementSince = snapshot().now;
    }
  }

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
    for (const GroupTarget& target : plan.groups) entitled_[target.id] = target.entitlement;
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
  std::map<GroupId, MilliCpu> entitled_;
};

// Figures and verdicts.
class Bench {
 public:
  Bench(std::uint64_t seed, int samples) : seed_(seed), samples_(samples), report_("allocation", seed, samples) {}

  void measureCases() {
    std::vector<std::pair<double, double>> growth;
    for (const Case& size : kCases) {
      const double total = measure(size);
      if (size.cpus >= 64 && size.groups * 4 == size.cpus) growth.emplace_back(size.cpus, total);
    }
    const double slope = testing::logLogSlope(growth);
    report_.add({"slope", "", slope, {{"over", "64/16 128/32 256/64 512/128"}}, std::nullopt, std::nullopt});
    judge("slope", slope, kSlopeLimit, "");
  }

  void compareEmptyNodes() {
    constexpr int kGroups = 36;
    Load few(twoNodes(), kGroups, seed_);
    Load many(manyEmptyNodes(), kGroups, seed_);
    std::vector<double> decisions[2];
    std::vector<double> replans[2];
    for (int i = 0; i < samples_; ++i) decisions[0].push_back(few.decision()), decisions[1].push_back(many.decision());
    for (int i = 0; i < samples_; ++i) replans[0].push_back(few.replan()), replans[1].push_back(many.replan());
    const auto add = [&](const char* name, const std::vector<double>* times) {
      const double ratio = testing::quantile(times[1], .5) / testing::quantile(times[0], .5);
      report_.add({name, "ratio", ratio, {{"cpus", 144}, {"nodes", "34 against 2"}, {"groups", kGroups}}, std::nullopt, std::nullopt});
      judge(name, ratio, kEmptyNodesLimit, "");
    };
    add("empty_nodes_decision", decisions);
    add("empty_nodes_replan", replans);
  }

  int finish(const std::string& path) {
    std::fputs(report_.table().c_str(), stdout);
    for (const std::string& line : verdicts_) std::printf("%s\n", line.c_str());
    const Status written = report_.write(path);
    if (!written.ok()) std::fprintf(stderr, "%s\n", written.error().message.c_str());
    return written.ok() && held_ ? 0 : 1;
  }

 private:
  // CPU time of all decisions.
  double measure(const Case& size) {
    Load load(machineOf(size), size.groups, seed_);
    std::vector<double> decisions;
    std::vector<double> ones;
    std::vector<double> replans;
    double total = 0;
    for (int i = 0; i < samples_; ++i) total += decisions.emplace_back(load.decision());
    for (int i = 0; i < samples_; ++i) ones.push_back(load.oneDemand());
    for (int i = 0; i < samples_; ++i) total += replans.emplace_back(load.replan());
    add(size, "decision_p50", "us", testing::quantile(decisions, .5));
    add(size, "decision_p99", "us", testing::quantile(decisions, .99), size.decisionLimit);
    add(size, "one_demand_p50", "us", testing::quantile(ones, .5));
    add(size, "one_demand_p99", "us", testing::quantile(ones, .99), size.decisionLimit);
    add(size, "replan_p50", "us", testing::quantile(replans, .5));
    add(size, "replan_p99", "us", testing::quantile(replans, .99), size.replanLimit);
    add(size, "planner_rss", "MB", load.plannerMegabytes(), size.decisionLimit > 0 ? kPlannerMegabytes : 0);
    return total;
  }

  void add(const Case& size, const char* name, const char* unit, double value, double limit = 0) {
    report_.add({name, unit, value, {{"cpus", size.cpus}, {"nodes", size.nodes}, {"groups", size.groups}}, std::nullopt, std::nullopt});
    if (limit > 0) judge(std::string(name) + " at " + std::to_string(size.cpus) + " CPUs", value, limit, std::string(" ") + unit);
  }

  void judge(const std::string& name, double value, double limit, const std::string& unit) {
    const bool held = value <= limit;
    char line[200];
    std::snprintf(line, sizeof line, "%s %.2f%s, limit %.6g: %s", name.c_str(), value, unit.c_str(), limit, held ? "held" : "NOT HELD");
    verdicts_.emplace_back(line);
    held_ = held_ && held;
  }

  std::uint64_t seed_;
  int samples_;
  testing::BenchReport report_;
  std::vector<std::string> verdicts_;
  bool held_{true};
};

int run(int argc, char** argv) {
  if (!testing::benchArguments(argc, argv, {}, {"seed", "samples", "json"})) return 2;
  const std::uint64_t seed = std::strtoull(testing::benchOption(argc, argv, "seed", "1").c_str(), nullptr, 10);
  const int samples = std::atoi(testing::benchOption(argc, argv, "samples", "1000").c_str());
  if (samples < 300) {
    std::fprintf(stderr, "--samples: a p99 needs 300 at least\n");
    return 2;
  }
  Bench bench(seed, samples);
  bench.measureCases();
  bench.compareEmptyNodes();
  return bench.finish(testing::benchOption(argc, argv, "json", "build/bench/allocation.json"));
}

}  // namespace
}  // namespace coterie::allocation

int main(int argc, char** argv) { return coterie::allocation::run(argc, argv); }
