// balloons: a node under the balloons policy of nri-plugins with a balloon for each group.
//
// A balloon holds a whole number of CPUs, as many as its containers request together (their group's floor, rounded up), and all of them may run on
// all of it. It inflates and deflates with its group: what it holds is kept, more is taken in the picker's order (topology_picker.h) from the node
// where it holds most while there is room, then from anywhere; what is too much is given back from the node where it holds least. Groups that request
// nothing share what no balloon holds, at least one CPU; a balloon that cannot inflate leaves its group Pending. Weights, caps of tenants and demand
// play no part; nothing is lent, and nothing is moved for a better fit. O(groups * n log n). Source: nri-plugins documentation, "Balloons policy".
#include <algorithm>

#include "allocation/assignment.h"
#include "allocation/policy.h"
#include "allocation/roles.h"
#include "allocation/sizing.h"
#include "allocation/topology_picker.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Balloons {
 public:
  explicit Balloons(const Problem& problem) : problem_(problem), layout_(problem.layout), picker_(problem.layout), held_(problem.groups.size()) {}

  Plan run() {
    plan_.bucket = problem_.snapshot.bucket;
    plan_.groups = emptyTargets(problem_.groups);
    hold();
    for (std::size_t g = 0; g < held_.size(); ++g) deflate(g);
    for (std::size_t g = 0; g < held_.size(); ++g) inflate(g);
    place();
    finish(problem_, plan_);
    return std::move(plan_);
  }

 private:
  [[nodiscard]] int sizeOf(std::size_t g) const { return static_cast<int>(cpusForFloor(problem_.groups[g]->floor)); }

  void hold() {
    for (std::size_t g = 0; g < held_.size(); ++g) {
      if (sizeOf(g) == 0) {
        anyShares_ = true;
        continue;
      }
      CpuSet home;
      for (const ContainerState& container : problem_.groups[g]->containers) home |= container.home;
      held_[g] = layout_.toPositions(home - problem_.snapshot.pool);
      std::erase_if(held_[g], [&](int position) { return !picker_.free(position); });
      picker_.occupy(held_[g]);
    }
  }

  [[nodiscard]] int nodeOf(int position) const { return layout_.paths[at(position)][at(static_cast<int>(DomainLevel::Node))]; }
  [[nodiscard]] std::ptrdiff_t heldIn(std::size_t g, int node) const {
    return std::count_if(held_[g].begin(), held_[g].end(), [&](int position) { return nodeOf(position) == node; });
  }

  void deflate(std::size_t g) {
    while (static_cast<int>(held_[g].size()) > sizeOf(g)) {
      const auto least = std::min_element(held_[g].begin(), held_[g].end(), [&](int a, int b) {
        const std::ptrdiff_t left = heldIn(g, nodeOf(a));
        const std::ptrdiff_t right = heldIn(g, nodeOf(b));
        return left != right ? left < right : a > b;
      });
      picker_.release({*least});
      held_[g].erase(least);
    }
  }

  void inflate(std::size_t g) {
    int missing = sizeOf(g) - static_cast<int>(held_[g].size());
    if (missing <= 0) return;
    const int spare = picker_.freeIn(0) - (anyShares_ ? 1 : 0);
    if (missing > spare) {
      picker_.release(held_[g]);
      held_[g].clear();
      plan_.groups[g].pending = true;
      plan_.reasons.push_back({plan_.groups[g].id, ReasonCode::PendingInsufficientCpu, sizeOf(g) * kCpu, std::max(0, spare) * kCpu, {}});
      return;
    }
    if (!held_[g].empty()) {
      const int home =
          nodeOf(*std::max_element(held_[g].begin(), held_[g].end(), [&](int a, int b) { return heldIn(g, nodeOf(a)) < heldIn(g, nodeOf(b)); }));
      missing -= take(g, std::min(missing, picker_.freeIn(home)), home);
    }
    take(g, missing, 0);
  }

  int take(std::size_t g, int count, int branch) {
    const Positions taken = picker_.take(count, branch);
    held_[g].insert(held_[g].end(), taken.begin(), taken.end());
    std::sort(held_[g].begin(), held_[g].end());
    return static_cast<int>(taken.size());
  }

  void place() {
    plan_.pool = layout_.usable;
    for (const Positions& held : held_) plan_.pool -= layout_.toSet(held);
    for (std::size_t g = 0; g < held_.size(); ++g) {
      GroupTarget& target = plan_.groups[g];
      if (target.pending) continue;
      target.cpuWeight = 100 * sharersOf(*problem_.groups[g]);
      target.inPool = held_[g].empty();
      placeOnAll(target, target.inPool ? plan_.pool : layout_.toSet(held_[g]));
      if (target.inPool) {
        plan_.reasons.push_back({target.id, ReasonCode::SharesFloat, plan_.pool.count(), 1, {}});
        continue;
      }
      target.entitlement = MilliCpu(static_cast<std::int64_t>(held_[g].size()) * kCpu);
      const int lanes = static_cast<int>(held_[g].size() / target.containers.size());
      for (ContainerTarget& container : target.containers) container.ownLanes = std::max(1, lanes);
      plan_.reasons.push_back({target.id, ReasonCode::RaisedToFloor, target.entitlement.value, 0, {}});
    }
  }

  const Problem& problem_;
  const Layout& layout_;
  TopologyPicker picker_;
  Plan plan_;
  std::vector<Positions> held_;  // per group; empty: it shares what is left
  bool anyShares_{false};
};
}  // namespace

Plan planBalloons(const Problem& problem) { return Balloons(problem).run(); }

}  // namespace coterie::allocation
