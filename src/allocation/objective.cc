#include "allocation/objective.h"

#include <algorithm>

namespace coterie::allocation {

namespace {
constexpr std::int64_t kQuarters = 4;
constexpr std::int64_t kSharedCore = 4 * kQuarters;
constexpr std::int64_t kSharedCache = 1 * kQuarters;
constexpr std::int64_t kPartlyFree = 1 * kQuarters;

std::int64_t pairs(std::int64_t tenants) { return tenants * (tenants - 1) / 2; }
}  // namespace

std::int64_t groupCost(const Layout& layout, const Positions& cpus, const std::vector<Positions>& containers) {
  const std::int64_t span = spanOf(layout, cpus);
  if (span == 0) return 0;  // then no container spans anything either
  std::int64_t cost = static_cast<std::int64_t>(cpus.size()) * span;
  for (const Positions& container : containers) cost += kQuarters * static_cast<std::int64_t>(container.size()) * spanOf(layout, container);
  return cost;
}

std::int64_t boardCost(const Board& board) {
  const Layout& layout = board.layout();
  std::int64_t cost = 0;
  std::vector<TenantId> seen;
  for (const Layout::Branch& branch : layout.branches) {
    const bool core = branch.level == DomainLevel::Core;
    if (!core && branch.level != DomainLevel::Cache) continue;
    if (core && branch.size() == 1) continue;
    seen.clear();
    int free = 0;
    int last = kFree;
    for (int position = branch.begin; position < branch.end; ++position) {
      const int owner = board.owner(position);
      if (owner == kFree) ++free;
      if (owner == kFree || owner == last) continue;
      last = owner;
      const TenantId tenant = board.tenantOf(owner);
      if (std::find(seen.begin(), seen.end(), tenant) == seen.end()) seen.push_back(tenant);
    }
    cost += pairs(static_cast<std::int64_t>(seen.size())) * (core ? kSharedCore : kSharedCache);
    if (!core && free > 0 && free < branch.size()) cost += kPartlyFree;
  }
  return cost;
}

}  // namespace coterie::allocation
