// Fields that several kinds of documents spell alike: CPUs, memory, words of a fixed choice. A wrong one is a fault at its path and line, with the
// fix, and reads as the default. Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"
#include "base/units.h"
#include "model/band.h"
#include "model/container_role.h"
#include "model/isolation.h"
#include "model/objects.h"
#include "objects/fields.h"

namespace coterie::objects {

enum class Zero : std::uint8_t { Allowed, Refused };

// "0 would let nothing run: leave the field out for no limit"
[[nodiscard]] std::string zeroFault(std::string_view thing);

// "500m" or 2; 0 if it is absent. thing: what leaving the field out means to have none of ("limit").
[[nodiscard]] MilliCpu cpusField(Fields& fields, std::string_view name, Zero zero, std::string_view thing);
// "512Mi"; 0 if it is absent. least: of what is not 0.
[[nodiscard]] Bytes bytesField(Fields& fields, std::string_view name, Bytes least, Zero zero, std::string_view thing);
// A list of ids as the kernel writes it ("0-3,8"), or one id; empty if it is absent.
[[nodiscard]] CpuSet idsField(Fields& fields, std::string_view name);
// The index of the word among `words`; nothing if it is absent. what: "class".
[[nodiscard]] std::optional<std::size_t> wordField(Fields& fields, std::string_view name, std::string_view what,
                                                   const std::vector<std::string_view>& words);
// serviceClass: latency-critical (also if it is absent) or batch.
[[nodiscard]] bool latencyCriticalField(Fields& fields);
// band: high, normal (also if it is absent) or low.
[[nodiscard]] Band bandField(Fields& fields);
// isolation: none (also if it is absent), core, cache or node.
[[nodiscard]] Isolation isolationField(Fields& fields);
// role: app (also if it is absent) or another of `roles`; minCpus: what an init or a sidecar needs, refused to others.
struct RoleNeed {
  ContainerRole role{ContainerRole::App};
  MilliCpu floor;
};
[[nodiscard]] RoleNeed roleFields(Fields& fields, const std::vector<ContainerRole>& roles);

// objective: {latencyMs, percentile}; nothing if it is absent.
[[nodiscard]] std::optional<Objective> objectiveField(Fields& fields);

}  // namespace coterie::objects
