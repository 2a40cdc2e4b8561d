#include "plan_node/team_fields.h"

#include <algorithm>
#include <string_view>

#include "objects/names.h"
#include "objects/quantity.h"
#include "objects/spec_fields.h"

namespace coterie::plan_node {

using objects::Fields;
using objects::Zero;

TenantEntry tenantFields(Fields& item, int line, objects::UniqueNames& names) {
  TenantEntry tenant;
  tenant.line = line;
  tenant.name = names.read(item, "the tenant's name", line, objects::tenantNameFault);
  tenant.weight = item.whole("weight", {1, 10000}).value_or(100);
  Fields quota = item.map("quota");
  tenant.cap = objects::cpusField(quota, "cpus", Zero::Refused, "limit");
  quota.finish();
  return tenant;
}

std::optional<std::size_t> tenantNamed(const std::vector<TenantEntry>& tenants, const std::string& name) {
  const auto found = std::find_if(tenants.begin(), tenants.end(), [&](const TenantEntry& tenant) { return tenant.name == name; });
  if (found == tenants.end()) return std::nullopt;
  return static_cast<std::size_t>(found - tenants.begin());
}

void refuseTenant(Fields& item, const std::string& name, const std::vector<TenantEntry>& tenants) {
  std::vector<std::string_view> names;
  for (const TenantEntry& tenant : tenants) {
    if (!tenant.name.empty()) names.push_back(tenant.name);
  }
  const auto near = objects::nearest(name, names);
  item.fault("tenant", "no tenant \"" + name.substr(0, 60) + "\" is listed; " + (near ? "did you mean " + *near + "?" : "add it to tenants"));
}

Bounds boundsFields(Fields& item) {
  const MilliCpu floor = objects::cpusField(item, "minCpus", Zero::Allowed, "floor");
  const MilliCpu ceiling = objects::cpusField(item, "maxCpus", Zero::Refused, "ceiling");
  if (ceiling.value > 0 && ceiling < floor) item.fault("maxCpus", objects::cpusText(ceiling) + " is less than minCpus, " + objects::cpusText(floor));
  return {floor, ceiling};
}

}  // namespace coterie::plan_node
