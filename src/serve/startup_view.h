// What a person sees while `coterie serve` starts: a line with a progress bar per model while it loads, then a table of what answers and where, one
// curl command per tenant, and what to try next. On a terminal lines are redrawn in place; in a pipe each change of state is one line. Colours only
// where wanted. Thread rule: control loop.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "agent/drc.h"
#include "base/units.h"
#include "controller/instance_reconciler.h"

namespace coterie::serve {

struct DemoKey {
  TenantName tenant;
  std::string key;
};

// Ready-made request bodies: FOLDER/bodies/SERVICE.json, and FOLDER/answer.py that turns a reply into words.
struct Examples {
  std::vector<std::string> folders;
  // The rest of a curl command for this service; empty: there is no body for it.
  [[nodiscard]] std::string bodyFor(const ServiceName& service) const;
};

class StartupView {
 public:
  struct Style {
    bool interactive{false};
    bool colors{false};
    bool quiet{false};
  };
  StartupView(std::FILE* out, Style style) : out_(out), style_(style) {}

  // Draws what changed. True when every service is ready or has said why it is not.
  bool update(const std::vector<controller::ServiceSummary>& services);
  void ready(const std::vector<controller::ServiceSummary>& services, const std::vector<agent::GroupView>& groups, const std::string& url,
             const std::string& stateFolder, const std::vector<DemoKey>& keys, const Examples& examples, Nanos sinceStart);

 private:
  [[nodiscard]] std::string line(const controller::ServiceSummary& service) const;
  std::FILE* out_;
  Style style_;
  std::size_t drawn_{0};                      // lines on the terminal
  std::map<ServiceName, std::string> shown_;  // last state of each, for pipes
};

// "CPU 1", "CPUs 0-1", "pool, 0.25 CPUs": where a service runs, for tables.
[[nodiscard]] std::string placeText(const agent::GroupView* group);

}  // namespace coterie::serve
