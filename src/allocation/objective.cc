#include "allocation/objective.h"

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

namespace {
struct Crowd {
  std::int64_t tenants{0};
  int free{0};
};
// Quadratic in the owners of a domain, which are few.
Crowd crowdOf(const Board& board, const Layout::Branch& branch) {
  Crowd crowd;
  for (int position = branch.begin; position < branch.end; ++position) {
    const int owner = board.owner(position);
    if (owner == kFree) ++crowd.free;
    if (owner == kFree || (position > branch.begin && board.owner(position - 1) == owner)) continue;
    bool seen = false;
    for (int earlier = branch.begin; earlier < position && !seen; ++earlier) {
      const int other = board.owner(earlier);
      seen = other != kFree && board.tenantOf(other) == board.tenantOf(owner);
    }
    crowd.tenants += seen ? 0 : 1;
  }
  return crowd;
}
}  // namespace

std::int64_t cacheCost(const Board& board, int branch) {
  const Layout::Branch& cache = board.layout().branches[static_cast<std::size_t>(branch)];
  const Crowd crowd = crowdOf(board, cache);
  std::int64_t cost = pairs(crowd.tenants) * kSharedCache;
  if (crowd.free > 0 && crowd.free < cache.size()) cost += kPartlyFree;
  if (crowd.tenants < 2) return cost;
  for (int core = cache.firstChild; core < cache.lastChild; ++core) {
    const Layout::Branch& threads = board.layout().branches[static_cast<std::size_t>(core)];
    if (threads.size() > 1) cost += pairs(crowdOf(board, threads).tenants) * kSharedCore;
  }
  return cost;
}

std::int64_t boardCost(const Board& board) {
  const auto& branches = board.layout().branches;
  std::int64_t cost = 0;
  for (std::size_t branch = 0; branch < branches.size(); ++branch) {
    if (branches[branch].level == DomainLevel::Cache) cost += cacheCost(board, static_cast<int>(branch));
  }
  return cost;
}

}  // namespace coterie::allocation
