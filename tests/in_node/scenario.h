// What is compared with what: services, and how a subject runs them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

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
[[nodiscard]] std::vector<Subject> baselines(bool quick);

}  // namespace coterie::in_node
