// What is compared with what: services, and how a subject runs them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench_node.h"

namespace coterie::in_node {

enum class Threads { Shipped, Paper, One, Share, All, Follow };  // Follow: lanes follow the allocation (drc)

struct Subject {
  std::string policy;  // "none-single", "none-multi", "cm-single", "cm-multi", "drc"
  Threads threads{Threads::Follow};
  [[nodiscard]] std::string name() const;
};

struct Arrival {
  std::string model;  // a name of testing::makeModel
  double startSeconds{0};
  int requests{0};  // 0: until stopped
};

struct Scenario {
  std::string name;               // "mobilenet_v2 x 2", "mobilenet_v2 + resnet50"
  std::vector<Arrival> services;  // a tenant each
};

[[nodiscard]] std::string threadsName(Threads threads);
[[nodiscard]] Result<Threads> parseThreads(const std::string& name);
// "model[@start][:requests],..." and back: how a scenario travels to the subject's command line.
[[nodiscard]] std::string encodeServices(const std::vector<Arrival>& services);
[[nodiscard]] Result<std::vector<Arrival>> parseServices(const std::string& text);

// The list. Quick: the pairs and n = 4.
[[nodiscard]] std::vector<Scenario> steadyScenarios(bool quick);
// What the subject's services look like on so many CPUs.
[[nodiscard]] Form formOf(const Subject& subject, int services, int cpus);
// Subjects with the same key run the same processes on the same CPUs with the same threads: one of them stands for all.
[[nodiscard]] std::string formKey(const Subject& subject, int services, int cpus);

// A line of the result: the reference against a policy with `shipped`, `paper` or `tuned` threads.
struct Row {
  std::string policy;
  std::string threads;
  std::vector<Subject> forms;  // tuned: the candidates, of which the best one counts
  double bound{0.97};          // what the reference is to reach
};
[[nodiscard]] std::vector<Row> rowsOf(const Scenario& scenario, bool quick);

}  // namespace coterie::in_node
