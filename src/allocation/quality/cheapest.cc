// The search of exact_oracle.h for a placement of least J.
#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "allocation/quality/exact_oracle.h"
#include "allocation/quality/tree.h"

namespace coterie::allocation::quality {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }
constexpr std::int64_t kQuarters = 4;
constexpr int kKinds = 4;

// The cheapest way to split an owner's CPUs among containers of given sizes. What matters of a CPU is its cache only.
class Split {
 public:
  struct Run {
    int place{0};  // one of the cache's places
    int cpus{0};   // the owner's there
  };
  Split(const Tree& tree, std::vector<Run> runs, const std::vector<int>& sizes) : tree_(tree), runs_(std::move(runs)), sizes_(sizes) {
    for (const Run& run : runs_) left_.push_back(run.cpus);
    place(0, 0);
  }
  // Of all containers, cpus * span.
  [[nodiscard]] std::int64_t cost() const { return best_; }
  // Per container, per run.
  [[nodiscard]] const std::vector<std::vector<int>>& taken() const { return bestTaken_; }

 private:
  void place(std::size_t container, std::int64_t cost) {
    if (cost >= best_) return;
    if (container == sizes_.size()) {
      best_ = cost, bestTaken_ = taken_;
      return;
    }
    taken_.emplace_back(runs_.size(), 0);
    take(container, cost, 0, sizes_[container], -1, -1);
    taken_.pop_back();
  }

  void take(std::size_t container, std::int64_t cost, std::size_t run, int missing, int first, int last) {
    if (missing == 0) return place(container + 1, cost + (first < 0 ? 0 : sizes_[container] * tree_.distance(first, last)));
    if (run == runs_.size()) return;
    for (int count = std::min(missing, left_[run]); count >= 0; --count) {
      left_[run] -= count, taken_[container][run] = count;
      const int here = runs_[run].place;
      take(container, cost, run + 1, missing - count, count > 0 && first < 0 ? here : first, count > 0 ? here : last);
      left_[run] += count, taken_[container][run] = 0;
    }
  }

  const Tree& tree_;
  std::vector<Run> runs_;
  const std::vector<int>& sizes_;
  std::vector<int> left_;
  std::vector<std::vector<int>> taken_;
  std::vector<std::vector<int>> bestTaken_;
  std::int64_t best_{std::numeric_limits<std::int64_t>::max()};
};

class Search {
 public:
  Search(const Tree& tree, const std::vector<Owner>& owners, std::int64_t below)
      : tree_(tree),
        owners_(owners),
        best_(below),
        holder_(at(tree.size()), kNobody),
        left_(owners.size() + 1),
        first_(owners.size(), -1),
        last_(owners.size(), -1),
        splitCosts_(owners.size()) {
    for (const Owner& owner : owners) {
      const CpuSet all = owner.all();
      totals_.push_back(all.count());
      std::vector<int> sizes;
      for (const CpuSet& home : owner.homes) sizes.push_back(home.count());
      if (static_cast<int>(sizes.size()) > all.count()) sizes.clear();  // one CPU each, some shared: nothing spans
      std::sort(sizes.rbegin(), sizes.rend());
      sizes_.push_back(std::move(sizes));
    }
    for (int place = 0; place < tree.size(); ++place) ++left_[holderNow(place)][at(tree.cpu(place).kind)];
    visit(0, 0);
  }

  [[nodiscard]] std::optional<std::vector<Owner>> result() const {
    if (found_.empty()) return std::nullopt;
    std::vector<Owner> placed = owners_;
    for (std::size_t owner = 0; owner < placed.size(); ++owner) placed[owner].homes = homesOf(owner);
    return placed;
  }

 private:
  static constexpr int kNobody = -1;

  // Index into left_: the owner, or the last for nobody.
  [[nodiscard]] std::size_t holderNow(int place) const {
    std::size_t holder = 0;
    while (holder < owners_.size() && !owners_[holder].all().contains(tree_.cpu(place).id)) ++holder;
    return holder;
  }

  void visit(int place, std::int64_t cost) {
    if (cost >= best_) return;
    if (place == tree_.size()) return finish(cost);
    const std::size_t kind = at(tree_.cpu(place).kind);
    for (std::size_t holder = 0; holder < left_.size(); ++holder) {
      if (left_[holder][kind] == 0) continue;
      --left_[holder][kind];
      const bool nobody = holder == owners_.size();
      holder_[at(place)] = nobody ? kNobody : static_cast<int>(holder);
      if (nobody) {
        close(place, cost);
      } else {
        const int first = first_[holder];
        const int last = last_[holder];
        const std::int64_t before = spanCost(holder);
        if (first < 0) first_[holder] = place;
        last_[holder] = place;
        close(place, cost + spanCost(holder) - before);
        first_[holder] = first, last_[holder] = last;
      }
      ++left_[holder][kind];
    }
  }

  // What its span so far costs an owner at least: several containers may lie closer together than their group.
  [[nodiscard]] std::int64_t spanCost(std::size_t owner) const {
    if (first_[owner] < 0) return 0;
    const std::int64_t span = tree_.distance(first_[owner], last_[owner]);
    return totals_[owner] * span * (sizes_[owner].size() == 1 ? 1 + kQuarters : 1);
  }

  // Judges the domains that end with this place, and goes on if they may stand.
  void close(int place, std::int64_t cost) {
    for (int depth = 0; depth < kDepths; ++depth) {
      const Tree::Span& span = tree_.spans(depth)[at(tree_.spanAt(depth, place))];
      if (span.end != place + 1) continue;
      if (span.twin >= 0 && before(span, tree_.spans(depth)[at(span.twin)])) return;
      if (depth < kDepths - 1 && breaksUnit(span, depth)) return;
      if (depth == kCore) cost += 4 * kQuarters * pairsIn(span);
      if (depth == kCache) cost += kQuarters * pairsIn(span) + (partlyFree(span) ? kQuarters : 0);
    }
    visit(place + 1, cost);
  }

  [[nodiscard]] bool before(const Tree::Span& span, const Tree::Span& twin) const {
    return std::lexicographical_compare(holder_.begin() + span.begin, holder_.begin() + span.end, holder_.begin() + twin.begin,
                                        holder_.begin() + twin.end);
  }

  [[nodiscard]] bool breaksUnit(const Tree::Span& span, int depth) const {
    for (int place = span.begin; place < span.end; ++place) {
      const int holder = holder_[at(place)];
      if (holder == kNobody || owners_[at(holder)].isolation == Isolation::None || unitDepth(owners_[at(holder)].isolation) != depth) continue;
      if (std::count(holder_.begin() + span.begin, holder_.begin() + span.end, holder) != span.end - span.begin) return true;
    }
    return false;
  }

  [[nodiscard]] std::int64_t pairsIn(const Tree::Span& span) const {
    std::vector<std::pair<bool, int>> tenants;
    for (int place = span.begin; place < span.end; ++place) {
      if (holder_[at(place)] == kNobody) continue;
      const Owner& owner = owners_[at(holder_[at(place)])];
      const std::pair<bool, int> tenant(owner.pool, owner.tenant);
      if (std::find(tenants.begin(), tenants.end(), tenant) == tenants.end()) tenants.push_back(tenant);
    }
    const auto count = static_cast<std::int64_t>(tenants.size());
    return count * (count - 1) / 2;
  }

  [[nodiscard]] bool partlyFree(const Tree::Span& span) const {
    const auto free = std::count(holder_.begin() + span.begin, holder_.begin() + span.end, kNobody);
    return free > 0 && free < span.end - span.begin;
  }

  // Everybody's place is known: the containers of each group, every group for itself.
  void finish(std::int64_t cost) {
    for (std::size_t owner = 0; owner < owners_.size() && cost < best_; ++owner) cost += kQuarters * (splitCost(owner) + 2 * away(owner));
    if (cost >= best_) return;
    best_ = cost;
    found_ = holder_;
  }

  [[nodiscard]] std::int64_t away(std::size_t owner) const {
    const CpuSet& device = owners_[owner].device;
    if (device.empty() || totals_[owner] == 0) return 0;
    int least = 16;
    for (int near = 0; near < tree_.size(); ++near) {
      if (!device.contains(tree_.cpu(near).id)) continue;
      for (int place = first_[owner]; place <= last_[owner]; ++place) {
        if (holder_[at(place)] == static_cast<int>(owner)) least = std::min(least, tree_.distance(place, near));
      }
    }
    return least;
  }

  [[nodiscard]] std::vector<Split::Run> runsOf(std::size_t owner, const std::vector<int>& holders) const {
    std::vector<Split::Run> runs;
    for (const Tree::Span& cache : tree_.spans(kCache)) {
      const auto cpus = std::count(holders.begin() + cache.begin, holders.begin() + cache.end, static_cast<int>(owner));
      if (cpus > 0) runs.push_back({cache.begin, static_cast<int>(cpus)});
    }
    return runs;
  }

  std::int64_t splitCost(std::size_t owner) {
    if (sizes_[owner].size() < 2 || tree_.distance(first_[owner], last_[owner]) == 0) return 0;
    const std::vector<Split::Run> runs = runsOf(owner, holder_);
    std::vector<int> key;
    for (const Split::Run& run : runs) key.push_back(run.place), key.push_back(run.cpus);
    const auto found = splitCosts_[owner].find(key);
    if (found != splitCosts_[owner].end()) return found->second;
    return splitCosts_[owner][key] = Split(tree_, runs, sizes_[owner]).cost();
  }

  [[nodiscard]] std::vector<CpuSet> homesOf(std::size_t owner) const {
    std::vector<int> places;
    for (int place = 0; place < tree_.size(); ++place) {
      if (found_[at(place)] == static_cast<int>(owner)) places.push_back(place);
    }
    std::vector<CpuSet> homes(owners_[owner].homes.size());
    if (sizes_[owner].empty()) {
      for (std::size_t c = 0; c < homes.size(); ++c) homes[c].add(tree_.cpu(places[c % places.size()]).id);
      return homes;
    }
    const std::vector<Split::Run> runs = runsOf(owner, found_);
    const Split split(tree_, runs, sizes_[owner]);
    std::size_t next = 0;
    for (std::size_t run = 0; run < runs.size(); ++run) {  // places ascend, and so do runs
      for (std::size_t c = 0; c < homes.size(); ++c) {
        for (int count = split.taken()[c][run]; count > 0; --count) homes[c].add(tree_.cpu(places[next++]).id);
      }
    }
    return homes;
  }

  const Tree& tree_;
  const std::vector<Owner>& owners_;
  std::int64_t best_;
  std::vector<int> holder_;                    // per place
  std::vector<std::array<int, kKinds>> left_;  // per owner, and for nobody: CPUs of each kind still to be placed
  std::vector<int> first_;                     // per owner: its first and last place so far
  std::vector<int> last_;
  std::vector<std::int64_t> totals_;     // per owner
  std::vector<std::vector<int>> sizes_;  // per owner, of its containers, largest first; empty: they share CPUs
  std::vector<std::map<std::vector<int>, std::int64_t>> splitCosts_;
  std::vector<int> found_;  // the best holder_; empty: none
};
}  // namespace

std::optional<std::vector<Owner>> cheapest(const Snapshot& snapshot, const std::vector<Owner>& owners, std::int64_t below) {
  std::vector<CpuSet> devices;
  for (const Owner& owner : owners) {
    if (!owner.device.empty()) devices.push_back(owner.device);
  }
  const Tree tree(snapshot, std::move(devices));
  return Search(tree, owners, below).result();
}

}  // namespace coterie::allocation::quality
