#include "allocation/unit_packing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace coterie::allocation {

namespace {
constexpr std::size_t kMaxCovers = 256;  // of one need
constexpr int kMaxLooks = 4'000;         // on the way to them

std::size_t at(int index) { return static_cast<std::size_t>(index); }
constexpr std::array<DomainLevel, 3> kLevelsOfUnits{DomainLevel::Node, DomainLevel::Cache, DomainLevel::Core};
constexpr int levelIndex(Isolation isolation) { return isolation == Isolation::Node ? 0 : isolation == Isolation::Cache ? 1 : 2; }
}  // namespace

UnitPacker::UnitPacker(const Layout& layout, const UnitCounts& counts) : layout_(layout), counts_(counts) {
  std::vector<int> classOf(layout.branches.size(), 0);
  for (int level = kUnitLevels - 1; level >= 0; --level) {
    using Signature = std::pair<int, std::vector<int>>;  // minus the size, what is inside: the largest come first
    std::map<Signature, std::vector<int>> found;
    for (std::size_t b = 0; b < layout.branches.size(); ++b) {
      const Layout::Branch& branch = layout.branches[b];
      if (branch.level != kLevelsOfUnits[at(level)]) continue;
      std::vector<int> inside(level + 1 < kUnitLevels ? classes_[at(level + 1)].size() : 0, 0);
      for (int child = branch.firstChild; child < branch.lastChild; ++child) ++inside[at(classOf[at(child)])];
      found[{-branch.size(), std::move(inside)}].push_back(static_cast<int>(b));
    }
    for (auto& [signature, members] : found) {
      for (const int member : members) classOf[at(member)] = static_cast<int>(classes_[at(level)].size());
      classes_[at(level)].push_back({-signature.first, std::move(members), signature.second});
    }
  }
}

class PackingSearch {
 public:
  PackingSearch(const UnitPacker& packer, const std::vector<UnitNeed>& needs, int limit, int choices)
      : packer_(packer), needs_(needs), limit_(limit), choices_(choices + static_cast<int>(needs.size())), chosen_(needs.size()) {
    for (int level = 0; level < UnitPacker::kUnitLevels; ++level) {
      for (const UnitPacker::Class& one : packer.classes_[at(level)]) free_[at(level)].push_back(static_cast<int>(one.members.size()));
    }
    order_.resize(needs.size());
    std::iota(order_.begin(), order_.end(), 0);
    const auto key = [&](int need) { return std::tuple(levelIndex(needs[at(need)].isolation), -needs[at(need)].cpus, need); };
    std::sort(order_.begin(), order_.end(), [&](int a, int b) { return key(a) < key(b); });
    least_.assign(needs.size() + 1, 0);
    for (std::size_t i = needs.size(); i > 0; --i) {
      const UnitNeed& need = needs[at(order_[i - 1])];
      least_[i - 1] = least_[i] + packer.counts_.least(need.isolation, need.cpus);
    }
  }

  bool find() { return search(0); }
  [[nodiscard]] int beyondOneEach() const { return std::max(0, tried_ - static_cast<int>(needs_.size())); }

  // Which units of the classes that were chosen.
  UnitPacking placed() const {
    UnitPacking packing;
    packing.units.resize(needs_.size());
    packing.cpusOf.resize(needs_.size());
    std::vector<bool> taken(packer_.layout_.ids.size(), false);
    for (int level = 0; level < UnitPacker::kUnitLevels; ++level) {
      for (const bool onlyHeld : {true, false}) {
        for (const int need : order_) {
          if (levelIndex(needs_[at(need)].isolation) == level) placeOne(need, onlyHeld, taken, packing);
        }
      }
    }
    for (const int cpus : packing.cpusOf) packing.cpus += cpus;
    return packing;
  }

 private:
  using Counts = std::vector<int>;  // per class of a level

  bool search(std::size_t next) {
    if (used_ + least_[next] > limit_) return false;
    if (next == order_.size()) return true;
    const int level = levelIndex(needs_[at(order_[next])].isolation);
    if (!failed_.insert({next, free_}).second) return false;
    for (const Counts& cover : coversOf(level, needs_[at(order_[next])].cpus)) {
      if (++tried_ > choices_) return false;
      const auto before = free_;
      const std::int64_t used = used_;
      for (std::size_t c = 0; c < cover.size(); ++c) {
        used_ += static_cast<std::int64_t>(cover[c]) * packer_.classes_[at(level)][c].size;
        take(level, c, cover[c]);
      }
      chosen_[at(order_[next])] = cover;
      if (search(next + 1)) return true;
      free_ = before;
      used_ = used;
    }
    return false;
  }

  void take(int level, std::size_t one, int count) {
    if (count == 0) return;
    free_[at(level)][one] -= count;
    const Counts& inside = packer_.classes_[at(level)][one].inside;
    for (std::size_t c = 0; c < inside.size(); ++c) take(level + 1, c, count * inside[c]);
  }

  // The sets of free units that cover the need and from which none can be left out: the fewest CPUs first, then those of larger units, which leave
  // the smaller ones to others.
  [[nodiscard]] std::vector<Counts> coversOf(int level, int need) const {
    const std::vector<UnitPacker::Class>& classes = packer_.classes_[at(level)];
    Covering covering;
    covering.counts.assign(classes.size(), 0);
    covering.from.assign(classes.size() + 1, 0);
    for (std::size_t c = classes.size(); c > 0; --c) covering.from[c - 1] = covering.from[c] + free_[at(level)][c - 1] * classes[c - 1].size;
    cover(level, 0, need, covering);
    std::vector<std::pair<int, Counts>>& covers = covering.found;
    std::sort(covers.begin(), covers.end(),
              [](const auto& a, const auto& b) { return a.first != b.first ? a.first < b.first : a.second > b.second; });
    std::vector<Counts> result;
    for (auto& [cpus, one] : covers) result.push_back(std::move(one));
    return result;
  }

  struct Covering {
    Counts counts;                              // chosen so far
    std::vector<int> from;                      // per class: CPUs of the free units of it and those after it
    std::vector<std::pair<int, Counts>> found;  // CPUs beyond the need, and counts
    int looked{0};
  };
  void cover(int level, std::size_t from, int missing, Covering& covering) const {
    if (covering.found.size() >= kMaxCovers || missing > covering.from[from] || ++covering.looked > kMaxLooks) return;
    Counts& counts = covering.counts;
    const std::vector<UnitPacker::Class>& classes = packer_.classes_[at(level)];
    if (missing <= 0) {
      for (std::size_t c = 0; c < counts.size(); ++c) {
        if (counts[c] > 0 && missing + classes[c].size <= 0) return;  // one of these is not needed
      }
      covering.found.emplace_back(-missing, counts);
      return;
    }
    const int size = classes[from].size;
    for (int count = std::min(free_[at(level)][from], (missing + size - 1) / size); count >= 0; --count) {
      counts[from] = count;
      cover(level, from + 1, missing - count * size, covering);
    }
    counts[from] = 0;
  }

  // Of the units of its classes that it has not got yet: those that it holds, or any.
  void placeOne(int need, bool onlyHeld, std::vector<bool>& taken, UnitPacking& packing) const {
    const std::vector<UnitPacker::Class>& classes = packer_.classes_[at(levelIndex(needs_[at(need)].isolation))];
    std::vector<int>& units = packing.units[at(need)];
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const auto has = std::count_if(units.begin(), units.end(),
                                     [&](int unit) { return std::binary_search(classes[c].members.begin(), classes[c].members.end(), unit); });
      for (auto left = chosen_[at(need)][c] - has; left > 0; --left) {
        const int unit = takeNearest(needs_[at(need)], classes[c], onlyHeld, taken);
        if (unit < 0) break;
        units.push_back(unit);
        packing.cpusOf[at(need)] += classes[c].size;
      }
    }
  }

  // -1: none that it holds.
  int takeNearest(const UnitNeed& need, const UnitPacker::Class& one, bool onlyHeld, std::vector<bool>& taken) const {
    int best = -1;
    int bestHeld = onlyHeld ? 0 : -1;
    for (const int member : one.members) {
      const Layout::Branch& unit = packer_.layout_.branches[at(member)];
      if (std::any_of(taken.begin() + unit.begin, taken.begin() + unit.end, [](bool is) { return is; })) continue;
      const auto held = static_cast<int>(
          std::count_if(need.held.begin(), need.held.end(), [&](int position) { return position >= unit.begin && position < unit.end; }));
      if (held > bestHeld) best = member, bestHeld = held;
    }
    if (best < 0) return best;
    const Layout::Branch& unit = packer_.layout_.branches[at(best)];
    std::fill(taken.begin() + unit.begin, taken.begin() + unit.end, true);
    return best;
  }

  const UnitPacker& packer_;
  const std::vector<UnitNeed>& needs_;
  int limit_;
  int choices_;
  int tried_{0};
  std::int64_t used_{0};
  std::vector<int> order_;           // of the needs
  std::vector<std::int64_t> least_;  // per place in the order: CPUs that those from there on need at least
  std::vector<Counts> chosen_;       // per need
  std::array<Counts, UnitPacker::kUnitLevels> free_;
  std::set<std::pair<std::size_t, std::array<Counts, UnitPacker::kUnitLevels>>> failed_;
};

bool UnitPacker::canPack(const std::vector<UnitNeed>& needs, int limit, int& choices) const {
  PackingSearch search(*this, needs, limit, choices);
  const bool found = search.find();
  choices = std::max(0, choices - search.beyondOneEach());
  return found;
}

std::optional<UnitPacking> UnitPacker::pack(const std::vector<UnitNeed>& needs, int limit) const {
  PackingSearch search(*this, needs, limit, kPackingChoices);
  if (!search.find()) return std::nullopt;
  return search.placed();
}

std::optional<UnitPacking> UnitPacker::packTightest(const std::vector<UnitNeed>& needs) const {
  std::optional<UnitPacking> best = pack(needs, layout_.size());
  while (best) {
    std::optional<UnitPacking> tighter = pack(needs, best->cpus - 1);
    if (!tighter) break;
    best = std::move(tighter);
  }
  return best;
}

}  // namespace coterie::allocation
