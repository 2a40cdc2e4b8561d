// Who has each CPU of the machine, now and in the plan: what the map shows. O(CPUs + sum of set sizes). Pure. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan_node/node_plan.h"

namespace coterie::plan_node {

struct Holder {
  std::size_t group{0};
  std::size_t container{0};
  friend bool operator==(const Holder&, const Holder&) = default;
};

struct Owner {
  std::vector<Holder> holders;  // by group, then container; more than one where containers outnumber CPUs
  bool pool{false};
  [[nodiscard]] bool nobody() const { return holders.empty() && !pool; }
  friend bool operator==(const Owner&, const Owner&) = default;
};

enum class Closed : std::uint8_t { No, NotAllowed, Reserved, Isolated };

struct CpuUse {
  int cpu{0};
  Closed closed{Closed::No};  // why nobody may own it
  Owner now;
  Owner planned;
  std::vector<std::size_t> borrowers;  // groups, ascending
  bool changesHands{false};            // somebody loses it, or a group that runs already gains it
};

// Ascending id, one for each online CPU.
[[nodiscard]] std::vector<CpuUse> cpuUses(const NodePlan& plan);
// "audio/speech container 1", "the pool", "nobody"
[[nodiscard]] std::string ownerText(const NodePlan& plan, const Owner& owner);

}  // namespace coterie::plan_node
