// Whether the agent foretells what it then delivers, and what it costs while nothing happens.
//
//   agent [--seconds S] [--servers N] [--threads N] [--containers N] [--idle-seconds S] [--coterie PATH] [--only gain|idle] [--json PATH]
//
// gain: three model servers, or N <= 3 (ONNX Runtime on a MobileNet-like model, N threads each, by default as many as there are CPUs, which is what
// it takes by itself), of tenants of weights 200, 100, 100, under three cares: none; the agent with CPU sets alone; the agent with sets and the
// thread hint. All three are resident, two of them frozen with their agents; slices of a second in blocks of eight (none sets threads none, and the
// reverse). A block yields for each care the log ratio of the geometric mean of the servers' runs per second to that without an agent. In between,
// an observing agent foretells over the servers without one. forecast_error compares what it calls likely (geometric mean of its forecasts) with
// what was delivered. The CPUs that each care had stand beside.
// idle: CPU time of the agent over 200 sleeping containers, enforcing and observing, each twice in a row (A/A).
// Looked at after 12, 24 and 48 blocks: 2, 4 or (S = 300 at most) 5 minutes, and two minutes for the idle loop. Exit status 1 if a target is missed.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "idle_node.h"
#include "model/value.h"
#include "model_server.h"
#include "node_subject.h"
#include "onnx/default_library.h"
#include "testing/bench_report.h"
#include "testing/onnx_writer.h"
#include "testing/paired.h"
#include "text/text.h"

namespace coterie::agent_bench {
namespace {

using testing::BenchCase;
using testing::BenchReport;
using testing::BenchTarget;
using testing::BenchVerdicts;
using Bound = BenchTarget::Bound;
using SteadyClock = std::chrono::steady_clock;

constexpr Nanos kSlice{Seconds(1)};
constexpr Seconds kWindow{4};
constexpr std::size_t kBlocksPerForecast = 3;
constexpr double kNarrow = 0.03;
constexpr double kTolerance = 0.15;

// The log of the geometric mean of the servers' rates over some slices.
double logRate(const std::vector<Slice>& slices) {
  double sum = 0;
  for (std::size_t i = 0; i < slices.front().rates.size(); ++i) {
    double rate = 0;
    for (const Slice& slice : slices) rate += slice.rates[i];
    sum += std::log(std::max(rate / static_cast<double>(slices.size()), 1e-6));
  }
  return sum / static_cast<double>(slices.front().rates.size());
}

// Of several forecasts, the geometric means; as logs.
struct Foretold {
  double low{0}, likely{0}, high{0};
  int count{0};
  void add(const Value& forecast, const char* kind) {
    const Value* gain = forecast.find(kind);
    if (gain == nullptr) return;
    const auto logOf = [&](const char* name) {
      const Value* value = gain->find(name);
      const double* number = value == nullptr ? nullptr : value->asDouble();
      return number == nullptr || *number <= 0 ? 0 : std::log(*number);
    };
    low += logOf("low");
    likely += logOf("likely");
    high += logOf("high");
    ++count;
  }
  [[nodiscard]] double mean(double sum) const { return count > 0 ? std::exp(sum / count) : 1; }
};

struct Gains {
  std::vector<double> sets, threads, same;  // log ratios per block
  Foretold setsForetold, threadsForetold;
  std::map<Care, std::vector<Slice>> slices;
};

Status addForecast(NodeSubject& none, Gains& gains) {
  const auto text = none.foretold(kWindow);
  if (!text) return text.error();
  const std::size_t begin = text->find('{');
  const auto report = text::parseJson(begin == std::string::npos ? *text : text->substr(begin));
  const Value* forecast = report.ok() ? report->find("forecast") : nullptr;
  if (forecast == nullptr || forecast->asMap() == nullptr)
    return Error{Code::Unavailable, "NoForecast", "the agent foretold nothing: " + text->substr(0, 500)};
  gains.setsForetold.add(*forecast, "cpuSets");
  gains.threadsForetold.add(*forecast, "cpuSetsAndThreads");
  return {};
}

Result<Gains> measureGains(const Setup& setup, Seconds limit) {
  std::map<Care, std::unique_ptr<NodeSubject>> subjects;
  for (const Care care : {Care::None, Care::Sets, Care::SetsAndThreads}) {
    auto subject = NodeSubject::start(setup, care);
    if (!subject) return subject.error();
    subjects[care] = std::move(subject).value();
  }
  Gains gains;
  const auto began = SteadyClock::now();
  const std::vector<Care> half{Care::None, Care::Sets, Care::SetsAndThreads, Care::None};
  std::vector<Care> order = half;
  order.insert(order.end(), half.rbegin(), half.rend());
  const auto wide = [](const std::vector<double>& ratios) { return testing::pairedRatio(ratios).halfWidth() > kNarrow; };
  for (std::size_t block = 0; block < testing::kLooks.back() && SteadyClock::now() - began < limit; ++block) {
    if (block % kBlocksPerForecast == 0) {
      if (const Status seen = addForecast(*subjects[Care::None], gains); !seen) return seen.error();
    }
    std::map<Care, std::vector<Slice>> slices;
    for (const Care care : order) {
      const auto slice = subjects[care]->slice(kSlice);
      if (!slice) return slice.error();
      slices[care].push_back(*slice);
      gains.slices[care].push_back(*slice);
    }
    const auto& none = slices[Care::None];
    gains.sets.push_back(logRate(slices[Care::Sets]) - logRate(none));
    gains.threads.push_back(logRate(slices[Care::SetsAndThreads]) - logRate(none));
    gains.same.push_back(logRate({none[1], none[2]}) - logRate({none[0], none[3]}));
    const bool look = std::find(testing::kLooks.begin(), testing::kLooks.end(), block + 1) != testing::kLooks.end();
    if (look && !wide(gains.sets) && !wide(gains.threads)) break;
  }
  return gains;
}

void reportGain(BenchVerdicts& verdicts, const std::string& care, const std::vector<double>& ratios, const Foretold& foretold) {
  const std::vector<BenchCase> of{{"care", care}};
  const testing::Ratio delivered = testing::pairedRatio(ratios);
  const double likely = foretold.mean(foretold.likely);
  verdicts.add({"gain_delivered", "ratio", delivered.value, of, delivered.low, delivered.high});
  verdicts.add({"gain_foretold", "ratio", likely, of, foretold.mean(foretold.low), foretold.mean(foretold.high)});
  verdicts.add({"forecast_error", "ratio", std::abs(likely / delivered.value - 1), of, {}, {}}, {Bound::AtMost, kTolerance});
}

void report(BenchVerdicts& verdicts, const Gains& gains) {
  const testing::Ratio same = testing::pairedRatio(gains.same);
  std::printf("%zu blocks, %d forecasts\n", gains.sets.size(), gains.setsForetold.count);
  verdicts.add({"gain_delivered", "ratio", same.value, {{"care", "none, again (A/A)"}}, same.low, same.high});
  reportGain(verdicts, "sets", gains.sets, gains.setsForetold);
  reportGain(verdicts, "sets and threads", gains.threads, gains.threadsForetold);
  const std::map<Care, std::string> names{{Care::None, "none"}, {Care::Sets, "sets"}, {Care::SetsAndThreads, "sets and threads"}};
  for (const auto& [care, slices] : gains.slices) {
    const auto mean = [&](const auto& of) {
      double sum = 0;
      for (const Slice& slice : slices) sum += of(slice);
      return sum / static_cast<double>(slices.size());
    };
    verdicts.add({"cpus_used", "CPUs", mean([](const Slice& slice) { return slice.cpus; }), {{"care", names.at(care)}}, {}, {}});
    for (std::size_t i = 0; i < slices.front().rates.size(); ++i) {
      verdicts.add({"throughput",
                    "runs/s",
                    mean([&](const Slice& slice) { return slice.rates[i]; }),
                    {{"care", names.at(care)}, {"tenant", kTenants[i]}},
                    {},
                    {}});
    }
  }
  std::fflush(stdout);
}

Status reportIdle(BenchVerdicts& verdicts, int containers, node_agent::Mode mode, Seconds time, const std::string& folder) {
  const auto cost = measureIdle(containers, mode, time, folder);
  if (!cost) return cost.error();
  if (cost->containers != containers)
    return Error{Code::Internal, "NotPlaced", fmt::format("{} of {} containers were placed", cost->containers, containers)};
  const std::vector<BenchCase> of{{"containers", containers}, {"cpus", "idle"}, {"mode", mode == node_agent::Mode::Enforce ? "enforce" : "observe"}};
  verdicts.add({"idle_loop", "percent", cost->percent, of, {}, {}}, {Bound::AtMost, 0.5});
  verdicts.add({"idle_loop_again", "ratio", cost->again / cost->percent, of, {}, {}});  // A/A
  return {};
}

Status measure(int argc, char** argv, const std::string& folder, BenchVerdicts& verdicts) {
  const auto number = [&](const char* name, int otherwise) {
    return std::atoi(testing::benchOption(argc, argv, name, std::to_string(otherwise)).c_str());
  };
  const std::string only = testing::benchOption(argc, argv, "only", "");
  const int cpus = testing::thisMachine().cpus;
  if (cpus < 2) return Error{Code::Unavailable, "TooSmall", "two CPUs are needed"};
  if (only != "idle") {
    Setup setup{"/proc/self/exe",
                std::filesystem::absolute(testing::benchOption(argc, argv, "coterie", "build/release/apps/coterie/coterie")),
                onnx::defaultLibrary(),
                folder + "/model.onnx",
                folder,
                std::clamp(number("servers", 3), 1, 3),
                number("threads", cpus)};
    const auto model = testing::makeModel("mobilenet_v2");
    if (!model) return model.error();
    std::ofstream(setup.model, std::ios::binary) << *model;
    const auto gains = measureGains(setup, Seconds(number("seconds", 300)));
    if (!gains) return gains.error();
    report(verdicts, *gains);
  }
  if (only != "gain") {
    for (const node_agent::Mode mode : {node_agent::Mode::Enforce, node_agent::Mode::Observe}) {
      if (const Status idle = reportIdle(verdicts, number("containers", 200), mode, Seconds(number("idle-seconds", 20)), folder); !idle) return idle;
    }
  }
  return {};
}

int benchMain(int argc, char** argv) {
  if (!testing::benchArguments(argc, argv, {}, {"seconds", "servers", "threads", "containers", "idle-seconds", "coterie", "only", "json"})) return 2;
  log::setLevel(log::Level::Error);
  std::string folder = (std::filesystem::temp_directory_path() / "coterie-agent-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "agent: cannot make a folder like %s\n", folder.c_str());
    return 1;
  }
  BenchReport report("agent", 1, static_cast<int>(testing::kLooks.front()));
  BenchVerdicts verdicts(report);
  const Status measured = measure(argc, argv, folder, verdicts);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  const std::string path = testing::benchOption(argc, argv, "json", "build/bench/agent.json");
  const Status written = measured.ok() ? report.write(path) : measured;
  if (!written) {
    std::fprintf(stderr, "agent: %s\n", written.error().message.c_str());
    return 1;
  }
  std::printf("figures: %s\n", path.c_str());
  return verdicts.good() ? 0 : 1;
}

}  // namespace
}  // namespace coterie::agent_bench

int main(int argc, char** argv) {
  using namespace coterie::agent_bench;
  const std::vector<std::string> words(argv + std::min(argc, 2), argv + argc);
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--tree") return runTree(words);
  if (first == "--server" && words.size() == 5) return serveModel({words[2], words[3], words[0], words[1], std::atoi(words[4].c_str())});
  return benchMain(argc, argv);
}
