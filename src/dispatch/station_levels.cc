// Levels: how far the tenants of a service have come, where not everybody uses the same slots.
//
// The least tag first is weighted max-min over (tenant, slot) in the fluid limit ("constrained max-min", Ghodsi et al., Choosy, 2013) while nothing
// but requests changes: whoever can use only slots that many want stays low, and comes first there. What must not last is a level that was reached
// under other conditions, so a tenant is moved from level to level with its debts when the services that it uses, or the slots, change.
#include <algorithm>

#include "dispatch/station.h"

namespace coterie::dispatch {

// Somebody waits for its slots; else, if anything bounds it, it is `concurrency`.
bool Station::boundBySlots(const Service& service) { return service.queued > 0 && service.freeOwn.empty() && service.freeLoan.empty(); }

Station::Tag Station::virtualTimeAt(const Service& service, Band band) const {
  const auto at = static_cast<std::size_t>(band);
  if (options_.concurrency == 0 || boundBySlots(service)) return service.virtualTime[at];
  return std::max(service.virtualTime[at], bands_[at].virtualTime);
}

// This tenant is served there now.
void Station::reach(Service& service, const Tenant& tenant) {
  Tag& mine = service.virtualTime[static_cast<std::size_t>(tenant.options.band)];
  mine = std::max(mine, tenant.start);
  if (!boundBySlots(service)) bandOf(tenant).virtualTime = std::max(bandOf(tenant).virtualTime, tenant.start);
}

// Of the services that it uses, the furthest.
Station::Tag Station::levelOf(const Tenant& tenant) const {
  Tag level{0};
  for (const Index id : tenant.leaves) {
    if (id == kNone || leaves_[id].queued + leaves_[id].inFlight == 0) continue;
    level = std::max(level, serviceOf(leaves_[id].service).virtualTime[static_cast<std::size_t>(tenant.options.band)]);
  }
  return level;
}

// It used others, now this one too: nothing to catch up there.
void Station::joinService(const Leaf& leaf) {
  Tenant& tenant = tenantOf(leaf.tenant);
  const Tag there = virtualTimeAt(serviceOf(leaf.service), tenant.options.band);
  if (tenant.start >= there) return;
  tenant.start = there;
  rekey(leaf.tenant);
}

// It uses only others now: what it had there, where nobody else wanted it, is not held against it.
void Station::leaveService(const Leaf& leaf) {
  Tenant& tenant = tenantOf(leaf.tenant);
  const Tag left = levelOf(tenant);
  const Tag had = std::max(left, serviceOf(leaf.service).virtualTime[static_cast<std::size_t>(tenant.options.band)]);
  if (had == left) return;
  tenant.start = std::max(tenant.start - (had - left), std::min(tenant.start, left));
  rekey(leaf.tenant);
}

// Slots came or went: all tenants go on from one level, each with what it owes. O(tenants * services).
void Station::forgetLevels() {
  if (services_.size() < 2) return;
  for (std::size_t band = 0; band < kBands; ++band) {
    Tag level = bands_[band].virtualTime;
    for (const Service& service : services_) level = std::max(level, service.virtualTime[band]);
    for (std::size_t i = 0; i < tenants_.size(); ++i) {
      Tenant& tenant = tenants_[i];
      if (static_cast<std::size_t>(tenant.options.band) != band || tenant.stats.queued + tenant.stats.inFlight == 0) continue;
      tenant.start += level - levelOf(tenant);
      rekey(TenantId(static_cast<std::int32_t>(i)));
    }
    for (Service& service : services_) service.virtualTime[band] = level;
    bands_[band].virtualTime = level;
  }
}

// What is queued goes with the tenant, what it owes too. What runs is settled with the band that it was charged to.
void Station::moveToBand(TenantId id, Band band) {
  Tenant& tenant = tenantOf(id);
  const auto less = [this](Index a, Index b) { return tenantLess(a, b); };
  const auto index = static_cast<Index>(id.value);
  const auto from = static_cast<std::size_t>(tenant.options.band);
  const auto to = static_cast<std::size_t>(band);
  for (const Index leaf : tenant.leaves) {
    if (leaf != kNone && leaves_[leaf].queued > 0) serviceOf(leaves_[leaf].service).backlog[from].erase(index, less);
  }
  const std::int64_t present = tenant.stats.queued + tenant.stats.inFlight;
  bands_[from].present -= present;
  if (tenant.active) {
    bands_[from].activeWeight -= tenant.options.weight;
    bands_[to].activeWeight += tenant.options.weight;
  }
  Tag level{0};
  Tag there{0};
  for (const Index leaf : tenant.leaves) {
    if (leaf == kNone) continue;
    level = std::max(level, serviceOf(leaves_[leaf].service).virtualTime[from]);
    there = std::max(there, serviceOf(leaves_[leaf].service).virtualTime[to]);
  }
  tenant.options.band = band;
  tenant.start = there + std::max(tenant.start - level, Tag{0});
  if (present > 0) bandArrives(tenant);
  bands_[to].present += present;
  for (const Index leaf : tenant.leaves) {
    if (leaf != kNone && leaves_[leaf].queued > 0) serviceOf(leaves_[leaf].service).backlog[to].push(index, less);
  }
}

}  // namespace coterie::dispatch
