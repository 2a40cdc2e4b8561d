#include "allocation/memory_fit.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "allocation/memory_map.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kWhole = 1000;  // permille
constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

// A container, and what was found for it.
struct Party {
  std::size_t group{0};
  std::size_t container{0};
  const ContainerState* state{nullptr};
  const CpuSet* home{nullptr};
  MemoryTier tier{MemoryTier::Usual};
  bool leaving{false};  // of a Pending group: it only takes room until its containers have ended
  Instant joined{};
  std::int64_t need{0};  // bytes
  CpuSet near;
  int nearCount{0};
  bool pressed{false};
  CpuSet nodes;
  std::int64_t missing{0};  // bytes without room
};

class Fitter {
 public:
  Fitter(const Problem& problem, std::vector<GroupTarget>& targets)
      : problem_(problem), config_(problem.config), map_(problem.memory), nodes_(problem.memory.nodes()), targets_(targets) {}

  MemoryFit run() {
    lookAtNodes();
    collect();
    std::vector<std::size_t> order(parties_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto key = [this](std::size_t i) {
      const Party& one = parties_[i];
      return std::tuple(one.nearCount, one.joined, i);  // parties are by id of the group, then of the container
    };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    std::vector<std::size_t> last;
    for (const std::size_t i : order) {
      Party& one = parties_[i];
      one.nodes = choose(one);
      if (one.missing > 0 && one.state->expected > one.state->resident) {
        last.push_back(i);
      } else {
        charge(one);
      }
    }
    for (const std::size_t i : last) {
      parties_[i].nodes = choose(parties_[i]);
      charge(parties_[i]);
    }
    for (const Party& one : parties_) {
      if (!one.leaving) take(one);
    }
    sayAll();
    return std::move(fit_);
  }

  // After run().
  [[nodiscard]] std::vector<std::int64_t> left() && { return std::move(left_); }

 private:
  void lookAtNodes() {
    left_.assign(nodes_.size(), 0);
    free_.assign(nodes_.size(), std::nullopt);
    auto known = problem_.snapshot.memoryFree.begin();
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].usable) left_[n] = nodes_[n].size.value;
      while (known != problem_.snapshot.memoryFree.end() && known->node < nodes_[n].id) ++known;
      if (known != problem_.snapshot.memoryFree.end() && known->node == nodes_[n].id) free_[n] = known->free.value;
    }
  }

  void collect() {
    for (std::size_t g = 0; g < targets_.size(); ++g) {
      const GroupState& group = *problem_.groups[g];
      for (std::size_t c = 0; c < targets_[g].containers.size(); ++c) {
        targets_[g].containers[c].memoryNodes.clear();
        const ContainerState& state = group.containers[c];
        Party one;
        one.leaving = targets_[g].containers[c].home.empty();
        one.home = one.leaving ? &state.home : &targets_[g].containers[c].home;
        one.tier = group.memory;
        // Members of a pool stand on one set, mostly.
        const Party* last = parties_.empty() ? nullptr : &parties_.back();
        const bool same = last != nullptr && last->tier == one.tier && *last->home == *one.home;
        one.near = same ? last->near : map_.nearest(*one.home, one.tier);
        if (one.near.empty()) continue;  // nowhere, or on a machine that names no memory
        one.nearCount = same ? last->nearCount : one.near.count();
        one.group = g;
        one.container = c;
        one.state = &state;
        one.joined = group.joined;
        one.need = std::max(state.resident, state.expected).value;
        one.pressed = config_.memoryPressure > 0 && state.memoryPressure >= config_.memoryPressure;
        one.pressed = one.pressed || all(one.near, [&](std::size_t n) { return nearlyFull(n); });
        parties_.push_back(std::move(one));
      }
    }
  }

  // ---- of sets of nodes ----
  template <typename Visit>
  void each(const CpuSet& nodes, const Visit& visit) const {
    std::size_t n = 0;
    for (const int id : nodes) {
      while (n < nodes_.size() && nodes_[n].id < id) ++n;
      if (n == nodes_.size()) return;
      if (nodes_[n].id == id) visit(n);
    }
  }
  template <typename Test>
  [[nodiscard]] bool all(const CpuSet& nodes, const Test& test) const {
    bool holds = true;
    each(nodes, [&](std::size_t n) { holds = holds && test(n); });
    return holds;
  }
  [[nodiscard]] std::int64_t room(const CpuSet& nodes) const {
    std::int64_t bytes = 0;
    each(nodes, [&](std::size_t n) { bytes += left_[n]; });
    return bytes;
  }
  [[nodiscard]] std::int64_t slack(const CpuSet& nodes) const {
    std::int64_t bytes = 0;
    each(nodes, [&](std::size_t n) { bytes += nodes_[n].size.value / kWhole * config_.narrowSlack; });
    return bytes;
  }
  [[nodiscard]] bool nearlyFull(std::size_t n) const { return free_[n].value_or(kUnknown) < nodes_[n].size.value / kWhole * config_.nearlyFull; }

  // Of what is resident, what may lie on nodes that are held and would be lost.
  [[nodiscard]] std::int64_t moving(const Party& one, const CpuSet& held, const CpuSet& kept) const {
    std::int64_t used = 0;
    each(held - kept, [&](std::size_t n) { used += std::max<std::int64_t>(0, nodes_[n].size.value - free_[n].value_or(0)); });
    return std::min(one.state->resident.value, used);
  }

  // Is there room to go back to these, and some to spare?
  [[nodiscard]] bool roomy(const Party& one, const CpuSet& held, const CpuSet& nodes) const {
    const std::int64_t spare = slack(nodes);
    if (room(nodes) < one.need + spare) return false;
    std::int64_t free = 0;
    bool known = true;
    each(nodes, [&](std::size_t n) { known = known && free_[n].has_value(), free += free_[n].value_or(0); });
    return !known || free >= moving(one, held, nodes) + spare;
  }

  // Is there a node beyond the nearest that is not nearly full?
  [[nodiscard]] bool relieved(const Party& one, const CpuSet& nodes) const {
    return !all(nodes - one.near, [&](std::size_t n) { return nearlyFull(n); });
  }

  // ---- one container's nodes ----
  // Until it would keep what it has: so that it does once it has it.
  [[nodiscard]] CpuSet choose(Party& one) const {
    CpuSet nodes = one.state->memoryNodes;
    while (true) {
      CpuSet next = step(one, nodes);
      if (next == nodes) return nodes;
      nodes = std::move(next);
    }
  }

  // The first step has all the nearest; after that nodes are only left.
  [[nodiscard]] CpuSet step(Party& one, const CpuSet& held) const {
    one.missing = 0;
    const bool keeps = one.near.isSubsetOf(held) && held.isSubsetOf(map_.usable());
    const bool wider = keeps && held != one.near;
    if (!one.pressed && (wider ? roomy(one, held, one.near) : room(one.near) >= one.need)) return one.near;
    CpuSet nodes = keeps ? held : one.near;
    if (room(nodes) < one.need || (one.pressed && !relieved(one, nodes))) widen(one, nodes);
    return withoutLesser(one, held, std::move(nodes));
  }

  void widen(Party& one, CpuSet& nodes) const {
    const std::vector<std::size_t> order = map_.order(*one.home, one.tier);
    std::int64_t bytes = room(nodes);
    bool relief = !one.pressed || relieved(one, nodes);
    for (const std::size_t n : order) {
      if (bytes >= one.need && relief) return;
      if (nodes.contains(nodes_[n].id) || left_[n] <= 0 || nearlyFull(n)) continue;
      nodes.add(nodes_[n].id);
      bytes += left_[n];
      relief = true;
    }
    if (bytes >= one.need) return;
    nodes = map_.usable();
    one.missing = one.need - room(nodes);
  }

  // Leaves memory of a lesser tier that it can do without.
  [[nodiscard]] CpuSet withoutLesser(const Party& one, const CpuSet& held, CpuSet nodes) const {
    CpuSet rest;
    each(nodes, [&](std::size_t n) {
      if (rankOf(one, n) == map_.bestRank(one.tier)) rest.add(nodes_[n].id);
    });
    if (rest == nodes || !roomy(one, held, rest) || (one.pressed && !relieved(one, rest))) return nodes;
    return rest;
  }
  [[nodiscard]] int rankOf(const Party& one, std::size_t n) const { return MemoryMap::rank(nodes_[n].kind, one.tier); }

  // ---- what is left for the others ----
  void charge(const Party& one) {
    std::int64_t bytes = one.need;
    std::vector<std::size_t> near;
    each(one.near, [&](std::size_t n) { near.push_back(n); });
    takeLevel(near, bytes);
    if (bytes == 0 || one.nodes == one.near) return;
    for (const std::size_t n : map_.order(*one.home, one.tier)) {
      if (!one.nodes.contains(nodes_[n].id)) continue;
      const std::int64_t taken = std::min(left_[n], bytes);
      left_[n] -= taken;
      bytes -= taken;
    }
  }

  // From where most is left, so that what remains is as even as can be.
  void takeLevel(std::vector<std::size_t>& from, std::int64_t& bytes) {
    std::sort(from.begin(), from.end(), [this](std::size_t a, std::size_t b) { return left_[a] != left_[b] ? left_[a] > left_[b] : a < b; });
    std::int64_t sum = 0;
    for (std::size_t count = 1; count <= from.size(); ++count) {
      const auto many = static_cast<std::int64_t>(count);
      sum += left_[from[count - 1]];
      const std::int64_t next = count < from.size() ? left_[from[count]] : 0;
      if (sum - many * next < bytes && count < from.size()) continue;
      const std::int64_t remains = std::max<std::int64_t>(0, sum - bytes);
      bytes = std::max<std::int64_t>(0, bytes - sum);
      for (std::size_t i = 0; i < count; ++i) left_[from[i]] = remains / many + (static_cast<std::int64_t>(i) < remains % many ? 1 : 0);
      return;
    }
  }

  // ---- results ----
  void take(const Party& one) {
    targets_[one.group].containers[one.container].memoryNodes = one.nodes;
    const CpuSet held = one.state->memoryNodes & map_.usable();
    const CpuSet lost = held - one.nodes;
    if (lost.empty()) return;
    if (const std::int64_t moves = moving(one, held, one.nodes); moves > 0)
      fit_.narrowings.push_back({one.group, one.container, held | one.nodes, one.nodes, Bytes(moves)});
  }

  struct Sayings {
    int beyond{0};
    bool pressed{false};
    std::int64_t missing{0};
    std::optional<MemoryKind> lesser;
  };
  void sayAll() {
    for (std::size_t i = 0; i < parties_.size();) {
      const std::size_t group = parties_[i].group;
      Sayings sum;
      for (; i < parties_.size() && parties_[i].group == group; ++i) {
        const Party& one = parties_[i];
        if (one.leaving || (one.nodes == one.near && one.missing == 0)) continue;
        sum.beyond = std::max(sum.beyond, one.nodes.count() - one.nearCount);
        sum.pressed = sum.pressed || one.pressed;
        sum.missing += one.missing;
        each(one.nodes - one.near, [&](std::size_t n) {
          const MemoryKind kind = nodes_[n].kind;
          if (rankOf(one, n) > map_.bestRank(one.tier)) sum.lesser = std::max(sum.lesser.value_or(kind), kind);
        });
      }
      say(group, sum);
    }
  }

  void say(std::size_t group, const Sayings& sum) {
    const GroupId id = problem_.groups[group]->id;
    const auto add = [&](ReasonCode code, std::int64_t a) { fit_.reasons.push_back({id, code, a, 0, {}}); };
    if (sum.beyond > 0) add(sum.pressed ? ReasonCode::MemoryUnderPressure : ReasonCode::MemoryWidened, sum.beyond);
    if (sum.lesser) add(ReasonCode::MemoryOtherTier, static_cast<std::int64_t>(*sum.lesser));
    if (sum.missing > 0) add(ReasonCode::MemoryShort, sum.missing);
    const MemoryTier tier = problem_.groups[group]->memory;
    if (tier != MemoryTier::Dram && tier != MemoryTier::HighBandwidth) return;
    const MemoryKind wanted = tier == MemoryTier::Dram ? MemoryKind::Dram : MemoryKind::HighBandwidth;
    if (map_.bestRank(tier) > 0 && !targets_[group].pending) add(ReasonCode::MemoryTierAbsent, static_cast<std::int64_t>(wanted));
  }

  const Problem& problem_;
  const Config& config_;
  const MemoryMap& map_;
  const std::vector<MemoryMap::Node>& nodes_;
  std::vector<GroupTarget>& targets_;
  std::vector<Party> parties_;
  std::vector<std::int64_t> left_;                 // per node, bytes: what those whose turn it was have left
  std::vector<std::optional<std::int64_t>> free_;  // per node, bytes, as the kernel says
  MemoryFit fit_;
};

// Of so many a minute, how many in one of `parts` parts of it; at least one.
std::int64_t perMinute(std::int64_t many, std::int64_t parts) { return std::max<std::int64_t>(1, many / parts); }

// Refilled to now. Only the time that became tokens is used up, so that frequent decisions lose nothing.
MigrationBucket migrationNow(const Problem& problem) {
  const MigrationBucket& bucket = problem.snapshot.migration;
  const std::int64_t depth = problem.config.migrationPerMinute.value;
  if (depth <= 0) return bucket;
  const Instant now = problem.snapshot.now;
  const std::int64_t perMillisecond = perMinute(depth, Seconds(60) / Millis(1));
  if (bucket.level.value >= depth) return {Bytes(depth), now};
  const std::int64_t enough = (depth - bucket.level.value) / perMillisecond + 1;
  const std::int64_t elapsed = std::clamp<std::int64_t>((now - bucket.updated) / Millis(1), 0, enough);
  const Bytes level = bucket.level + Bytes(perMillisecond * elapsed);
  return level.value >= depth ? MigrationBucket{Bytes(depth), now} : MigrationBucket{level, bucket.updated + Millis(elapsed)};
}

// Of a group with several: when the last one may, and what they move together.
void sayDeferred(GroupId group, Nanos wait, Bytes moves, std::vector<Reason>& reasons) {
  if (!reasons.empty() && reasons.back().group == group && reasons.back().code == ReasonCode::MemoryNarrowDeferred) {
    reasons.back().a = std::max(reasons.back().a, wait.count());
    reasons.back().b += moves.value;
    return;
  }
  reasons.push_back({group, ReasonCode::MemoryNarrowDeferred, wait.count(), moves.value, {}});
}
}  // namespace

MemoryFit fitMemory(const Problem& problem, std::vector<GroupTarget>& targets) { return Fitter(problem, targets).run(); }

MemoryRoom::MemoryRoom(const Problem& problem) : map_(&problem.memory) {
  std::vector<GroupTarget> now = emptyTargets(problem.groups);
  for (std::size_t g = 0; g < now.size(); ++g) {
    for (std::size_t c = 0; c < now[g].containers.size(); ++c) now[g].containers[c].home = problem.groups[g]->containers[c].home;
  }
  Fitter fitter(problem, now);
  (void)fitter.run();
  left_ = std::move(fitter).left();
}

bool MemoryRoom::holds(const CpuSet& cpus, MemoryTier tier, Bytes bytes) const {
  const CpuSet near = map_->nearest(cpus, tier);
  std::int64_t room = 0;
  for (std::size_t n = 0; n < left_.size(); ++n) room += near.contains(map_->nodes()[n].id) ? left_[n] : 0;
  return room >= bytes.value;
}

void MemoryRoom::take(const CpuSet& cpus, MemoryTier tier, Bytes bytes) {
  const CpuSet near = map_->nearest(cpus, tier);
  for (std::size_t n = 0; n < left_.size(); ++n) {
    if (!near.contains(map_->nodes()[n].id)) continue;
    const std::int64_t taken = std::min(left_[n], bytes.value);
    left_[n] -= taken;
    bytes -= Bytes(taken);
  }
}

void payNarrowings(const Problem& problem, const MemoryFit& fit, Plan& plan) {
  const std::int64_t depth = problem.config.migrationPerMinute.value;
  plan.migration = migrationNow(problem);
  std::vector<Reason> reasons;
  if (problem.config.memoryNodes) reasons = fit.reasons;  // else nobody sets them, and what they are is not known
  bool waits = false;
  for (const MemoryNarrowing& one : fit.narrowings) {
    GroupTarget& group = plan.groups[one.group];
    CpuSet& nodes = group.containers[one.container].memoryNodes;
    nodes = one.narrow;
    if (depth <= 0 || !problem.config.memoryNodes) continue;
    const std::int64_t price = std::min(one.moves.value, depth);
    waits = waits || plan.migration.level.value < price;
    if (!waits) {
      plan.migration.level -= one.moves;
      continue;
    }
    nodes = one.wide;
    const std::int64_t missing = std::max<std::int64_t>(0, price - plan.migration.level.value);
    const Nanos wait = Seconds(missing / perMinute(depth, 60) + 1);
    sayDeferred(group.id, wait, one.moves, reasons);
    const Instant until = problem.snapshot.now + wait;
    if (!plan.decideAgainAt || until < *plan.decideAgainAt) plan.decideAgainAt = until;
  }
  if (reasons.empty()) return;
  plan.reasons.insert(plan.reasons.end(), reasons.begin(), reasons.end());
  sortByGroup(plan.reasons);
}

}  // namespace coterie::allocation
