#include "changes.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "base/rng.h"
#include "change_log.h"
#include "testing/bench_report.h"
#include "testing/foreign_load.h"
#include "thread_sampler.h"

namespace coterie::elastic {

namespace {

constexpr int kRssEvery = 20;
constexpr Nanos kSettle = Millis(70);
constexpr Nanos kWindow = Millis(20);

double residentBytes(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::atof(line.c_str() + 6) * 1024;
  }
  return 0;
}

// "slow_1ms" multiplies two square matrices by each other twice, and before that makes one of them from its input's rows: as many rows as one of the
// matrices has take half as long again. So many rows that a run takes a millisecond on this machine.
Shape millisecondShape(const InstanceReady& ready) {
  constexpr std::int64_t kRows = 256, kColumns = 64;
  const std::int64_t probe = ready.speeds.empty() ? 0 : std::max<std::int64_t>(ready.speeds.front().cpu.count(), 100'000);
  const std::int64_t missing = Nanos(Millis(1)).count() - probe;
  return {probe == 0 ? 1 : std::clamp<std::int64_t>(2 * kRows * missing / probe, 1, 16 * kRows), kColumns};
}

struct Recorded {
  ChangeLog log;
  std::vector<double> rss;  // after every 20th change: always at the same lanes
  double gapP99{0};
  bool realtime{false};
  double foreignCpus{0};
};

Result<Recorded> record(ElasticNode& node, std::size_t service, const ChangesOptions& options) {
  Recorded recorded;
  in_node::ServiceCounters counters;
  in_node::ClosedLoopOptions load;
  load.outstanding = 2 * node.node().cpus();
  load.shapes.push_back(millisecondShape(node.node().firstReady(service)));
  load.observer = [&](const in_node::AnswerSeen& seen) {
    if (seen.good && seen.laneClass == LaneClass::Own) recorded.log.runs.push_back({seen.lane, seen.dispatched, seen.answered, seen.cpu});
  };
  agent::GroupSpec spec = in_node::BenchNode::groupSpec(service);
  const MilliCpu small(1000), large(1000 * node.node().cpus());
  spec.ceiling = small;
  node.node().drc().setGroup(spec);
  node.node().beginLoad(service, counters, load, {});
  if (const Status status = node.pass(Seconds(3)); !status) return status.error();
  const InstanceReady& ready = node.node().firstReady(service);
  auto sampler = ThreadSampler::start(ready.pid, ready.ownLaneThreads, 8'000'000);
  if (!sampler) return sampler.error();
  const testing::ForeignLoad foreign({ready.pid});
  Rng rng(1);
  const auto decide = [&](MilliCpu ceiling) -> Result<Change> {
    Change change;
    change.before = node.home(service);
    spec.ceiling = ceiling;
    change.decided = node.now();
    node.node().drc().setGroup(spec);
    const auto spread = Nanos(static_cast<std::int64_t>(rng.unit() * static_cast<double>(options.pause.count()) / 5));
    if (const Status status = node.pass(options.pause * 9 / 10 + spread); !status) return status.error();
    change.until = node.now();
    change.after = node.home(service);
    return change;
  };
  for (int i = 0; i < options.changes; ++i) {
    if (i % 100 == 0) std::fprintf(stderr, "elastic: change %d of %d\n", i, options.changes);
    const bool grow = i % 2 == 0;
    const auto change = decide(grow ? large : small);
    if (!change) return change.error();
    recorded.log.changes.push_back(*change);
    if ((i + 1) % kRssEvery == 0) recorded.rss.push_back(residentBytes(ready.pid));
    if (!grow) continue;
    const auto hold = decide(large);
    if (!hold) return hold.error();
    recorded.log.holds.push_back(*hold);
  }
  recorded.foreignCpus = foreign.cpus();
  (*sampler)->stop();
  recorded.log.samples = (*sampler)->samples();
  recorded.gapP99 = testing::quantile((*sampler)->gapsMillis(), 0.99);
  recorded.realtime = (*sampler)->realtime();
  node.node().load(service).setOutstanding(0);
  if (const Status status = node.pass(Seconds(1)); !status) return status.error();
  node.node().stopService(service);
  if (const Status status = node.pass(Seconds(2)); !status) return status.error();
  if (counters.failed.load() > 0) return Error{Code::Unavailable, "RequestsFailed", std::to_string(counters.failed.load()) + " requests failed"};
  return recorded;
}

}  // namespace

Result<ChangesFigures> measureChanges(ElasticNode& node, std::size_t service, const ChangesOptions& options) {
  const auto recorded = record(node, service, options);
  if (!recorded) return recorded.error();
  const ChangeLog& log = recorded->log;
  ChangesFigures figures;
  std::vector<double> small, large, runs;
  for (const RunSeen& run : log.runs) runs.push_back(static_cast<double>(run.cpu.count()) / 1e6);
  figures.runP50 = testing::quantile(runs, 0.5);
  for (const Change& change : log.changes) {
    const bool grow = change.after.count() > change.before.count();
    if (!grow && change.after.count() >= change.before.count())
      return Error{Code::Unavailable, "NoChange", "a decision left the CPUs as they were: " + change.after.toString()};
    (grow ? large : small).push_back(settledRate(log, change, kSettle));
  }
  figures.smallRate = testing::quantile(small, 0.5);
  figures.largeRate = testing::quantile(large, 0.5);
  std::ofstream dump;
  if (!options.dump.empty()) dump.open(options.dump);
  for (const Change& change : log.changes) {
    const double whole = static_cast<double>((change.until - change.decided).count()) / 1e6;
    if (change.after.count() < change.before.count()) {
      figures.cpuLeft.push_back(cpuLeft(log, change));
      dump << "shrink " << figures.cpuLeft.back() << "\n";
      continue;
    }
    const LaneStart start = laneStarted(log, change);
    figures.laneStarts.push_back(start.both().value_or(whole));
    // The level is this change's own, if the machine had less to give just then.
    const double own = settledRate(log, change, kSettle);
    const auto followed = rateFollowed(log, change, {std::min(own, figures.largeRate), kWindow});
    figures.followed.push_back(followed.value_or(whole));
    const double ownCpu = settledRate(log, change, kSettle, Unit::CpuSeconds);
    figures.cpuFollowed.push_back(rateFollowed(log, change, {ownCpu, kWindow, Unit::CpuSeconds}).value_or(whole));
    figures.notFollowed += followed ? 0 : 1;
    dump << "grow ran " << start.ran.value_or(whole) << " seen " << start.seen.value_or(whole) << " followed " << figures.followed.back() << " cpu "
         << figures.cpuFollowed.back() << " rate " << own << "\n";
  }
  for (const Change& hold : log.holds) {
    const double whole = static_cast<double>((hold.until - hold.decided).count()) / 1e6;
    const double level = std::min(settledRate(log, hold, kSettle), figures.largeRate);
    figures.held.push_back(rateFollowed(log, hold, {level, kWindow, Unit::Answers, figures.smallRate / figures.largeRate}).value_or(whole));
    dump << "hold " << figures.held.back() << "\n";
  }
  for (const double rss : recorded->rss) dump << "rss " << rss << "\n";
  if (!recorded->rss.empty() && recorded->rss.front() > 0) figures.rssGrowth = recorded->rss.back() / recorded->rss.front();
  figures.sampleGapP99 = recorded->gapP99;
  figures.foreignCpus = recorded->foreignCpus;
  figures.realtimeSampler = recorded->realtime;
  return figures;
}

}  // namespace coterie::elastic
