// What the agent sees, wants and does, as values: for the table, JSON, and tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"
#include "base/units.h"
#include "foreign/forecast.h"
#include "foreign/use_meter.h"
#include "model/ids.h"
#include "model/isolation.h"
#include "model/value.h"
#include "node_agent/agent_file.h"
#include "node_agent/container_watch.h"

namespace coterie::node_agent {

// Whether a container runs as many threads as it was told: seen from outside, by those that run or want to.
enum class HintSeen : std::uint8_t {
  None,        // it was told nothing
  Told,        // too lately, or it does not work: nothing can be seen
  TakenUp,     // no more than it was told
  NotTakenUp,  // more
};
[[nodiscard]] std::string_view hintSeenName(HintSeen seen);  // "none", "told", "takenUp", "notTakenUp"

struct ContainerReport {
  InstanceId id;
  std::string name;     // "docker 3f2a9c0d1e4b", "process 812"
  std::string command;  // of its first process
  int pid{0};
  int processes{0};
  foreign::Use use;
  CpuSet now;          // where its first thread may run
  CpuSet planned;      // that it owns, or would own
  CpuSet loans;        // of others, that it may use while they idle
  int threads{0};      // that it should use
  std::string heldBy;  // enforcing: "cgroup ...", "affinity"
  bool contested{false};
  std::string limit;  // which set above keeps what is planned from it, a clause; empty: none
  HintSeen hint{HintSeen::None};
  ContainerWatch::Seen seen;  // what the kernel counts of it, where it does
  MilliCpu quota;             // that throttled it, as it was found; 0: none did
  MilliCpu quotaRaised;       // to this, while it owns so many CPUs
};

struct GroupReport {
  std::size_t number{0};  // in the configuration
  std::string name, tenant;
  MilliCpu entitlement;
  MilliCpu demand;
  bool inPool{false};
  bool pending{false};
  Isolation waitsFor{Isolation::None};  // pending because this cannot be had; None: not that
  bool hinted{false};                   // it can be told its threads
  foreign::Use use;                     // of all containers
  foreign::Forecast forecast;
  std::vector<std::string> reasons;  // sentences
  Isolation isolation{Isolation::None};
  std::vector<std::string> isolationGaps;   // what that does not keep away: sentences; empty: it has none, or it waits
  std::vector<std::string> notIsolatedYet;  // enforcing: who may still run where it forbids, and why, a clause each; empty: it is in force
  std::vector<ContainerReport> containers;
};

// Of the configuration file, since the start.
struct ConfigReport {
  std::int64_t reloads{0};          // other ones that were put in force, or asked for
  std::int64_t refused{0};          // that could not be, or not yet; for each reason once
  std::vector<std::string> faults;  // of the file as it is now, or what is in its way: it is not in force; empty: it is
};

struct AgentReport {
  Mode mode{Mode::Observe};
  int pid{0};       // of the agent
  std::string why;  // it observes although it was told to enforce
  CpuSet usable, reserved, pool;
  MilliCpu elsewhere;               // threads of no group that run or wait, in thousandths
  std::vector<GroupReport> groups;  // those that are there, in the file's order
  std::vector<std::string> absent;  // names of those of whom nothing was found
  foreign::Forecast overall;        // observing: of all that work
  std::vector<std::string> remarks;
  ConfigReport configuration;
};

// What groups of the pool must know whose shares of it differ by more than a tenth: nobody enforces them. Empty: there are none.
[[nodiscard]] std::string poolRemark(const AgentReport& report);
// "1.68 (1.00 to 2.83)"
[[nodiscard]] std::string gainText(const foreign::Gain& gain);
// Lines for people; every group, container and reason is there.
[[nodiscard]] std::string reportText(const AgentReport& report, bool colors);
[[nodiscard]] Value reportValue(const AgentReport& report);

}  // namespace coterie::node_agent
