// Numbers of things in sentences, right for one and for many. Pure. Thread-safe. O(length).
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "base/cpu_set.h"

namespace coterie {

// "1 node", "2 nodes"; thing: one of them, with a plural in s.
template <std::integral Count>
[[nodiscard]] std::string counted(Count count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

// "CPU 3", "CPUs 0-3,8", "no CPU"
[[nodiscard]] inline std::string cpusNamed(const CpuSet& cpus) {
  if (cpus.empty()) return "no CPU";
  return (cpus.count() == 1 ? "CPU " : "CPUs ") + cpus.toString();
}

}  // namespace coterie
