// What no other tenant shares with a service: nothing, its cores, the CPUs of its last-level caches, its NUMA nodes. The words are the ones that
// people write. O(1). Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace coterie {

enum class Isolation : std::uint8_t { None, Core, Cache, Node };

[[nodiscard]] constexpr std::string_view isolationName(Isolation isolation) {
  switch (isolation) {
    case Isolation::Core: return "core";
    case Isolation::Cache: return "cache";
    case Isolation::Node: return "node";
    case Isolation::None: break;
  }
  return "none";
}

}  // namespace coterie
