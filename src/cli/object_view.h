// Rows of objects for tables, and what of their status people see first.
//
// Reads of status: conditions (Ready first), readyInstances, desiredInstances, instances[].cpus (CPU lists); missing ones show as "-". Pure.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/table.h"
#include "model/objects.h"
#include "model/value.h"

namespace coterie::cli {

enum class Detail : std::uint8_t { Usual, Wide };

[[nodiscard]] Table objectTable(std::string_view kind, Detail detail);
[[nodiscard]] std::vector<Cell> objectRow(const Value& object, Detail detail, std::int64_t nowMicros);

[[nodiscard]] std::vector<Condition> conditionsOf(const Value& object);
// Ready, but not by the present spec: a change is under way or refused.
[[nodiscard]] bool servesFormerSpec(const Condition& condition);
// "True", "True (ServingOldSpec)", "False (InsufficientCpu)", "Unknown"
[[nodiscard]] Cell conditionCell(const std::vector<Condition>& conditions, std::string_view type);
[[nodiscard]] std::string ageOf(const Value& object, std::int64_t nowMicros);

}  // namespace coterie::cli
