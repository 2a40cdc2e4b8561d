// What a service must pass before an instance of it is started. Each function notes what stands in the way.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "allocation/isolation_room.h"
#include "allocation/reason_text.h"
#include "controller/instance_reconciler.h"
#include "model/owned_floor.h"
#include "objects/quantity.h"
#include "tenancy/quota.h"

namespace coterie::controller {

namespace {
// Memory is counted per instance as it is started (InsufficientMemory), not by what specs say.
tenancy::ServiceUse useOf(const ModelService& service, int unitCpus) {
  tenancy::ServiceUse use = tenancy::useOf(service, {}, unitCpus);
  use.memory = Bytes(0);
  return use;
}
}  // namespace

bool InstanceReconciler::admitQuota(ServiceRecord& record, const TenantView& tenant) {
  std::vector<tenancy::ServiceUse> others;
  for (const auto& [name, other] : records_) {
    if (other.admitted && other.tenant == tenant.name) others.push_back(other.admittedUse);
  }
  const tenancy::ServiceUse wanted = useOf(record.service, unitCpus(record.service.spec.isolation));
  const Status fits = tenancy::checkQuota(tenant.name, tenant.spec.quota, others, wanted);
  if (fits.ok()) {
    record.admittedUse = wanted;
    return true;
  }
  record.obstacles.push_back({"Allocated", fits.error().reason, fits.error().message});
  return false;
}

int InstanceReconciler::mostCpusOf(const ServiceRecord& record) const {
  const std::int64_t most = record.service.spec.maxCpus.value;
  const std::int64_t cpus = most > 0 ? (most + 999) / 1000 : config_.machineCpus;
  return static_cast<int>(std::clamp<std::int64_t>(cpus, 1, std::max(1, config_.machineCpus)));
}

// The threads of a wide run are its session's, so a wide instance has one lane.
int InstanceReconciler::ownLanesOf(const ServiceRecord& record) const { return record.width.inForce > 1 ? 1 : mostCpusOf(record); }

int InstanceReconciler::unitCpus(Isolation isolation) const {
  return isolation == Isolation::None ? 0 : ports_.allocation.isolationTerms(isolation).unitCpus;
}

ServiceGroup InstanceReconciler::groupOf(const ServiceRecord& record, const TenantView& tenant, const CpuClaim& claim) const {
  const ModelServiceSpec& spec = record.service.spec;
  ServiceGroup group;
  group.id = record.group;
  group.service = record.service.serviceName();
  group.tenant = tenant.name;
  group.band = tenant.spec.band;
  group.tenantWeight = tenant.spec.weight;
  group.weight = spec.weight;
  group.floor = claim.floor;
  group.isolation = claim.isolation;
  group.ceiling = spec.maxCpus;
  group.tenantCap = tenant.spec.quota.cpus;
  group.latencyCritical = spec.latencyCritical;
  if (spec.objective) group.objective = spec.objective->latency;
  return group;
}

// The plan's own sentences (allocation/reason_text.h).
std::string InstanceReconciler::shortageText(const ServiceRecord& record, const allocation::UnitShortage& shortage) const {
  std::string text;
  for (const allocation::Reason& reason : allocation::shortageReasons(record.group, shortage)) {
    const auto other = std::find_if(records_.begin(), records_.end(), [&](const auto& one) { return one.second.group == reason.other; });
    // A condition is for the tenant's eyes: another tenant's service is no name there.
    const bool own = reason.other.valid() && other != records_.end() && other->second.tenant == record.tenant;
    const std::string name = own ? other->second.service.serviceName().path() : std::string();
    text += (text.empty() ? "" : "; ") + allocation::reasonText(reason, {}, name).sentence;
  }
  return text;
}

void InstanceReconciler::refuseClaim(ServiceRecord& record, const TenantView& tenant, const CpuClaim& wanted, MilliCpu missing) {
  std::string kept;
  if (record.admitted) {
    kept = "; it keeps its floor of " + objects::cpusText(record.admittedClaim.floor);
    if (record.admittedClaim.isolation != wanted.isolation) kept += " and isolation " + std::string(isolationName(record.admittedClaim.isolation));
  }
  const std::string beside = objects::cpusText(missing) + " CPU missing beside the floors of the services that run" + kept;
  if (const auto shortage = ports_.allocation.unitShortage(groupOf(record, tenant, wanted))) {
    record.obstacles.push_back({"Allocated", "IsolationImpossible", shortageText(record, *shortage) + ". " + beside});
    return;
  }
  if (wanted.isolation == Isolation::None) {
    record.obstacles.push_back({"Allocated", "InsufficientCpu",
                                "minCpus " + objects::cpusText(wanted.floor) + " does not fit: " + beside +
                                    ". Lower minCpus or isolation here or elsewhere, or remove a service"});
    return;
  }
  const allocation::IsolationTerms terms = ports_.allocation.isolationTerms(wanted.isolation);
  record.obstacles.push_back(
      {"Allocated", "InsufficientCpu",
       fmt::format("isolation {} with minCpus {} owns {} CPU, whole {} of {} CPU, and that does not fit: {}. Lower minCpus or isolation here or "
                   "elsewhere, or remove a service",
                   isolationName(wanted.isolation), objects::cpusText(wanted.floor), objects::cpusText(ownedFloor(wanted.floor, terms.unitCpus)),
                   terms.named, terms.unitCpus, beside)});
}

// A claim that does not fit leaves a newcomer out, and the group of a running service as it was. What asks for no more than before always fits.
bool InstanceReconciler::admitFloor(ServiceRecord& record, const TenantView& tenant) {
  const CpuClaim wanted{record.service.spec.minCpus, record.service.spec.isolation};
  const auto owned = [this](const CpuClaim& claim) { return ownedFloor(claim.floor, unitCpus(claim.isolation)); };
  const CpuClaim& had = record.admittedClaim;
  const bool asksMore = !record.admitted || wanted.floor > had.floor || owned(wanted) > owned(had);
  const MilliCpu missing = asksMore ? ports_.allocation.missingForFloor(groupOf(record, tenant, wanted)) : MilliCpu{};
  if (missing.value <= 0) {
    record.admittedClaim = wanted;
  } else {
    refuseClaim(record, tenant, wanted, missing);
    if (!record.admitted) {
      // It was admitted once and lost its floor with the CPUs that went: what still runs gives way.
      for (InstanceRecord& instance : record.instances) endInstance(record, instance);
      return false;
    }
  }
  record.admitted = true;
  const ServiceGroup group = groupOf(record, tenant, record.admittedClaim);
  if (record.toldGroup != group) {
    ports_.allocation.setGroup(group);
    record.toldGroup = group;
  }
  return true;
}

// Before the floor: who waits for memory must not keep CPUs from others.
bool InstanceReconciler::admitMemory(ServiceRecord& record, const TenantView& tenant) {
  if (record.memory.missing.value > 0) {
    record.obstacles.push_back({"ModelLoaded", "InsufficientMemory",
                                "spec.memory " + objects::bytesText(record.service.spec.memory) + " is less than the " +
                                    memoryText(record.memory.need) + " that the model " +
                                    (record.memory.measured ? "needs (measured)" : "is taken to need (twice its files and 128 MB)") + ": " +
                                    memoryText(record.memory.missing) + " (" + std::to_string(record.memory.missing.value) +
                                    " bytes) are missing. Raise spec.memory, or leave it out"});
    return false;
  }
  if (!record.instances.empty()) return true;
  const Room room = roomFor(record, &tenant);
  const ServiceSteps first = planService({1, true, record.memory.limit, room.machine, room.quota, {}});
  if (first.missing.value > 0) noteMissingMemory(record, first);
  return first.missing.value == 0;
}

void InstanceReconciler::noteMissingMemory(ServiceRecord& record, const ServiceSteps& steps) {
  const bool beside = std::any_of(record.instances.begin(), record.instances.end(),
                                  [&](const InstanceRecord& i) { return i.state == InstanceState::Serving && i.version != record.version; });
  record.obstacles.push_back({"ModelLoaded", "InsufficientMemory",
                              fmt::format("an instance needs {} ({}); {} ({} bytes) are missing {}{}", memoryText(record.memory.limit),
                                          record.service.spec.memory.value > 0 ? "spec.memory"
                                          : record.memory.measured             ? "measured"
                                                                               : "estimated",
                                          memoryText(steps.missing), steps.missing.value,
                                          steps.missingInQuota ? "of quota.memory of tenant " + record.tenant->value : "on this machine",
                                          beside ? " beside the old model, which keeps serving" : "")});
}

// What the service itself has in reserve is room for it, and for nobody else.
InstanceReconciler::Room InstanceReconciler::roomFor(const ServiceRecord& self, const TenantView* tenant) const {
  Room room{config_.machineMemory - config_.systemMemory - memoryInUse(std::nullopt, &self), Bytes(INT64_MAX)};
  if (tenant != nullptr && tenant->spec.quota.memory.value > 0) room.quota = tenant->spec.quota.memory - memoryInUse(tenant->name, &self);
  return room;
}

Bytes InstanceReconciler::memoryInUse(const std::optional<TenantName>& tenant, const ServiceRecord* self) const {
  Bytes sum;
  for (const auto& [name, record] : records_) {
    for (const InstanceRecord& instance : record.instances) {
      if (!tenant || instance.tenant == *tenant) sum += instance.limit;
    }
    sum += preparedMemory(record, tenant);
    if (&record == self || (tenant && record.tenant != tenant)) continue;
    for (const Bytes reserved : record.reserved) sum += reserved;
  }
  if (measuring_ && (!tenant || measuring_->tenant == *tenant)) sum += measuring_->limit;
  return sum;
}

// As many as it may still start again, the first ones lost first.
void InstanceReconciler::trimReserve(ServiceRecord& record) {
  if (record.version.empty()) return record.reserved.clear();  // there is nothing that could be started
  const auto running = static_cast<int>(
      std::count_if(record.instances.begin(), record.instances.end(), [](const InstanceRecord& i) { return i.state < InstanceState::Draining; }));
  const auto most = static_cast<std::size_t>(std::max(0, record.desired - running));
  if (record.reserved.size() > most) record.reserved.resize(most);
}

// The first pass asks for all files; the one after the last answer starts all instances.
void InstanceReconciler::lowerBarrier() {
  if (barrierPassed_ || readFailed_) return;
  const bool waiting =
      std::any_of(records_.begin(), records_.end(), [](const auto& r) { return r.second.inspection.pending && !r.second.inspection.answer; });
  if (waiting && ports_.loop.clock().now() < barrierUntil_) return;
  barrierPassed_ = true;
  pass_.trigger();
}

}  // namespace coterie::controller
