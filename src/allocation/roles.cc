#include "allocation/roles.h"

#include <algorithm>

#include "allocation/isolation.h"
#include "allocation/sizing.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;

std::ptrdiff_t countOf(const GroupState& group, ContainerRole role) {
  return std::count_if(group.containers.begin(), group.containers.end(), [&](const ContainerState& one) { return one.role == role; });
}

std::int64_t wholeCpus(MilliCpu floor) { return std::max<std::int64_t>(1, cpusForFloor(floor)); }

MilliCpu largestInit(const GroupState& group) {
  MilliCpu largest;
  for (const ContainerState& one : group.containers) {
    if (one.role == ContainerRole::Init) largest = std::max(largest, one.floor);
  }
  return largest;
}

// Of apps and sidecars together: from a CPU up each sidecar's own are counted whole, and so is what is left for the apps.
MilliCpu floorOf(const GroupState& group, const GroupState& shape) {
  const MilliCpu apps = std::max(group.floor, largestInit(group));
  MilliCpu plain = apps;
  for (const ContainerState& one : group.containers) {
    if (one.role == ContainerRole::Sidecar) plain += one.floor;
  }
  const std::int64_t apart = leastCpus(shape) - 1;
  const bool whole = apart > 0 && (plain.value >= kCpu || isolated(group));
  return whole ? MilliCpu(kCpu * apart + std::max(kCpu, apps.value)) : plain;
}

// Apps first; who stands in for them where there are none: the first init, else the sidecars.
std::vector<ContainerState> membersOf(const GroupState& group) {
  const bool apps = countOf(group, ContainerRole::App) > 0;
  const bool inits = countOf(group, ContainerRole::Init) > 0;
  std::vector<ContainerState> members;
  for (const ContainerState& one : group.containers) {
    const bool standsIn = !apps && (inits ? one.role == ContainerRole::Init && members.empty() : one.role == ContainerRole::Sidecar);
    if (one.role != ContainerRole::App && !standsIn) continue;
    members.push_back(one);
    members.back().role = ContainerRole::App;
  }
  const std::size_t first = members.size();
  for (const ContainerState& one : group.containers) {
    if (one.role == ContainerRole::Sidecar && (apps || inits)) members.push_back(one);
  }
  if (first == 0) return members;
  CpuSet others;
  for (const ContainerState& one : members) others |= one.home;
  for (const ContainerState& one : group.containers) {
    if (one.role == ContainerRole::Init) members.front().home |= one.home - others;
  }
  return members;
}

GroupState shapeOfPauses(const GroupState& group) {
  GroupState shape = group;
  shape.containers.resize(1);
  shape.containers.front().role = ContainerRole::App;
  shape.containers.front().home.clear();
  shape.band = Band::Low;
  shape.joined = Instant::max();
  shape.floor = MilliCpu(0);
  shape.ceiling = MilliCpu(1);
  shape.isolation = Isolation::None;
  return shape;
}
}  // namespace

bool hasRoles(const GroupState& group) {
  return std::any_of(group.containers.begin(), group.containers.end(), [](const ContainerState& one) { return one.role != ContainerRole::App; });
}

GroupState shapeOf(const GroupState& group) {
  if (!hasRoles(group)) return group;
  std::vector<ContainerState> members = membersOf(group);
  if (members.empty()) return shapeOfPauses(group);
  GroupState shape = group;
  shape.containers = std::move(members);
  shape.floor = floorOf(group, shape);
  shape.ceiling = std::max(shape.ceiling, shape.floor);
  return shape;
}

std::int64_t leastCpus(const GroupState& shape) {
  std::int64_t sidecars = 0;
  for (const ContainerState& one : shape.containers) sidecars += one.role == ContainerRole::Sidecar ? wholeCpus(one.floor) : 0;
  return sidecars + 1;
}

std::vector<int> fixedSizes(const GroupState& shape) {
  if (countOf(shape, ContainerRole::Sidecar) == 0) return {};
  std::vector<int> sizes;
  for (const ContainerState& one : shape.containers) sizes.push_back(one.role == ContainerRole::Sidecar ? static_cast<int>(wholeCpus(one.floor)) : 0);
  return sizes;
}

MilliCpu addedByInits(const GroupState& group) { return std::max(MilliCpu(0), largestInit(group) - group.floor); }

std::vector<ContainerTarget> castOf(const GroupState& group, const GroupTarget& shape, const CpuSet& pool) {
  const GroupState members = shapeOf(group);
  CpuSet all;
  CpuSet apps;
  for (std::size_t m = 0; m < members.containers.size(); ++m) {
    all |= shape.containers[m].home;
    if (members.containers[m].role != ContainerRole::Sidecar) apps |= shape.containers[m].home;
  }
  const bool withPool = !shape.pending && !pool.empty() && !isolated(group);
  std::vector<ContainerTarget> cast;
  for (const ContainerState& one : group.containers) {
    const auto member =
        std::find_if(shape.containers.begin(), shape.containers.end(), [&](const ContainerTarget& target) { return target.id == one.id; });
    if (member != shape.containers.end()) {
      cast.push_back(*member);
      continue;
    }
    ContainerTarget& target = cast.emplace_back();
    target.id = one.id;
    if (one.role == ContainerRole::Init) target.home = apps;
    if (one.role == ContainerRole::Pause) target.home = withPool ? pool : all;
    if (one.role == ContainerRole::Init && !shape.inPool) target.ownLanes = std::max(1, target.home.count());
  }
  return cast;
}

std::int64_t sharersOf(const GroupState& group) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(group.containers.size()) - countOf(group, ContainerRole::Pause));
}

}  // namespace coterie::allocation
