// kubelet-static: a node under kubelet's CPU manager policy `static`; cm-single and cm-multi: the same with every container a guaranteed pod of
// floor(CPUs / containers) CPUs, as the paper's scenarios have it.
//
// Documented behaviour that is kept: a container whose request is a whole number of CPUs owns so many, exclusively; the request is its part of the
// group's floor. All others share what nobody owns; where nothing is left of that, they float over everything (the peer then writes no set). An owner
// keeps its CPUs as long as its request stays the same. Init containers and sidecars have requests of their own and are placed before the apps, which
// start from what the inits hold; a pod's pause container is not restricted. CPUs are picked as topology_picker.h says. Options: full-pcpus-only
// refuses a request that is no multiple of a core's threads; distribute-across-numa takes equal parts from as few nodes as can give them;
// align-by-socket keeps to one socket if one has room; prefer-align-cpus-by-uncorecache takes whole cache groups first. A container that is refused
// leaves its group Pending, as the group is our unit. Weights, caps of tenants and demand play no part; nothing is lent. O(containers * n log n).
// Source: Kubernetes documentation, "Control CPU Management Policies on the Node".
#include <algorithm>

#include "allocation/assignment.h"
#include "allocation/policy.h"
#include "allocation/roles.h"
#include "allocation/topology_picker.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;

class KubeletStatic {
 public:
  explicit KubeletStatic(const Problem& problem) : problem_(problem), layout_(problem.layout), picker_(problem.layout) {}

  Plan run() {
    plan_.bucket = problem_.snapshot.bucket;
    plan_.groups = emptyTargets(problem_.groups);
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
      const auto apps = std::count_if(each->containers.begin(), each->containers.end(),
                                      [](const ContainerState& container) { return container.role == ContainerRole::App; });
      requests_.push_back(wholeCpus(each->floor.value / std::max<std::int64_t>(1, apps)));
    }
  }

  static int wholeCpus(std::int64_t request) { return request % kCpu == 0 ? static_cast<int>(request / kCpu) : 0; }

  // CPUs of its own that a container asks for.
  [[nodiscard]] int requestOf(std::size_t g, std::size_t c) const {
    const ContainerState& container = group(g).containers[c];
    switch (container.role) {
      case ContainerRole::App: return requests_[g];
      case ContainerRole::Pause: return 0;
      case ContainerRole::Init:
      case ContainerRole::Sidecar: break;
    }
    return requests_[g] > 0 ? wholeCpus(container.floor.value) : 0;
  }

  // Inits last: what an app of theirs holds as well is not theirs alone.
  void keepWhatIsHeld() {
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      homes_[g].resize(group(g).containers.size());
      for (const bool inits : {false, true}) {
        for (std::size_t c = 0; c < homes_[g].size(); ++c) {
          if ((group(g).containers[c].role == ContainerRole::Init) == inits) keep(g, c);
        }
      }
    }
  }

  void keep(std::size_t g, std::size_t c) {
    const CpuSet& home = group(g).containers[c].home;
    const Positions held = layout_.toPositions(home);
    const int request = requestOf(g, c);
    const bool asked = request > 0 && static_cast<int>(held.size()) == request && home.count() == request;
    if (!asked || home.intersects(problem_.snapshot.pool)) return;
    if (!std::all_of(held.begin(), held.end(), [&](int position) { return picker_.free(position) || reusable(g, c, position); })) return;
    picker_.occupy(held);
    homes_[g][c] = held;
  }

  [[nodiscard]] bool reusable(std::size_t g, std::size_t init, int position) const {
    if (group(g).containers[init].role != ContainerRole::Init) return false;
    for (std::size_t c = 0; c < homes_[g].size(); ++c) {
      if (group(g).containers[c].role == ContainerRole::App && std::binary_search(homes_[g][c].begin(), homes_[g][c].end(), position)) return true;
    }
    return false;
  }

  // All containers or none.
  void admit(std::size_t g) {
    Positions left;  // of the inits, for the apps
    for (const ContainerRole role : {ContainerRole::Init, ContainerRole::Sidecar, ContainerRole::App}) {
      for (std::size_t c = 0; c < homes_[g].size(); ++c) {
        if (group(g).containers[c].role != role || requestOf(g, c) == 0) continue;
        Positions& home = homes_[g][c];
        if (home.empty() && !place(home, requestOf(g, c), role == ContainerRole::App ? left : Positions{})) return refuse(g);
        if (role == ContainerRole::Init) left.insert(left.end(), home.begin(), home.end());
        std::erase_if(left, [&](int position) { return role == ContainerRole::App && std::binary_search(home.begin(), home.end(), position); });
      }
    }
  }

  bool place(Positions& home, int request, const Positions& from) {
    home.assign(from.begin(), from.begin() + std::min<std::ptrdiff_t>(request, static_cast<std::ptrdiff_t>(from.size())));
    const int missing = request - static_cast<int>(home.size());
    const Positions more = missing > 0 ? pick(missing) : Positions{};
    home.insert(home.end(), more.begin(), more.end());
    std::sort(home.begin(), home.end());
    return static_cast<int>(home.size()) == request;
  }

  void refuse(std::size_t g) {
    for (Positions& given : homes_[g]) picker_.release(given), given.clear();
    plan_.groups[g].pending = true;
    plan_.reasons.push_back({plan_.groups[g].id,
                             ReasonCode::PendingInsufficientCpu,
                             requests_[g] * kCpu * static_cast<std::int64_t>(homes_[g].size()),
                             picker_.freeIn(0) * kCpu,
                             {}});
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
      target.cpuWeight = 100 * sharersOf(group(g));
      const CpuSet& where = plan_.pool.empty() ? layout_.usable : plan_.pool;
      target.inPool = requests_[g] == 0;
      CpuSet owned;
      for (std::size_t c = 0; c < target.containers.size(); ++c) {
        const bool pause = group(g).containers[c].role == ContainerRole::Pause;
        target.containers[c].home = !homes_[g][c].empty() ? layout_.toSet(homes_[g][c]) : pause ? layout_.usable : where;
        if (!homes_[g][c].empty()) target.containers[c].ownLanes = static_cast<int>(homes_[g][c].size());
        owned |= layout_.toSet(homes_[g][c]);
      }
      if (target.inPool) {
        plan_.reasons.push_back({target.id, ReasonCode::SharesFloat, where.count(), plan_.pool.empty() ? 0 : 1, {}});
        continue;
      }
      target.entitlement = MilliCpu(owned.count() * kCpu);
      plan_.reasons.push_back({target.id, ReasonCode::RaisedToFloor, target.entitlement.value, 0, {}});
    }
  }

  const Problem& problem_;
  const Layout& layout_;
  TopologyPicker picker_;
  Plan plan_;
  std::vector<int> requests_;                  // per group: CPUs that each of its apps asks for; 0: none of its own
  std::vector<std::vector<Positions>> homes_;  // per group, per container; empty: none of its own
};
}  // namespace

Plan planKubeletStatic(const Problem& problem) { return KubeletStatic(problem).run(); }

}  // namespace coterie::allocation
