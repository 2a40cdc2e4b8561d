#include "rows.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "session.h"

namespace coterie::in_node {
namespace {

using testing::BenchCase;
using testing::BenchReport;
using testing::Verdict;

const Subject kDrc{"drc", Threads::Follow};
constexpr double kFloor = 0.97;  // against everything
constexpr double kPairs = 1.3;   // geometric mean over the pairs, against none-single/shipped
constexpr const char* kControl = "A/A";

const char* verdictText(Verdict verdict) {
  switch (verdict) {
    case Verdict::Holds: return "holds";
    case Verdict::Fails: return "FAILS";
    case Verdict::Inconclusive: return "inconclusive";
    case Verdict::Open: return "open";
  }
  return "?";
}

// What a scenario measures, and which rival stands for which form.
struct Field {
  std::vector<Rival> rivals;
  std::map<std::string, std::size_t> byForm;
};

Field fieldOf(const std::vector<Row>& rows, int services, int cpus) {
  Field field;
  for (const Row& row : rows) {
    for (const Subject& form : row.forms) {
      const auto [found, added] = field.byForm.emplace(formKey(form, services, cpus), field.rivals.size());
      if (added) field.rivals.push_back({form, kFloor, false, false});
      Rival& rival = field.rivals[found->second];
      if (row.threads == "tuned") {
        rival.candidate = true;
      } else {
        rival.measuredAnyway = true;
        rival.bound = std::max(rival.bound, row.bound);
      }
    }
  }
  return field;
}

class Steady {
 public:
  Steady(BenchReport& report, std::vector<Bar>& bars, const RowsOptions& options) : report_(report), bars_(bars), options_(options) {
    if (!options.slices.empty()) slices_.open(options.slices);
  }
  bool run();

 private:
  [[nodiscard]] std::vector<Scenario> scenarios() const;
  [[nodiscard]] std::vector<Row> rows(const Scenario& scenario, bool first) const;
  bool scenario(const Scenario& scenario, const std::vector<Row>& rows, Seconds limit);
  void row(const Scenario& scenario, const Row& row, const Field& field, const SessionResult& result);
  void services(const Scenario& scenario, const Subject& subject, const std::vector<ServiceFigures>& figures);
  void pairs() const;

  BenchReport& report_;
  std::vector<Bar>& bars_;
  const RowsOptions& options_;
  std::ofstream slices_;
  int cpus_{std::max(1, testing::thisMachine().cpus)};
  std::vector<testing::Ratio> pairs_;
};

std::vector<Scenario> Steady::scenarios() const {
  std::vector<Scenario> chosen = steadyScenarios(options_.quick);
  std::erase_if(chosen, [&](const Scenario& one) { return one.name.find(options_.scenario) == std::string::npos; });
  return chosen;
}

std::vector<Row> Steady::rows(const Scenario& scenario, bool first) const {
  std::vector<Row> rows;
  if (first || options_.onlyControls) rows.push_back({"drc", kControl, {kDrc}, kFloor});
  if (options_.onlyControls) return rows;
  for (Row& row : rowsOf(scenario, options_.quick)) {
    if (options_.against.empty() || row.policy == options_.against) rows.push_back(std::move(row));
  }
  return rows;
}

// A scenario's share of the time: slices wait for the slowest service, and every form takes its turns.
double weightOf(const Scenario& scenario, const Field& field) {
  const bool slow = std::any_of(scenario.services.begin(), scenario.services.end(), [](const Arrival& one) { return one.model == "vgg16"; });
  return (static_cast<double>(field.rivals.size()) + 2) * (slow ? 2 : 1);
}

bool Steady::run() {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + options_.limit;
  struct Work {
    Scenario scenario;
    std::vector<Row> rows;
    double weight{0};
  };
  std::vector<Work> works;
  double weights = 0;
  for (Scenario& one : scenarios()) {
    Work work{std::move(one), {}, 0};
    work.rows = rows(work.scenario, works.empty());
    work.weight = weightOf(work.scenario, fieldOf(work.rows, static_cast<int>(work.scenario.services.size()), cpus_));
    weights += work.weight;
    works.push_back(std::move(work));
  }
  bool good = true;
  for (const Work& work : works) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    const auto limit = Seconds(std::max<std::int64_t>(1, std::llround(left * work.weight / weights)));
    weights -= work.weight;
    good = scenario(work.scenario, work.rows, limit) && good;
  }
  pairs();
  return good;
}

bool Steady::scenario(const Scenario& scenario, const std::vector<Row>& rows, Seconds limit) {
  const int count = static_cast<int>(scenario.services.size());
  const Field field = fieldOf(rows, count, cpus_);
  SessionOptions session;
  session.limit = limit;
  if (slices_.is_open()) {
    session.observer = [&](const SliceSeen& seen) {
      slices_ << scenario.name << ',' << seen.block << ',' << seen.subject << ',' << fmt::format("{:.6f}", seen.work.logRate()) << '\n';
    };
  }
  const auto began = std::chrono::steady_clock::now();
  const auto result = compareAll(scenario, kDrc, field.rivals, session);
  slices_.flush();
  if (!result) {
    std::printf("  %-28s failed: %s\n", scenario.name.c_str(), result.error().message.c_str());
    return false;
  }
  std::printf("  %s (%zu forms, %.0f s)\n", scenario.name.c_str(), field.rivals.size(),
              std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  for (const Row& one : rows) row(scenario, one, field, *result);
  services(scenario, kDrc, result->reference);
  for (std::size_t i = 0; i < field.rivals.size(); ++i) {
    if (field.rivals[i].subject.policy != kDrc.policy) services(scenario, field.rivals[i].subject, result->rivals[i].figures);
  }
  std::fflush(stdout);
  return true;
}

void Steady::row(const Scenario& scenario, const Row& row, const Field& field, const SessionResult& result) {
  const int count = static_cast<int>(scenario.services.size());
  const Compared* least = nullptr;
  const Subject* best = nullptr;
  for (const Subject& form : row.forms) {
    const Compared& compared = result.rivals[field.byForm.at(formKey(form, count, cpus_))];
    if (least != nullptr && compared.decision.ratio.value >= least->decision.ratio.value) continue;
    least = &compared;
    best = &form;
  }
  const testing::Ratio& ratio = least->decision.ratio;
  const std::string threads = row.threads == "tuned" ? "tuned=" + threadsName(best->threads) : row.threads;
  // The rival's own verdict is on the highest bound that any of its rows has.
  const Verdict verdict = ratio.low >= row.bound ? Verdict::Holds : ratio.high < row.bound ? Verdict::Fails : least->decision.verdict;
  std::printf("    %-26s %.3f [%.3f, %.3f] in %2zu blocks  >= %.2f %s\n", (row.policy + "/" + threads).c_str(), ratio.value, ratio.low, ratio.high,
              ratio.blocks, row.bound, verdictText(verdict));
  report_.add({"throughput_ratio",
               "ratio",
               ratio.value,
               {{"scenario", scenario.name},
                {"n", count},
                {"policy", kDrc.policy},
                {"against", row.policy},
                {"threads", threads},
                {"blocks", static_cast<int>(ratio.blocks)},
                {"verdict", verdictText(verdict)}},
               ratio.low,
               ratio.high});
  bars_.push_back({scenario.name + " / " + row.policy + "/" + threads, ratio});
  if (row.policy == "none-single" && row.threads == "shipped" && row.bound == kPairs) pairs_.push_back(ratio);
}

void Steady::services(const Scenario& scenario, const Subject& subject, const std::vector<ServiceFigures>& figures) {
  const std::string threads = threadsName(subject.threads);
  const int count = static_cast<int>(figures.size());
  double logs = 0;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const std::vector<BenchCase> of{{"scenario", scenario.name},
                                    {"n", count},
                                    {"policy", subject.policy},
                                    {"threads", threads},
                                    {"service", fmt::format("{}:{}", i, scenario.services[i].model)}};
    report_.add({"throughput", "requests/s", figures[i].throughput, of, {}, {}});
    report_.add({"latency_p50", "ms", static_cast<double>(figures[i].p50.count()) / 1e6, of, {}, {}});
    if (figures[i].p99 != Nanos{}) report_.add({"latency_p99", "ms", static_cast<double>(figures[i].p99.count()) / 1e6, of, {}, {}});
    logs += std::log(std::max(figures[i].throughput, 1e-9)) / count;
  }
  report_.add({"geomean_throughput",
               "requests/s",
               std::exp(logs),
               {{"scenario", scenario.name}, {"n", count}, {"policy", subject.policy}, {"threads", threads}},
               {},
               {}});
}

// The pairs were measured apart, so the variances of their logs add up.
void Steady::pairs() const {
  if (pairs_.size() < 2) return;
  double mean = 0;
  double squares = 0;
  const auto count = static_cast<double>(pairs_.size());
  for (const testing::Ratio& ratio : pairs_) {
    mean += std::log(ratio.value) / count;
    squares += std::pow(std::log(ratio.high / ratio.low) / 2, 2);
  }
  const double half = std::sqrt(squares) / count;
  std::printf("  geometric mean over the %zu pairs against none-single/shipped: %.3f [%.3f, %.3f] (wanted: %.1f)\n", pairs_.size(), std::exp(mean),
              std::exp(mean - half), std::exp(mean + half), kPairs);
}

}  // namespace

bool runRows(BenchReport& report, std::vector<Bar>& bars, const RowsOptions& options) { return Steady(report, bars, options).run(); }

}  // namespace coterie::in_node
