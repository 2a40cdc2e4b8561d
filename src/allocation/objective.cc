#include "allocation/objective.h"

#include <algorithm>

namespace coterie::allocation {

namespace {
constexpr std::int64_t kQuarters = 4;
constexpr std::int64_t kSharedCore = 4 * kQuarters;
constexpr std::int64_t kSharedCache = 1 * kQuarters;
constexpr std::int64_t kPartlyFree = 1 * kQuarters;
constexpr std::int64_t kAway = 2 * kQuarters;

std::int64_t pairs(std::int64_t tenants) { return tenants * (tenants - 1) / 2; }
}  // namespace

std::int64_t groupCost(const Layout& layout, const Positions& cpus, const std::vector<Positions>& containers) {
  const std::int64_t span = spanOf(layout, cpus);
  if (span == 0) return 0;  // then no container spans anything either
  std::int64_t cost = static_cast<std::int64_t>(cpus.size()) * span;
  for (const Positions& container : containers) cost += kQuarters * static_cast<std::int64_t>(container.size()) * spanOf(layout, container);
  return cost;
}

std::vector<int> awayFrom(const Layout& layout, const CpuSet& device) {
  std::vector<int> away;
  if (device.empty()) return away;
  std::vector<bool> there;
  for (const CpuSet& cpus : layout.cpusOf) there.push_back(cpus.intersects(device));
  const auto within = [&](std::size_t position, DomainLevel level) {
    return there[static_cast<std::size_t>(layout.paths[position][static_cast<std::size_t>(level)])];
  };
  for (std::size_t position = 0; position < layout.ids.size(); ++position) {
    away.push_back(within(position, DomainLevel::Cache)    ? 0
                   : within(position, DomainLevel::Node)   ? 1
                   : within(position, DomainLevel::Socket) ? 4
                                                           : 16);
  }
  return away;
}

std::int64_t deviceCost(const std::vector<int>& away, const Positions& cpus) {
  if (away.empty() || cpus.empty()) return 0;
  const auto nearer = [&](int one, int other) { return away[static_cast<std::size_t>(one)] < away[static_cast<std::size_t>(other)]; };
  return kAway * away[static_cast<std::size_t>(*std::min_element(cpus.begin(), cpus.end(), nearer))];
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
