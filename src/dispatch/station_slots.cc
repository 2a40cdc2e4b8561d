// Slots: which are free, and which services have both work and a free slot.
#include <algorithm>
#include <cassert>

#include "dispatch/station.h"

namespace coterie::dispatch {

SlotId Station::addSlot(ServiceId service, SlotClass slotClass, std::uint64_t cookie) {
  assert(!serviceOf(service).removed);
  SlotId id;
  if (freeSlotIds_.empty()) {
    id = SlotId(static_cast<std::int32_t>(slots_.size()));
    slots_.emplace_back();
  } else {
    id = freeSlotIds_.back();
    freeSlotIds_.pop_back();
  }
  Slot slot;
  slot.exists = true;
  slot.service = service;
  slot.slotClass = slotClass;
  slot.cookie = cookie;
  slotOf(id) = slot;
  ++serviceOf(service).openSlots;
  forgetLevels();
  offer(id);
  return id;
}

void Station::setSlotOpen(SlotId id, bool open) {
  Slot& slot = slotOf(id);
  assert(slot.exists && !slot.leaving);
  if (slot.open == open) return;
  slot.open = open;
  forgetLevels();
  serviceOf(slot.service).openSlots += open ? 1 : -1;
  if (slot.first != kNone) return;
  if (open) {
    offer(id);
  } else {
    withdraw(id);
  }
}

void Station::removeSlot(SlotId id) {
  Slot& slot = slotOf(id);
  assert(slot.exists && !slot.leaving);
  setSlotOpen(id, false);
  if (slot.first != kNone) {
    slot.leaving = true;
    return;
  }
  slot = Slot{};
  freeSlotIds_.push_back(id);
}

void Station::offer(SlotId id) {
  Slot& slot = slotOf(id);
  Service& service = serviceOf(slot.service);
  auto& free = slot.slotClass == SlotClass::Own ? service.freeOwn : service.freeLoan;
  slot.freePlace = static_cast<int>(free.size());
  free.push_back(id);
  updateReady(slot.service);
}

void Station::withdraw(SlotId id) {
  Slot& slot = slotOf(id);
  Service& service = serviceOf(slot.service);
  auto& free = slot.slotClass == SlotClass::Own ? service.freeOwn : service.freeLoan;
  const SlotId moved = free.back();
  free.pop_back();
  if (moved != id) {
    free[static_cast<std::size_t>(slot.freePlace)] = moved;
    slotOf(moved).freePlace = slot.freePlace;
  }
  slot.freePlace = -1;
  updateReady(slot.service);
}

bool Station::hasFreeSlot(const Service& service) const {
  if (options_.concurrency > 0 && busy_ >= options_.concurrency) return false;
  return !service.freeOwn.empty() || !service.freeLoan.empty();
}

// The slot that was used last: its caches and its thread are warm.
SlotId Station::takeSlot(Service& service) {
  const SlotId id = service.freeOwn.empty() ? service.freeLoan.back() : service.freeOwn.back();
  withdraw(id);
  return id;
}

void Station::updateReady(ServiceId id) {
  Service& service = serviceOf(id);
  const bool ready = service.queued > 0 && (!service.freeOwn.empty() || !service.freeLoan.empty());
  if (ready == (service.readyPlace >= 0)) return;
  if (ready) {
    service.readyPlace = static_cast<int>(ready_.size());
    ready_.push_back(id);
    return;
  }
  const ServiceId moved = ready_.back();
  ready_.pop_back();
  if (moved != id) {
    ready_[static_cast<std::size_t>(service.readyPlace)] = moved;
    serviceOf(moved).readyPlace = service.readyPlace;
  }
  service.readyPlace = -1;
}

}  // namespace coterie::dispatch
