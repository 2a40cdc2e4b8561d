#include "allocation/floor_room.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace coterie::allocation {

const UnitPacker& FloorRoom::packer() const {
  if (!packer_) packer_.emplace(layout_, units_);
  return *packer_;
}

void FloorRoom::add(const GroupState& shape) {
  count_.add(shape);
  if (!isolated(shape)) {
    open_.add(shape);
    return;
  }
  needs_.push_back({shape.isolation, static_cast<int>(std::clamp<std::int64_t>(cpusForFloor(shape.floor), 1, INT32_MAX)), {}});
  uneven_ += units_.even(shape.isolation) ? 0 : 1;
}

void FloorRoom::removeLast(const GroupState& shape) {
  count_.remove(shape);
  if (!isolated(shape)) {
    open_.remove(shape);
    return;
  }
  needs_.pop_back();
  uneven_ -= units_.even(shape.isolation) ? 0 : 1;
}

bool FloorRoom::fits(int& choices) const {
  if (count_.cpus() > layout_.size()) return false;
  return uneven_ == 0 || packer().canPack(needs_, leftForUnits(), choices);
}

bool FloorRoom::fits() const {
  int choices = kPackingChoices;
  return fits(choices);
}

int FloorRoom::leftForUnits() const { return layout_.size() - static_cast<int>(open_.cpus()); }

std::optional<UnitPacking> FloorRoom::units(const std::vector<std::vector<int>>& held) const {
  if (count_.cpus() > layout_.size()) return std::nullopt;
  std::vector<UnitNeed> needs = needs_;
  for (std::size_t i = 0; i < held.size(); ++i) needs[i].held = held[i];
  return packer().pack(needs, leftForUnits());
}

std::optional<UnitPacking> FloorRoom::tightestUnits() const { return packer().packTightest(needs_); }

}  // namespace coterie::allocation
