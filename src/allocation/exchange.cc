#include "allocation/exchange.h"

#include <algorithm>
#include <array>
#include <utility>

namespace coterie::allocation {

namespace {
constexpr std::int64_t kQuarters = 4;
constexpr std::size_t kFarCaches = 4;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::int64_t spanBetween(const Layout& layout, int low, int high) {
  const auto& left = layout.paths[at(low)];
  const auto& right = layout.paths[at(high)];
  if (left[at(static_cast<int>(DomainLevel::Cache))] == right[at(static_cast<int>(DomainLevel::Cache))]) return 0;
  if (left[at(static_cast<int>(DomainLevel::Node))] == right[at(static_cast<int>(DomainLevel::Node))]) return 1;
  return left[at(static_cast<int>(DomainLevel::Socket))] == right[at(static_cast<int>(DomainLevel::Socket))] ? 4 : 16;
}

class Finder {
 public:
  Finder(const ExchangeView& view, int claimant)
      : view_(view), board_(view.board), layout_(view.board.layout()), claimant_(claimant), own_(board_.owned(claimant)) {}

  bool run(const Attempt& attempt) {
    fresh_ = std::none_of(own_.begin(), own_.end(), [&](int position) { return view_.holders[at(position)] == claimant_; });
    if (own_.size() > at(kReach)) return false;
    for (const int position : own_) shared_.push_back(sharesCore(position));
    const bool anyShared = std::find(shared_.begin(), shared_.end(), true) != shared_.end();
    const bool changes = std::any_of(own_.begin(), own_.end(), [&](int position) { return view_.holders[at(position)] != claimant_; });
    if (view_.costs[at(claimant_)] == 0 && !(changes && anyShared) && !fresh_) return false;
    for (const auto& [first, last] : parts()) {
      sharesCore_ = std::find(shared_.begin() + first, shared_.begin() + last, true) != shared_.begin() + last;
      leaving_.assign(own_.begin() + first, own_.begin() + last);
      first_ = first, last_ = last;
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
    std::vector<Range> found;
    if (fresh_ || view_.costs[at(claimant_)] > 0) found.emplace_back(0, count);
    for (int level = 1; view_.costs[at(claimant_)] > 0 && level < kLevels; ++level) {
      for (int begin = 0; begin < count;) {
        int end = begin + 1;
        while (end < count && layout_.paths[at(own_[at(end)])][at(level)] == layout_.paths[at(own_[at(begin)])][at(level)]) ++end;
        if (std::find(found.begin(), found.end(), Range(begin, end)) == found.end()) found.emplace_back(begin, end);
        begin = end;
      }
    }
    for (int one = 0; one < count; ++one) {
      if (view_.costs[at(claimant_)] > 0 || shared_[at(one)]) found.emplace_back(one, one + 1);
    }
    return found;
  }

  [[nodiscard]] int cacheOf(int position) const { return layout_.paths[at(position)][at(static_cast<int>(DomainLevel::Cache))]; }

  // Where the part may go: around it, and to the claimant's caches that lie outside of that.
  [[nodiscard]] std::vector<Range> ranges() const {
    int around = cacheOf(leaving_.front());
    while (layout_.branches[at(around)].parent >= 0 && layout_.branches[at(layout_.branches[at(around)].parent)].size() <= kReach)
      around = layout_.branches[at(around)].parent;
    std::vector<Range> found{{layout_.branches[at(around)].begin, layout_.branches[at(around)].end}};
    int last = cacheOf(leaving_.front());
    for (const int position : own_) {
      const int cache = cacheOf(position);
      if (cache == last || (position >= found.front().first && position < found.front().second)) continue;
      if (found.size() > kFarCaches) break;
      found.emplace_back(layout_.branches[at(cache)].begin, layout_.branches[at(cache)].end);
      last = cache;
    }
    return found;
  }

  // The least that a claimant costs whose CPUs reach from low to high.
  [[nodiscard]] std::int64_t leastCost(int claimant, int low, int high) const {
    const auto cpus = static_cast<std::int64_t>(board_.owned(claimant).size());
    return cpus * spanBetween(layout_, low, high) * (view_.several[at(claimant)] ? 1 : 1 + kQuarters);
  }

  [[nodiscard]] bool promising(int entering) {
    const std::int64_t own = ownGain(entering);
    if (own <= 0 && !sharesCore_ && !fresh_) return false;  // others may gain: their own trials find it
    const int count = static_cast<int>(leaving_.size());
    others_.clear();
    for (int i = 0; i < count; ++i) {
      const int owner = board_.owner(entering + i);
      if (owner == claimant_ || layout_.kinds[at(entering + i)] != layout_.kinds[at(leaving_[at(i)])]) return false;
      if (owner != kFree && std::find(others_.begin(), others_.end(), owner) == others_.end()) others_.push_back(owner);
    }
    std::int64_t gain = own;
    for (const int other : others_) gain += view_.costs[at(other)] - leastCostOfOther(other, entering);
    gain += coresGain(entering);
    const std::int64_t price = std::max<std::int64_t>(1, view_.gainPerMoved * movedFrom(entering));
    return gain + mostOfCaches(entering) >= price && gain + cachesGain(entering) >= price;
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
    for (std::size_t i = 0; touched_.size() > 1 && i < touched_.size(); ++i) most += view_.cacheCosts[at(touched_[i])];
    return most;
  }

  // CPUs that the claimant runs on and would lose.
  [[nodiscard]] std::int64_t movedFrom(int entering) const {
    std::int64_t moved = 0;
    for (std::size_t i = 0; i < leaving_.size(); ++i) {
      moved += view_.holders[at(leaving_[i])] == claimant_ ? 1 : 0;
      moved -= view_.holders[at(entering) + i] == claimant_ ? 1 : 0;
    }
    return std::max<std::int64_t>(0, moved);
  }

  const ExchangeView& view_;
  const Board& board_;
  const Layout& layout_;
  int claimant_;
  const std::vector<int>& own_;
  bool fresh_{false};         // it holds nothing now
  std::vector<bool> shared_;  // per own CPU: its core is shared with another tenant
  bool sharesCore_{false};    // one of those that leave
  std::vector<int> leaving_;
  int first_{0};  // of own_, what leaves
  int last_{0};
  std::vector<int> others_;
  std::vector<int> touched_;
  std::vector<TenantId> tenants_;
};
}  // namespace

bool tryExchanges(const ExchangeView& view, int claimant, const Attempt& attempt) { return Finder(view, claimant).run(attempt); }

}  // namespace coterie::allocation
