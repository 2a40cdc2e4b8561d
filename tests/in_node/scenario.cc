#include "scenario.h"

#include <cstdlib>

#include <fmt/format.h>

namespace coterie::in_node {

std::string threadsName(Threads threads) {
  switch (threads) {
    case Threads::Shipped: return "shipped";
    case Threads::Paper: return "paper";
    case Threads::One: return "one";
    case Threads::Share: return "share";
    case Threads::All: return "all";
    case Threads::Follow: return "follow";
  }
  return "?";
}

Result<Threads> parseThreads(const std::string& name) {
  for (const Threads threads : {Threads::Shipped, Threads::Paper, Threads::One, Threads::Share, Threads::All, Threads::Follow}) {
    if (threadsName(threads) == name) return threads;
  }
  return Error{Code::InvalidArgument, "UnknownThreads", "threads " + name + ": one of shipped, paper, one, share, all, follow"};
}

std::string Subject::name() const { return threads == Threads::Follow ? policy : policy + "/" + threadsName(threads); }

std::string encodeServices(const std::vector<Arrival>& services) {
  std::string text;
  for (const Arrival& service : services)
    text += fmt::format("{}{}@{}:{}", text.empty() ? "" : ",", service.model, service.startSeconds, service.requests);
  return text;
}

Result<std::vector<Arrival>> parseServices(const std::string& text) {
  std::vector<Arrival> services;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find(',', from), text.size());
    const std::string item = text.substr(from, end - from);
    const std::size_t colon = std::min(item.find(':'), item.size());
    const std::size_t at = std::min(item.find('@'), colon);
    Arrival arrival;
    arrival.model = item.substr(0, at);
    if (arrival.model.empty()) return Error{Code::InvalidArgument, "BadServices", "\"" + text + "\": MODEL[@SECONDS][:REQUESTS],... is wanted"};
    if (at < colon) arrival.startSeconds = std::atof(item.substr(at + 1, colon - at - 1).c_str());
    if (colon < item.size()) arrival.requests = std::atoi(item.substr(colon + 1).c_str());
    services.push_back(arrival);
    from = end + 1;
  }
  return services;
}

namespace {
Scenario same(const std::string& model, int n) {
  return {fmt::format("{} x {}", model, n), std::vector<Arrival>(static_cast<std::size_t>(n), Arrival{model, 0, 0})};
}
Scenario mixed(const std::vector<std::string>& models) {
  Scenario scenario;
  for (const auto& model : models) {
    scenario.name += (scenario.name.empty() ? "" : " + ") + model;
    scenario.services.push_back({model, 0, 0});
  }
  return scenario;
}
}  // namespace

std::vector<Scenario> steadyScenarios(bool quick) {
  const std::string mobilenet = "mobilenet_v2", resnet = "resnet50", vgg = "vgg16";
  std::vector<Scenario> scenarios{mixed({mobilenet, resnet}), mixed({resnet, vgg}), mixed({mobilenet, vgg}), same(mobilenet, 4)};
  if (quick) return scenarios;
  for (const int n : {1, 2, 8}) scenarios.push_back(same(mobilenet, n));
  for (const int n : {1, 2, 4}) scenarios.push_back(same(resnet, n));
  for (const int n : {1, 2}) scenarios.push_back(same(vgg, n));
  scenarios.push_back(mixed({mobilenet, resnet, vgg}));
  return scenarios;
}

std::vector<Subject> baselines(bool quick) {
  if (quick)
    return {{"none-single", Threads::Shipped}, {"none-single", Threads::One}, {"none-single", Threads::Share}, {"none-single", Threads::All}};
  std::vector<Subject> all;
  for (const char* policy : {"none-single", "none-multi", "cm-single", "cm-multi"}) {
    for (const Threads threads : {Threads::Shipped, Threads::Paper, Threads::One, Threads::Share, Threads::All}) all.push_back({policy, threads});
  }
  return all;
}

}  // namespace coterie::in_node
