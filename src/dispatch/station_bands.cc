// Bands: whose guarantee is behind, and who has what is left.
#include <algorithm>
#include <cassert>

#include "dispatch/station.h"

namespace coterie::dispatch {

namespace {
constexpr int kWhole = 1000;  // guarantees are in thousandths
}

Station::Turn Station::turnOf(const std::array<bool, kBands>& eligible) const {
  std::optional<Band> behind;
  std::optional<Band> highest;
  for (std::size_t i = 0; i < kBands; ++i) {
    if (!eligible[i]) continue;
    const auto band = static_cast<Band>(i);
    if (!highest) highest = band;
    if (guaranteeOf(band) == 0 || bands_[i].guarantee > work_) continue;
    if (!behind || bands_[i].guarantee < bands_[static_cast<std::size_t>(*behind)].guarantee) behind = band;
  }
  assert(highest.has_value());
  return behind ? Turn{*behind, true} : Turn{*highest, false};
}

// Of the slots, in thousandths, if every band with tenants seen lately were backlogged: its guarantee, and the highest has what the others leave.
int Station::partOf(Band band) const {
  int others = 0;
  for (std::size_t i = 0; i < kBands; ++i) {
    if (static_cast<Band>(i) == band || bands_[i].activeWeight == 0) continue;
    if (static_cast<Band>(i) < band) return guaranteeOf(band);
    others += guaranteeOf(static_cast<Band>(i));
  }
  return kWhole - others;
}

// To be called before its tenant's request is counted.
void Station::bandArrives(const Tenant& tenant) {
  BandState& band = bandOf(tenant);
  if (band.present == 0) band.guarantee = std::max(band.guarantee, work_);
}

// It may have been blocked: at most one request of catch-up.
void Station::bandCatchesUp(Band band, Nanos cost) {
  if (guaranteeOf(band) == 0) return;
  Tag& guarantee = bands_[static_cast<std::size_t>(band)].guarantee;
  guarantee = std::max(guarantee, work_ - scaled(cost, guaranteeOf(band)) * kWhole);
}

void Station::chargeBand(const Node& node, Nanos amount) {
  work_ += scaled(amount, 1);
  const int guarantee = guaranteeOf(node.band);
  if (node.guaranteed && guarantee > 0) bands_[static_cast<std::size_t>(node.band)].guarantee += scaled(amount, guarantee) * kWhole;
}

}  // namespace coterie::dispatch
