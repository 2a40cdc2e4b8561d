// Fields that the groups of `coterie plan node` and those of `coterie agent` have alike: tenants, whose a group is, and its bounds.
//
// Every fault carries path, line and fix. tenantNamed is O(tenants), the others O(1). Pure. Thread-compatible.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "objects/fields.h"
#include "objects/list_fields.h"
#include "plan_node/groups_file.h"

namespace coterie::plan_node {

// One of the list `tenants`: name, weight, quota.cpus.
[[nodiscard]] TenantEntry tenantFields(objects::Fields& item, int line, objects::UniqueNames& names);

// Index of the tenant of this name.
[[nodiscard]] std::optional<std::size_t> tenantNamed(const std::vector<TenantEntry>& tenants, const std::string& name);
// item.tenant names nobody of the list.
void refuseTenant(objects::Fields& item, const std::string& name, const std::vector<TenantEntry>& tenants);

// minCpus and maxCpus.
struct Bounds {
  MilliCpu floor;
  MilliCpu ceiling;  // 0: the machine
};
[[nodiscard]] Bounds boundsFields(objects::Fields& item);

}  // namespace coterie::plan_node
