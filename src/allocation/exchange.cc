#include "allocation/exchange.h"

#include <algorithm>
#include <array>
#include <utility>

namespace coterie::allocation {

namespace {
constexpr std::int64_t kQuarters = 4;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Finder {
 public:
  Finder(const ExchangeView& view, int claimant)
      : view_(view), board_(view.board), layout_(view.board.layout()), claimant_(claimant), own_(board_.owned(claimant)) {}

  bool run(const Attempt& attempt) {
    const auto kept = std::count_if(own_.begin(), own_.end(), [&](int position) { return view_.holders[at(position)] == claimant_; });
    const bool settled = kept == static_cast<std::ptrdiff_t>(own_.size());
    if (own_.empty() || (settled && view_.costs[at(claimant_)] == 0)) return false;
    fresh_ = kept == 0;
    for (const int position : own_) {
      held_.push_back(view_.holders[at(position)] == claimant_);
      shared_.push_back(sharesCore(position));
    }
    for (const auto& [first, last] : parts()) {
      choose(first, last);
      if (!worthLooking()) continue;
      for (const auto& [begin, end] : ranges()) {
        for (int entering = begin; entering + static_cast<int>(leaving_.size()) <= end; ++entering) {
          if (!promising(entering)) continue;
          const Tried tried = attempt(leaving_, entering);
          if (tried != Tried::Not) return tried == Tried::Made;
        }
      }
    }
    return false;
  }

 private:
  using Range = std::pair<int, int>;

  // With another tenant.
  [[nodiscard]] bool sharesCore(int position) const {
    const Layout::Branch& core = layout_.branches[at(layout_.paths[at(position)][kLevels - 1])];
    for (int other = core.begin; other < core.end; ++other) {
      const int owner = board_.owner(other);
      if (owner == kFree || owner == claimant_) continue;
      if (!board_.tenantOf(owner).valid() || board_.tenantOf(owner) != board_.tenantOf(claimant_)) return true;
    }
    return false;
  }

  // Ranges of its own CPUs (they ascend, and a domain is a run of positions), the largest first.
  [[nodiscard]] std::vector<Range> parts() const {
    const int count = static_cast<int>(own_.size());
    const bool small = count <= kReach;
    const bool spans = small && view_.costs[at(claimant_)] > 0;
    std::vector<Range> found;
    const auto add = [&](int begin, int end) {
      if (std::find(found.begin(), found.end(), Range(begin, end)) == found.end()) found.emplace_back(begin, end);
    };
    if (spans || (small && fresh_)) add(0, count);
    for (int level = 1; spans && level < kLevels; ++level) {
      for (int begin = 0; begin < count;) {
        int end = begin + 1;
        while (end < count && layout_.paths[at(own_[at(end)])][at(level)] == layout_.paths[at(own_[at(begin)])][at(level)]) ++end;
        add(begin, end);
        begin = end;
      }
    }
    for (int one = 0; one < count; ++one) {
      if (spans) {
        add(one, one + 1);
      } else if (shared_[at(one)]) {
        found.emplace_back(one, one + 1);
      }
    }
    return found;
  }

  [[nodiscard]] int cacheOf(int position) const { return layout_.paths[at(position)][at(static_cast<int>(DomainLevel::Cache))]; }

  void choose(int first, int last) {
    first_ = first, last_ = last;
    leaving_.assign(own_.begin() + first, own_.begin() + last);
    heldLeaving_ = std::count(held_.begin() + first, held_.begin() + last, true);
    coresAtMost_ = 4 * kQuarters * std::count(shared_.begin() + first, shared_.begin() + last, true);
  }

  // What is left of it reaches as far as it does, and must be paid for; CPUs of its own that it may get back are not counted.
  [[nodiscard]] bool worthLooking() const {
    if (view_.affordable >= 0 && heldLeaving_ > view_.affordable) return false;
    std::int64_t least = 0;
    const int count = static_cast<int>(own_.size());
    if (last_ - first_ < count)
      least = leastCost(claimant_, first_ > 0 ? own_.front() : own_[at(last_)], last_ < count ? own_.back() : own_[at(first_ - 1)]);
    const std::int64_t most = view_.costs[at(claimant_)] - least + coresAtMost_;
    return fresh_ || (most > 0 && most >= view_.gainPerMoved * heldLeaving_);
  }

  // Where the part may go: around what stays, else around itself; to the caches of what stays that lie outside of that; one that shares a core, to
  // another core near.
  [[nodiscard]] std::vector<Range> ranges() const {
    const auto leaves = [&](std::size_t i) { return static_cast<int>(i) >= first_ && static_cast<int>(i) < last_; };
    const bool all = leaving_.size() == own_.size();
    const int around = reachOf(layout_, all ? own_.front() : own_[first_ == 0 ? at(last_) : 0]);
    std::vector<Range> found{{layout_.branches[at(around)].begin, layout_.branches[at(around)].end}};
    const int near = reachOf(layout_, leaving_.front());
    if (near != around && coresAtMost_ > 0) found.emplace_back(layout_.branches[at(near)].begin, layout_.branches[at(near)].end);
    int last = -1;
    for (std::size_t i = 0; !all && i < own_.size(); ++i) {
      const int cache = cacheOf(own_[i]);
      if (leaves(i) || cache == last || (own_[i] >= found.front().first && own_[i] < found.front().second)) continue;
      if (found.size() > at(kFarCaches)) break;
      found.emplace_back(layout_.branches[at(cache)].begin, layout_.branches[at(cache)].end);
      last = cache;
    }
    return found;
  }

  // The least that a claimant costs whose CPUs reach from low to high.
  [[nodiscard]] std::int64_t leastCost(int claimant, int low, int high) const {
    const auto cpus = static_cast<std::int64_t>(board_.owned(claimant).size());
    return cpus * spanBetween(layout_, low, high) * (view_.homes[at(claimant)].size() > 1 ? 1 : 1 + kQuarters);
  }

  // First what needs no look at the others: they may gain too, but their own trials find that. Who runs there must pay for himself.
  [[nodiscard]] bool promising(int entering) {
    const std::int64_t own = ownGain(entering);
    if (!fresh_ && (own + coresAtMost_ <= 0 || own + coresAtMost_ < view_.gainPerMoved * lostBy(claimant_, entering))) return false;
    if (!others(entering)) return false;
    std::int64_t gain = own;
    for (const int other : others_) gain += view_.costs[at(other)] - leastCostOfOther(other, entering);
    std::int64_t moved = 0;
    for (const int other : others_) moved += lostBy(other, entering);
    moved = std::max(moved, lostBy(claimant_, entering));
    if (view_.affordable >= 0 && moved > view_.affordable) return false;
    const std::int64_t price = std::max<std::int64_t>(1, view_.gainPerMoved * moved);
    if (gain + mostOfCaches(entering) < price) return false;
    gain += coresGain(entering) - containersAfter(claimant_, entering);
    for (const int other : others_) gain -= containersAfter(other, entering);
    return gain + mostOfCaches(entering) >= price && gain + cachesGain(entering) >= price;
  }

  // Whose CPUs it would get; false where it cannot: its own, or another kind.
  [[nodiscard]] bool others(int entering) {
    others_.clear();
    for (std::size_t i = 0; i < leaving_.size(); ++i) {
      const int position = entering + static_cast<int>(i);
      const int owner = board_.owner(position);
      if (owner == claimant_ || layout_.kinds[at(position)] != layout_.kinds[at(leaving_[i])]) return false;
      if (owner != kFree && std::find(others_.begin(), others_.end(), owner) == others_.end()) others_.push_back(owner);
    }
    return true;
  }

  // What the containers of a group with several will cost.
  [[nodiscard]] std::int64_t containersAfter(int claimant, int entering) {
    if (view_.homes[at(claimant)].size() < 2) return 0;
    return fresh_ ? leastOfContainers(claimant, entering) : containersInPlace(claimant, entering);
  }

  // As if each of its CPUs that goes were replaced in place: who runs somewhere keeps the rest.
  [[nodiscard]] std::int64_t containersInPlace(int claimant, int entering) const {
    const int count = static_cast<int>(leaving_.size());
    std::int64_t cost = 0;
    for (const Positions& home : view_.homes[at(claimant)]) {
      int low = layout_.size();
      int high = 0;
      for (const int position : home) {
        int after = position;
        if (claimant == claimant_) {
          const auto found = std::lower_bound(leaving_.begin(), leaving_.end(), position);
          if (found != leaving_.end() && *found == position) after = entering + static_cast<int>(found - leaving_.begin());
        } else if (position >= entering && position < entering + count) {
          after = leaving_[at(position - entering)];
        }
        low = std::min(low, after), high = std::max(high, after);
      }
      if (!home.empty()) cost += kQuarters * static_cast<std::int64_t>(home.size()) * spanBetween(layout_, low, high);
    }
    return cost;
  }

  // At least: as many as fit into a domain need not span, the others must.
  [[nodiscard]] std::int64_t leastOfContainers(int claimant, int entering) {
    const int containers = static_cast<int>(view_.homes[at(claimant)].size());
    const int size = static_cast<int>(board_.owned(claimant).size()) / containers;
    if (size < 2) return 0;
    after_.clear();
    for (const int position : board_.owned(claimant)) {
      if (ownerAfter(position, entering) == claimant) after_.push_back(position);
    }
    for (std::size_t i = 0; i < leaving_.size(); ++i) {
      const int position = entering + static_cast<int>(i);
      if (claimant == claimant_) after_.push_back(position);
      if (board_.owner(position) == claimant) after_.push_back(leaving_[i]);
    }
    std::sort(after_.begin(), after_.end());
    std::int64_t least = 0;
    int farther = 0;
    for (const auto& [level, span] : {std::pair(DomainLevel::Socket, 16), std::pair(DomainLevel::Node, 4), std::pair(DomainLevel::Cache, 1)}) {
      const int must = std::max(farther, containers - fitting(size, level));
      least += std::int64_t{must - farther} * span;
      farther = must;
    }
    return kQuarters * size * least;
  }
  // How many containers of the size fit into domains of the level, within after_.
  [[nodiscard]] int fitting(int size, DomainLevel level) const {
    int fit = 0;
    int run = 0;
    int last = -1;
    for (const int position : after_) {
      const int branch = layout_.paths[at(position)][at(static_cast<int>(level))];
      run = branch == last ? run + 1 : 1;
      last = branch;
      if (run % size == 0) ++fit;
    }
    return fit;
  }

  // At most.
  [[nodiscard]] std::int64_t ownGain(int entering) const {
    int low = entering;
    int high = entering + static_cast<int>(leaving_.size()) - 1;
    const int count = static_cast<int>(own_.size());
    if (first_ > 0) low = std::min(low, own_.front());
    if (first_ == 0 && last_ < count) low = std::min(low, own_[at(last_)]);
    if (last_ < count) high = std::max(high, own_.back());
    if (last_ == count && first_ > 0) high = std::max(high, own_[at(first_ - 1)]);
    return view_.costs[at(claimant_)] - leastCost(claimant_, low, high);
  }

  // The same for one who gets the leaving CPUs for what he has in the run.
  [[nodiscard]] std::int64_t leastCostOfOther(int other, int entering) const {
    const std::vector<int>& cpus = board_.owned(other);
    const int count = static_cast<int>(leaving_.size());
    const auto begin = std::lower_bound(cpus.begin(), cpus.end(), entering);
    const auto end = std::lower_bound(begin, cpus.end(), entering + count);
    int low = leaving_[at(*begin - entering)];
    int high = leaving_[at(*(end - 1) - entering)];
    if (begin != cpus.begin()) low = std::min(low, cpus.front()), high = std::max(high, *(begin - 1));
    if (end != cpus.end()) low = std::min(low, *end), high = std::max(high, cpus.back());
    return leastCost(other, low, high);
  }

  [[nodiscard]] int ownerAfter(int position, int entering) const {
    if (position >= entering && position < entering + static_cast<int>(leaving_.size())) return claimant_;
    const auto found = std::lower_bound(leaving_.begin(), leaving_.end(), position);
    if (found == leaving_.end() || *found != position) return board_.owner(position);
    return board_.owner(entering + static_cast<int>(found - leaving_.begin()));
  }

  // What a domain's tenants cost by pairs, before less after.
  [[nodiscard]] std::int64_t pairsEnded(int branch, int entering) {
    const Layout::Branch& domain = layout_.branches[at(branch)];
    if (domain.size() < 2) return 0;
    std::array<std::int64_t, 2> pairs{};
    for (const bool after : {false, true}) {
      tenants_.clear();
      for (int position = domain.begin; position < domain.end; ++position) {
        const int owner = after ? ownerAfter(position, entering) : board_.owner(position);
        if (owner == kFree) continue;
        const TenantId tenant = board_.tenantOf(owner);
        if (std::find(tenants_.begin(), tenants_.end(), tenant) == tenants_.end()) tenants_.push_back(tenant);
      }
      const auto count = static_cast<std::int64_t>(tenants_.size());
      pairs[after ? 1 : 0] = count * (count - 1) / 2;
    }
    return pairs[0] - pairs[1];
  }

  [[nodiscard]] std::int64_t partsEnded(int branch, int entering) const {
    const Layout::Branch& domain = layout_.branches[at(branch)];
    std::array<int, 2> free{};
    for (int position = domain.begin; position < domain.end; ++position) {
      free[0] += board_.owner(position) == kFree ? 1 : 0;
      free[1] += ownerAfter(position, entering) == kFree ? 1 : 0;
    }
    const auto partly = [&](int count) { return count > 0 && count < domain.size() ? 1 : 0; };
    return partly(free[0]) - partly(free[1]);
  }

  void touch(int entering, DomainLevel level, std::vector<int>& touched) const {
    touched.clear();
    const auto add = [&](int position) {
      const int branch = layout_.paths[at(position)][at(static_cast<int>(level))];
      if (std::find(touched.begin(), touched.end(), branch) == touched.end()) touched.push_back(branch);
    };
    for (int i = 0; i < static_cast<int>(leaving_.size()); ++i) add(leaving_[at(i)]), add(entering + i);
  }

  [[nodiscard]] std::int64_t coresGain(int entering) {
    touch(entering, DomainLevel::Core, touched_);
    std::int64_t gain = 0;
    for (const int core : touched_) gain += 4 * kQuarters * pairsEnded(core, entering);
    return gain;
  }

  // Within one cache only its cores change.
  [[nodiscard]] std::int64_t cachesGain(int entering) {
    touch(entering, DomainLevel::Cache, touched_);
    std::int64_t gain = 0;
    for (std::size_t i = 0; touched_.size() > 1 && i < touched_.size(); ++i)
      gain += kQuarters * (pairsEnded(touched_[i], entering) + partsEnded(touched_[i], entering));
    return gain;
  }

  // At most, without looking into them.
  [[nodiscard]] std::int64_t mostOfCaches(int entering) {
    touch(entering, DomainLevel::Cache, touched_);
    std::int64_t most = 0;
    for (std::size_t i = 0; i < touched_.size(); ++i) most += view_.cacheCosts[at(touched_[i])];
    return most;
  }

  // CPUs that one of them runs on and would lose.
  [[nodiscard]] std::int64_t lostBy(int claimant, int entering) const {
    std::int64_t lost = 0;
    const bool own = claimant == claimant_;
    for (std::size_t i = 0; i < leaving_.size(); ++i) {
      const int position = entering + static_cast<int>(i);
      if (!own && board_.owner(position) != claimant) continue;
      lost += view_.holders[at(own ? leaving_[i] : position)] == claimant ? 1 : 0;
      lost -= view_.holders[at(own ? position : leaving_[i])] == claimant ? 1 : 0;
    }
    return std::max<std::int64_t>(0, lost);
  }

  const ExchangeView& view_;
  const Board& board_;
  const Layout& layout_;
  int claimant_;
  const std::vector<int>& own_;
  std::vector<bool> held_;    // per own CPU: it runs there now
  std::vector<bool> shared_;  // per own CPU: its core is shared with another tenant
  bool fresh_{false};         // it runs nowhere yet
  // The part under trial.
  int first_{0};  // of own_
  int last_{0};
  std::vector<int> leaving_;
  std::int64_t heldLeaving_{0};
  std::int64_t coresAtMost_{0};  // what cores that are shared no more may win
  std::vector<int> others_;
  std::vector<int> touched_;
  std::vector<int> after_;
  std::vector<TenantId> tenants_;
};
}  // namespace

std::int64_t spanBetween(const Layout& layout, int low, int high) {
  const auto& left = layout.paths[at(low)];
  const auto& right = layout.paths[at(high)];
  if (left[at(static_cast<int>(DomainLevel::Cache))] == right[at(static_cast<int>(DomainLevel::Cache))]) return 0;
  if (left[at(static_cast<int>(DomainLevel::Node))] == right[at(static_cast<int>(DomainLevel::Node))]) return 1;
  return left[at(static_cast<int>(DomainLevel::Socket))] == right[at(static_cast<int>(DomainLevel::Socket))] ? 4 : 16;
}

int reachOf(const Layout& layout, int position) {
  int branch = layout.paths[at(position)][at(static_cast<int>(DomainLevel::Cache))];
  while (layout.branches[at(branch)].parent >= 0 && layout.branches[at(layout.branches[at(branch)].parent)].size() <= kReach)
    branch = layout.branches[at(branch)].parent;
  return branch;
}

bool tryExchanges(const ExchangeView& view, int claimant, const Attempt& attempt) { return Finder(view, claimant).run(attempt); }

}  // namespace coterie::allocation
