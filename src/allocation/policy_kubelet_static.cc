// kubelet-static: a node under kubelet's CPU manager policy `static`; cm-single and cm-multi: the same with every container a guaranteed pod of
// floor(CPUs / containers) CPUs, as the paper's scenarios have it.
//
// Documented behaviour that is kept: a container whose request is a whole number of CPUs owns so many, exclusively; the request is its part of the
// group's floor. All others share what nobody owns; where nothing is left of that, they float over everything (the peer then writes no set). An owner
// keeps its CPUs as long as its request stays the same. CPUs are picked as topology_picker.h says. Options: full-pcpus-only refuses a request that is
// no multiple of a core's threads; distribute-across-numa takes equal parts from as few nodes as can give them; align-by-socket keeps to one socket
// if one has room; prefer-align-cpus-by-uncorecache takes whole cache groups first. A container that is refused leaves its group Pending, as the
// group is our unit. Weights, caps of tenants and demand play no part; nothing is lent. O(containers * n log n). Source: Kubernetes documentation,
// "Control CPU Management Policies on the Node".
#include <algorithm>

#include "allocation/assignment.h"
#include "allocation/policy.h"
#include "allocation/topology_picker.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;

class KubeletStatic {
 public:
  explicit KubeletStatic(const Problem& problem) : problem_(problem), layout_(problem.layout), picker_(problem.layout) {}

  Plan run() {
    plan_.bucket = problem_.snapshot.bucket;
    plan_.groups = emptyTargets(problem_);
    homes_.resize(plan_.groups.size());
    readRequests();
    keepWhatIsHeld();
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      if (requests_[g] > 0) admit(g);
    }
    share();
    finish(problem_, plan_);
    return std::move(plan_);
  }

 private:
  [[nodiscard]] const GroupState& group(std::size_t g) const { return *problem_.groups[g]; }

  void readRequests() {
    std::int64_t all = 0;
    for (const GroupState* each : problem_.groups) all += static_cast<std::int64_t>(each->containers.size());
    for (const GroupState* each : problem_.groups) {
      if (problem_.config.policy != PolicyName::KubeletStatic) {
        requests_.push_back(static_cast<int>(layout_.size() / std::max<std::int64_t>(1, all)));
        continue;
      }
      const std::int64_t one = each->floor.value / std::max<std::int64_t>(1, static_cast<std::int64_t>(each->containers.size()));
      requests_.push_back(one % kCpu == 0 ? static_cast<int>(one / kCpu) : 0);
    }
  }

  void keepWhatIsHeld() {
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      homes_[g].resize(group(g).containers.size());
      for (std::size_t c = 0; c < homes_[g].size(); ++c) {
        const CpuSet& home = group(g).containers[c].home;
        const Positions held = layout_.toPositions(home);
        const bool asked = requests_[g] > 0 && static_cast<int>(held.size()) == requests_[g] && home.count() == requests_[g];
        if (!asked || home.intersects(problem_.snapshot.pool)) continue;
        if (!std::all_of(held.begin(), held.end(), [&](int position) { return picker_.free(position); })) continue;
        picker_.occupy(held);
        homes_[g][c] = held;
      }
    }
  }

  // All containers or none.
  void admit(std::size_t g) {
    const int request = requests_[g];
    for (Positions& home : homes_[g]) {
      if (home.empty()) home = pick(request);
      if (!home.empty()) continue;
      for (Positions& given : homes_[g]) picker_.release(given), given.clear();
      plan_.groups[g].pending = true;
      plan_.reasons.push_back({plan_.groups[g].id,
                               ReasonCode::PendingInsufficientCpu,
                               request * kCpu * static_cast<std::int64_t>(homes_[g].size()),
                               picker_.freeIn(0) * kCpu,
                               {}});
      return;
    }
  }

  [[nodiscard]] int threadsPerCore() const {
    int threads = 1;
    for (const Layout::Branch& branch : layout_.branches) threads = branch.level == DomainLevel::Core ? std::max(threads, branch.size()) : threads;
    return threads;
  }

  [[nodiscard]] Positions pick(int request) {
    const KubeletStaticOptions& options = problem_.config.kubelet;
    if (options.fullPhysicalCpusOnly && request % threadsPerCore() != 0) return {};
    if (options.alignBySocket) {
      for (const int socket : picker_.tightestFirst(DomainLevel::Socket)) {
        if (picker_.freeIn(socket) >= request) return picker_.take(request, socket, options.preferUncoreCache);
      }
    }
    if (options.distributeAcrossNuma) return picker_.takeAcrossNodes(request);
    return picker_.take(request, 0, options.preferUncoreCache);
  }

  void share() {
    plan_.pool = layout_.usable;
    for (const auto& homes : homes_) {
      for (const Positions& home : homes) plan_.pool -= layout_.toSet(home);
    }
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      GroupTarget& target = plan_.groups[g];
      if (target.pending) continue;
      target.cpuWeight = 100 * static_cast<std::int64_t>(target.containers.size());
      const int request = requests_[g];
      if (request == 0) {
        const CpuSet& where = plan_.pool.empty() ? layout_.usable : plan_.pool;
        target.inPool = true;
        placeOnAll(target, where);
        plan_.reasons.push_back({target.id, ReasonCode::SharesFloat, where.count(), 0, {}});
        continue;
      }
      for (std::size_t c = 0; c < target.containers.size(); ++c) {
        target.containers[c].home = layout_.toSet(homes_[g][c]);
        target.containers[c].ownLanes = request;
      }
      target.entitlement = MilliCpu(request * kCpu * static_cast<std::int64_t>(target.containers.size()));
      plan_.reasons.push_back({target.id, ReasonCode::RaisedToFloor, target.entitlement.value, 0, {}});
    }
  }

  const Problem& problem_;
  const Layout& layout_;
  TopologyPicker picker_;
  Plan plan_;
  std::vector<int> requests_;                  // per group: CPUs that each of its containers asks for; 0: none of its own
  std::vector<std::vector<Positions>> homes_;  // per group, per container; empty: none of its own
};
}  // namespace

Plan planKubeletStatic(const Problem& problem) { return KubeletStatic(problem).run(); }

}  // namespace coterie::allocation
