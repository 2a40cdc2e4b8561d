// How good plans are: against the exact optimum where a machine is small enough to look at every placement, and against the peers where it is not.
//
// Small: seeded instances (quality/instances.h), all groups newly come. l1_l2_mismatches: plans where the wrong groups wait, a floor is unmet, or an
// entitlement is not the fair one. optimality_gap: (J - J*) / max(J*, 1) over the same CPU counts; limits: no mismatch, mean 2 %, p99 10 %.
// Rivals: on every generated shape (model/machine_shapes.cc) of eight or more CPUs of one kind, one random history of joins, leaves and resizes
// (quality/rivals.h) under drc, kubelet-static, balloons and none, sizes equal. Limits: on no shape more containers across nodes and no more cores
// shared by tenants than under any of them; in total at most half of what each of them has; in total fewer moves than balloons.
// usage: allocation-quality [--json PATH] [--seed N] [--instances N] [--events N] [--instance N] [--shape NAME] [--worst N]
// --instance: judges one instance, prints it with the plan and a best placement, and runs nothing else. --shape: only this shape's histories.
// --worst: prints the N instances of largest gap.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "allocation/quality/instances.h"
#include "allocation/quality/rivals.h"
#include "model/machine_generator.h"
#include "testing/bench_report.h"

namespace coterie::allocation {
namespace {

constexpr double kMeanLimit = .02;
constexpr double kP99Limit = .10;

struct Small {
  std::vector<double> gaps;
  int mismatches{0};
};

bool judgeOne(std::uint64_t seed, bool show, Small& all, Small& shape) {
  const Snapshot snapshot = quality::instanceOf(seed);
  const Plan plan = decide(snapshot, {});
  const quality::Judgement judgement = quality::judge(snapshot, plan);
  const bool exact = judgement.l1 && judgement.l2 && judgement.least >= 0;
  for (Small* one : {&all, &shape}) {
    one->gaps.push_back(judgement.gap());
    one->mismatches += exact ? 0 : 1;
  }
  if (show || !exact) {
    std::printf("instance %llu, gap %.3f, L1 %s, L2 %s: %s", static_cast<unsigned long long>(seed), judgement.gap(), judgement.l1 ? "exact" : "WRONG",
                judgement.l2 ? "exact" : "WRONG", quality::describe(snapshot, plan, judgement).c_str());
  }
  return exact;
}

double meanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(std::max<std::size_t>(1, values.size()));
}

void addSmall(testing::BenchReport& report, const std::string& shape, const Small& small) {
  const std::vector<testing::BenchCase> of{{"shape", shape}, {"instances", static_cast<std::int64_t>(small.gaps.size())}};
  report.add({"optimality_gap_mean", "ratio", meanOf(small.gaps), of, std::nullopt, std::nullopt});
  report.add({"optimality_gap_p99", "ratio", testing::quantile(small.gaps, .99), of, std::nullopt, std::nullopt});
  report.add({"l1_l2_mismatches", "count", static_cast<double>(small.mismatches), of, std::nullopt, std::nullopt});
}

// ---- rivals ----
constexpr std::array kPolicies{PolicyName::Drc, PolicyName::KubeletStatic, PolicyName::Balloons, PolicyName::NoneSingle};
constexpr std::array kPolicyNames{"drc", "kubelet-static", "balloons", "none"};

using Contest = std::array<quality::Placements, kPolicies.size()>;

void addContest(testing::BenchReport& report, const std::string& shape, const Contest& contest) {
  for (std::size_t p = 0; p < contest.size(); ++p) {
    const std::vector<testing::BenchCase> of{{"shape", shape}, {"policy", kPolicyNames[p]}, {"decisions", contest[p].decisions}};
    const auto add = [&](const char* name, std::int64_t value) {
      report.add({name, "count", static_cast<double>(value), of, std::nullopt, std::nullopt});
    };
    add("cross_node_containers", contest[p].crossNodeContainers);
    add("shared_cores", contest[p].sharedCores);
    add("moves", contest[p].moves);
  }
}

// What is measured of a policy, and what it is called.
struct Measure {
  const char* name;
  std::int64_t quality::Placements::* value;
};
constexpr std::array kMeasures{Measure{"containers across nodes", &quality::Placements::crossNodeContainers},
                               Measure{"cores shared by tenants", &quality::Placements::sharedCores}};

class Contests {
 public:
  void add(const std::string& shape, const Contest& contest) {
    ++shapes_;
    for (std::size_t p = 0; p < contest.size(); ++p) {
      for (const auto value : {&quality::Placements::crossNodeContainers, &quality::Placements::sharedCores, &quality::Placements::moves,
                               &quality::Placements::unequal, &quality::Placements::decisions})
        total_[p].*value += contest[p].*value;
      if (p == 0) continue;
      for (const Measure& measure : kMeasures) {
        if (contest[0].*measure.value <= contest[p].*measure.value) continue;
        std::printf("%s: %lld %s, %s %lld: more\n", shape.c_str(), static_cast<long long>(contest[0].*measure.value), measure.name, kPolicyNames[p],
                    static_cast<long long>(contest[p].*measure.value));
        ++more_;
      }
    }
  }
  [[nodiscard]] const Contest& total() const { return total_; }

  [[nodiscard]] bool judge() const {
    bool good = said("shapes where a rival has fewer", more_, more_ == 0, "0");
    for (const Measure& measure : kMeasures) {
      for (std::size_t p = 1; p < total_.size(); ++p) {
        const std::int64_t own = total_[0].*measure.value;
        const std::int64_t theirs = total_[p].*measure.value;
        good = said(std::string(measure.name) + " against " + kPolicyNames[p], own, 2 * own <= theirs, std::to_string(theirs) + " / 2") && good;
      }
    }
    good =
        said("moves against balloons", total_[0].moves, total_[0].moves < total_[2].moves, "fewer than " + std::to_string(total_[2].moves)) && good;
    std::int64_t unequal = 0;
    for (const quality::Placements& one : total_) unequal += one.unequal;
    return said("groups of unequal size", unequal, unequal == 0, "0") && shapes_ > 0 && good;
  }

 private:
  static bool said(const std::string& what, std::int64_t value, bool good, const std::string& limit) {
    std::printf("%s %lld, limit %s: %s\n", what.c_str(), static_cast<long long>(value), limit.c_str(), good ? "held" : "NOT HELD");
    return good;
  }

  Contest total_{};
  int shapes_{0};
  int more_{0};
};

Contests contestAll(const std::string& only, std::uint64_t seed, int events, testing::BenchReport& report) {
  Contests contests;
  for (const std::string_view name : shapeNames()) {
    const Machine machine = shapeNamed(name).value();
    if ((!only.empty() && only != name) || !quality::comparable(machine)) continue;
    Contest contest;
    for (std::size_t p = 0; p < contest.size(); ++p) contest[p] = quality::runHistory(machine, kPolicies[p], seed, events);
    addContest(report, std::string(name), contest);
    contests.add(std::string(name), contest);
  }
  addContest(report, "all", contests.total());
  return contests;
}

bool held(const char* what, double value, double limit) {
  std::printf("%s %.4f, limit %.2f: %s\n", what, value, limit, value <= limit ? "held" : "NOT HELD");
  return value <= limit;
}

struct Options {
  std::uint64_t seed;
  std::uint64_t instances;
  std::uint64_t worst;
};

Small judgeAll(const Options& options, testing::BenchReport& report) {
  Small all;
  std::map<std::string, Small> shapes;
  std::vector<std::pair<double, std::uint64_t>> worst;
  for (std::uint64_t i = 0; i < options.instances; ++i) {
    const std::uint64_t one = options.seed * 1'000'000 + i;
    judgeOne(one, false, all, shapes[quality::instanceOf(one).machine->name]);
    worst.emplace_back(-all.gaps.back(), one);
  }
  for (const auto& [shape, small] : shapes) addSmall(report, shape, small);
  if (!all.gaps.empty()) addSmall(report, "all", all);
  std::sort(worst.begin(), worst.end());
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(options.worst, worst.size()); ++i) {
    Small scratch;
    judgeOne(worst[i].second, true, scratch, scratch);
  }
  return all;
}

int run(int argc, char** argv) {
  if (!testing::benchArguments(argc, argv, {}, {"seed", "instances", "events", "instance", "shape", "worst", "json"})) return 2;
  const auto number = [&](const char* name, const char* otherwise) {
    return std::strtoull(testing::benchOption(argc, argv, name, otherwise).c_str(), nullptr, 10);
  };
  if (!testing::benchOption(argc, argv, "instance", "").empty()) {
    Small scratch;
    return judgeOne(number("instance", "0"), true, scratch, scratch) ? 0 : 1;
  }
  const std::string shape = testing::benchOption(argc, argv, "shape", "");
  const Options options{number("seed", "1"), shape.empty() ? number("instances", "4000") : 0, number("worst", "0")};
  testing::BenchReport report("allocation-quality", options.seed, static_cast<int>(options.instances));
  const Small all = judgeAll(options, report);
  const Contests contests = contestAll(shape, options.seed, static_cast<int>(number("events", "200")), report);
  std::fputs(report.table().c_str(), stdout);
  bool good = contests.judge();
  if (!all.gaps.empty()) {
    good = held("plans not exact in L1 and L2", all.mismatches, 0) && good;
    good = held("gap of J, mean", meanOf(all.gaps), kMeanLimit) && good;
    good = held("gap of J, p99", testing::quantile(all.gaps, .99), kP99Limit) && good;
  }
  const Status written = report.write(testing::benchOption(argc, argv, "json", "build/bench/allocation-quality.json"));
  if (!written.ok()) std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return written.ok() && good ? 0 : 1;
}

}  // namespace
}  // namespace coterie::allocation

int main(int argc, char** argv) { return coterie::allocation::run(argc, argv); }
