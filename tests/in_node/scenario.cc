#include "scenario.h"

#include <algorithm>
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

Form formOf(const Subject& subject, int services, int cpus) {
  const int share = std::max(1, cpus / services);
  Form form;
  if (subject.policy.ends_with("-multi")) form.containers = cpus;
  switch (subject.threads) {
    case Threads::Shipped: form.width = cpus, form.spin = true; break;
    case Threads::Paper: form.width = std::max(1, share / form.containers), form.spin = true; break;
    case Threads::One: break;
    case Threads::Share: form.width = share; break;
    case Threads::All: form.width = cpus; break;
    case Threads::Follow: form.ownLanes = cpus, form.loanLanes = cpus; break;
  }
  return form;
}

std::string formKey(const Subject& subject, int services, int cpus) {
  const Form form = formOf(subject, services, cpus);
  std::string policy = subject.policy.substr(0, subject.policy.find('-'));
  // Exclusive CPUs make no difference where nobody gets one, or where the only container gets all.
  const int containers = services * form.containers;
  if (policy == "cm" && (containers > cpus || containers == 1)) policy = "none";
  // A width of one has no thread that could spin.
  return fmt::format("{} {}x{} {} {}+{}", policy, form.containers, form.width, form.spin && form.width > 1 ? "spin" : "block", form.ownLanes,
                     form.loanLanes);
}

// Done-when 2 of the in-node scheduler: 1.3 over the pairs and 1.5 for two and four MobileNets against what ships; 0.97 against everything.
std::vector<Row> rowsOf(const Scenario& scenario, bool quick) {
  std::vector<Row> rows;
  const bool mobilenets = scenario.name == "mobilenet_v2 x 2" || scenario.name == "mobilenet_v2 x 4";
  const bool pair = scenario.services.size() == 2 && scenario.services[0].model != scenario.services[1].model;
  for (const std::string policy : {"none-single", "none-multi", "cm-single", "cm-multi"}) {
    if (quick && policy != "none-single") break;
    const double shipped = policy != "none-single" ? 0.97 : mobilenets ? 1.5 : pair ? 1.3 : 0.97;
    rows.push_back({policy, "shipped", {{policy, Threads::Shipped}}, shipped});
    if (!quick) rows.push_back({policy, "paper", {{policy, Threads::Paper}}, 0.97});
    rows.push_back({policy, "tuned", {{policy, Threads::One}, {policy, Threads::Share}, {policy, Threads::All}}, 0.97});
  }
  return rows;
}

}  // namespace coterie::in_node
