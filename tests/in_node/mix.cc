#include "mix.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "running_subject.h"
#include "scenario.h"

namespace coterie::in_node {

namespace {

const std::vector<Subject> kSubjects{{"drc", Threads::Follow},
                                     {"none-single", Threads::Shipped},
                                     {"none-single", Threads::One},
                                     {"none-single", Threads::All},
                                     {"cm-multi", Threads::One}};

// All subjects are resident and run by turns, a second each in a drawn order, so that what else happens on the machine falls on all alike; each
// one's time is its own active time. Seconds, as the subjects are listed.
Result<std::vector<double>> makespans(const Scenario& scenario) {
  struct Runner {
    std::unique_ptr<RunningSubject> running;
    double seconds{0};
  };
  std::vector<Runner> runners;
  std::vector<std::size_t> left;
  for (const Subject& subject : kSubjects) {
    auto running = RunningSubject::start(scenario, subject, "mix-" + std::to_string(runners.size()));
    if (!running) return running.error();
    if (const Status frozen = (*running)->freeze(); !frozen) return frozen.error();
    left.push_back(runners.size());
    runners.push_back({std::move(running).value(), 0});
  }
  Rng rng(1);
  while (!left.empty()) {
    for (std::size_t i = left.size(); i > 1; --i)
      std::swap(left[i - 1], left[static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(i) - 1))]);
    for (const std::size_t which : left) {
      const auto seconds = runners[which].running->finishWithin(Seconds(1));
      if (!seconds) return Error{seconds.error().code, seconds.error().reason, kSubjects[which].name() + ": " + seconds.error().message};
      runners[which].seconds = *seconds;
      if (*seconds > 0) runners[which].running.reset();
    }
    std::erase_if(left, [&](std::size_t which) { return runners[which].running == nullptr; });
  }
  std::vector<double> seconds;
  for (const Runner& runner : runners) seconds.push_back(runner.seconds);
  return seconds;
}

bool runOrder(testing::BenchReport& report, const Scenario& scenario) {
  const auto seconds = makespans(scenario);
  if (!seconds) {
    std::printf("  %-28s failed: %s\n", scenario.name.c_str(), seconds.error().message.c_str());
    return false;
  }
  for (std::size_t i = 0; i < kSubjects.size(); ++i) {
    std::printf("  %-28s %-26s %.1f s\n", scenario.name.c_str(), kSubjects[i].name().c_str(), (*seconds)[i]);
    report.add({"makespan",
                "s",
                (*seconds)[i],
                {{"scenario", scenario.name}, {"policy", kSubjects[i].policy}, {"threads", threadsName(kSubjects[i].threads)}},
                {},
                {}});
  }
  const double best = *std::min_element(seconds->begin() + 1, seconds->end());
  std::printf("  %-28s drc takes %.3f times the best other one (wanted: at most 1.03)\n", scenario.name.c_str(), seconds->front() / best);
  std::fflush(stdout);
  return true;
}

}  // namespace

bool runMix(testing::BenchReport& report, double secondsAlone) {
  std::vector<std::string> models{"mobilenet_v2", "resnet50", "vgg16"};
  std::map<std::string, int> counts;
  for (const auto& model : models) {
    const auto rate = throughputAlone({model, {{model, 0, 0}}}, kSubjects.front());
    if (!rate) return std::printf("  mix: %s\n", rate.error().message.c_str()), false;
    counts[model] = std::max(1, static_cast<int>(*rate * secondsAlone));
  }
  for (const char* name : {"mix, light first", "mix, heavy first"}) {
    Scenario scenario{name, {}};
    for (std::size_t i = 0; i < models.size(); ++i) scenario.services.push_back({models[i], 5.0 * static_cast<double>(i), counts[models[i]]});
    if (!runOrder(report, scenario)) return false;
    std::reverse(models.begin(), models.end());
  }
  return true;
}

}  // namespace coterie::in_node
