// From typed objects to the tree of values that is stored and printed. Fields at their defaults are left out; decode(encode(x)) == x. Pure.
#pragma once

#include <string>
#include <vector>

#include "model/objects.h"
#include "model/value.h"

namespace coterie::objects {

[[nodiscard]] Value encodeSpec(const TenantSpec& spec);
[[nodiscard]] Value encodeSpec(const ModelServiceSpec& spec);
[[nodiscard]] Value encodeLabels(const std::vector<std::pair<std::string, std::string>>& labels);  // a map, perhaps empty
[[nodiscard]] std::vector<std::pair<std::string, std::string>> decodeLabels(const Value& labels);  // of the store; what is no text is skipped

// {apiVersion, kind, metadata, spec}
[[nodiscard]] Value encodeObject(const Tenant& tenant);
[[nodiscard]] Value encodeObject(const ModelService& service);

// status.conditions. Decoding skips what is malformed: status is written by us alone.
[[nodiscard]] Value encodeConditions(const std::vector<Condition>& conditions);
[[nodiscard]] std::vector<Condition> decodeConditions(const Value* conditions);
// Replaces the condition of that type or adds it. lastTransition stays unless the status changed. Returns whether anything changed.
bool setCondition(std::vector<Condition>& conditions, Condition condition, std::int64_t nowMicros);
[[nodiscard]] const Condition* findCondition(const std::vector<Condition>& conditions, std::string_view type);
[[nodiscard]] std::string_view conditionStatusName(ConditionStatus status);

}  // namespace coterie::objects
