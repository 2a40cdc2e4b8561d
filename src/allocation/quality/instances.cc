#include "allocation/quality/instances.h"

#include <algorithm>
#include <cmath>

#include "allocation/snapshot_builder.h"
#include "base/rng.h"
#include "model/machine_generator.h"

namespace coterie::allocation::quality {

namespace {
struct SmallMachine {
  Machine machine;
  bool units{true};  // those of one level are of equal size and all CPUs are alike, so that isolation can be asked for
};

Machine twoKinds() {
  std::vector<CpuPlace> places = regularPlaces({1, 1, 2, 4, 1});
  for (CpuPlace& place : places) {
    place.kind = place.cache;
    place.capacity = MilliCpu(place.kind == 0 ? 1000 : 400);
  }
  return machineFrom("two-kinds-8", places);
}

Machine withSlowCores(std::string name, MachineShape shape, int slow) {
  shape.slowCores = slow;
  shape.numbering = CpuNumbering::ThreadsTogether;
  return regularMachine(std::move(name), shape);
}

Machine withOffline(std::string name, MachineShape shape, const CpuSet& offline) {
  shape.offline = offline;
  return regularMachine(std::move(name), shape);
}

// One near the last node, one near the first cache.
void addDevices(Machine& machine) {
  CpuSet node, cache;
  for (const Domain& domain : machine.domains) {
    if (domain.level == DomainLevel::Node) node = domain.cpus;
    if (domain.level == DomainLevel::Cache && cache.empty()) cache = domain.cpus;
  }
  machine.devices.push_back({"far", DeviceKind::Gpu, node, -1});
  if (!cache.empty()) machine.devices.push_back({"near", DeviceKind::Network, cache, -1});
}

// Sockets, nodes per socket, caches per node, cores per cache, threads.
std::vector<SmallMachine> makeMachines() {
  std::vector<SmallMachine> made;
  const auto add = [&](const char* name, const MachineShape& shape) { made.push_back({regularMachine(name, shape), true}); };
  add("flat-4", {1, 1, 0, 4, 1});
  add("flat-8", {1, 1, 0, 8, 1});
  add("smt-8", {1, 1, 1, 4, 2});
  add("smt-12", {1, 1, 1, 6, 2});
  add("2-nodes-8", {1, 2, 0, 4, 1});
  add("2-sockets-smt-8", {2, 1, 0, 2, 2});
  add("2-sockets-smt-12", {2, 1, 0, 3, 2});
  add("4-sockets-8", {4, 1, 0, 2, 1});
  add("2-sockets-4-nodes-8", {2, 2, 0, 2, 1});
  add("2-caches-smt-8", {1, 1, 2, 2, 2});
  add("3-caches-smt-12", {1, 1, 3, 2, 2});
  add("4-caches-8", {1, 1, 4, 2, 1});
  add("2-nodes-4-caches-8", {1, 2, 2, 2, 1});
  add("2-sockets-4-caches-12", {2, 1, 2, 3, 1});
  add("2-sockets-4-nodes-4-caches-8", {2, 2, 1, 2, 1});
  made.push_back({withSlowCores("4-fast-4-slow", {1, 1, 1, 4, 1}, 4), false});
  made.push_back({withSlowCores("2-fast-smt-4-slow", {1, 1, 1, 2, 2}, 4), false});
  made.push_back({twoKinds(), false});
  made.push_back({withOffline("half-a-core-7", {2, 1, 0, 2, 2}, {7}), false});
  made.push_back({withOffline("uneven-caches-6", {1, 1, 2, 4, 1}, {6, 7}), false});
  for (SmallMachine& one : made) addDevices(one.machine);
  return made;
}

const std::vector<SmallMachine>& machines() {
  static const std::vector<SmallMachine> made = makeMachines();
  return made;
}
}  // namespace

Snapshot instanceOf(std::uint64_t seed) {
  Rng rng(seed);
  const SmallMachine& small = machines()[seed % machines().size()];
  SnapshotBuilder builder(small.machine);
  const std::int64_t cpus = small.machine.online.count();
  const std::int64_t groups = rng.between(1, 4);
  const bool tight = rng.chance(15);  // floors beyond what there is
  const bool isolating = small.units && rng.chance(30);
  const bool little = rng.chance(20);  // ceilings of less than a CPU: a pool
  std::int64_t floors = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    GroupState& group = builder.group(static_cast<int>(rng.between(1, 3)), static_cast<int>(rng.chance(60) ? 1 : rng.between(2, 3)));
    group.band = static_cast<Band>(rng.chance(70) ? 1 : rng.between(0, 2));
    group.tenantWeight = 100 * group.tenant.value;
    group.weight = rng.chance(50) ? 100 : rng.between(20, 400);
    group.joined = builder.snapshot.now - Seconds(rng.between(0, 3));
    if (rng.chance(50)) {
      const MilliCpu floor(rng.chance(70) ? 1000 * rng.between(1, std::max<std::int64_t>(1, cpus / 3)) : rng.between(1, 3000));
      if (tight || floors + floor.value + 1000 * groups <= 1000 * cpus) group.floor = floor, floors += floor.value + 1000;
    }
    if (rng.chance(40)) group.ceiling = MilliCpu(rng.chance(80) ? 1000 * rng.between(1, cpus) : rng.between(300, 1000 * cpus));
    if (little && rng.chance(50)) group.ceiling = MilliCpu(rng.between(100, 900));
    if (isolating && rng.chance(50)) group.isolation = static_cast<Isolation>(rng.between(1, 3));
  }
  for (GroupState& group : builder.snapshot.groups) {  // last, so that all else is as it was without
    const auto& devices = small.machine.devices;
    if (rng.chance(20)) group.device = devices[static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(devices.size()) - 1))].name;
  }
  return builder.snapshot;
}

double Judgement::gap() const { return static_cast<double>(cost - least) / static_cast<double>(std::max<std::int64_t>(least, 4)); }

Judgement judge(const Snapshot& snapshot, const Plan& plan) {
  Judgement judgement;
  const std::vector<bool> pending = bestPending(snapshot);
  judgement.l1 = floorsMet(snapshot, plan);
  for (std::size_t g = 0; g < pending.size(); ++g) judgement.l1 = judgement.l1 && plan.groups[g].pending == pending[g];
  const std::vector<double> fair = fairShares(snapshot, pending);
  judgement.l2 = true;
  for (std::size_t g = 0; g < fair.size(); ++g) {
    judgement.l2 = judgement.l2 && std::abs(static_cast<double>(plan.groups[g].entitlement.value) - fair[g]) <= kRounding;
  }
  const std::vector<Owner> owners = ownersOf(snapshot, plan);
  judgement.cost = costOf(snapshot, owners);
  // One above, so that it must find a placement as good as the plan's.
  const std::optional<std::vector<Owner>> best = cheapest(snapshot, owners, judgement.cost + 1);
  judgement.best = best.value_or(std::vector<Owner>{});
  judgement.least = best ? costOf(snapshot, *best) : -1;
  return judgement;
}

std::string describe(const Snapshot& snapshot, const Plan& plan, const Judgement& judgement) {
  const std::vector<bool> pending = bestPending(snapshot);
  const std::vector<double> fair = fairShares(snapshot, pending);
  std::string text = snapshot.machine->name + ", CPUs " + snapshot.machine->online.toString() + "\n";
  for (std::size_t g = 0; g < snapshot.groups.size(); ++g) {
    const GroupState& group = snapshot.groups[g];
    const GroupTarget& target = plan.groups[g];
    text += "  group " + std::to_string(group.id.value) + ": tenant " + std::to_string(group.tenant.value) + " weight " +
            std::to_string(group.tenantWeight) + "/" + std::to_string(group.weight) + ", band " + std::to_string(static_cast<int>(group.band)) +
            ", floor " + std::to_string(group.floor.value) + ", ceiling " + std::to_string(group.ceiling.value) + ", isolation " +
            std::to_string(static_cast<int>(group.isolation)) + (group.device.empty() ? "" : ", device " + group.device) + " | entitled " +
            std::to_string(target.entitlement.value) + " (fair " + std::to_string(fair[g]) + ")";
    text += target.pending ? ", waits" : target.inPool ? ", in the pool:" : ":";
    text += pending[g] == target.pending ? "" : " (should be the other way)";
    for (const ContainerTarget& container : target.containers) text += " [" + container.home.toString() + "]";
    text += "\n";
  }
  text += "  J " + std::to_string(judgement.cost) + "/4, least " + std::to_string(judgement.least) + "/4:";
  for (const Owner& owner : judgement.best) {
    text += owner.pool ? " pool" : " tenant " + std::to_string(owner.tenant);
    for (const CpuSet& home : owner.homes) text += " [" + home.toString() + "]";
  }
  return text + "\n";
}

}  // namespace coterie::allocation::quality
