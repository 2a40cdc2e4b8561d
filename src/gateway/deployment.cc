#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gateway/service.h"
#include "model/batching.h"
#include "model/states.h"

namespace coterie::gateway {

namespace {
dispatch::StationOptions stationOptions(const ServiceSettings& settings) { return {{settings.maxQueuedRequests, settings.maxQueuedBytes}, 0}; }
}  // namespace

Deployment::Deployment(std::shared_ptr<Service> of, ModelBackend& runsOn, DeploymentEvents& events, dispatch::StationLog* log)
    : service(std::move(of)),
      backend(runsOn),
      station(stationOptions(service->settings), service->name.path(), log),
      events_(events),
      stateful_(
          std::any_of(runsOn.signature().inputs.begin(), runsOn.signature().inputs.end(), [](const TensorSpec& input) { return input.isState(); })),
      stateBytes_(stateBytes(runsOn.signature())),
      askedTogether_(service->settings.maxBatch),
      batchLimit_(mostInBatch(runsOn.signature())) {
  stationService = station.addService(serviceOptions());
}

Deployment::~Deployment() { backend.setListener(nullptr); }

void Deployment::settingsChanged() {
  if (std::exchange(askedTogether_, service->settings.maxBatch) != service->settings.maxBatch) batchLimit_ = mostInBatch(backend.signature());
  station.configure(stationOptions(service->settings));
  station.setService(stationService, serviceOptions());
}

dispatch::ServiceOptions Deployment::serviceOptions() const { return {service->settings.weight, {}, service->settings.initialRun, mostTogether()}; }

dispatch::SequenceLimits Deployment::sequenceLimits() const {
  dispatch::SequenceLimits limits = service->settings.sequences.value_or(dispatch::SequenceLimits{});
  if (limits.stateBytes.value == 0) limits.stateBytes = stateBytes_;
  return limits;
}

void Deployment::sawRows(bool kept) {
  if (!kept) {
    if (batches()) log::warning("gateway", service->name.path() + ": an output has not the rows of the inputs; leave batching out of its spec");
    return limitBatches(1);
  }
  if (std::exchange(rowsSeen_, true)) return;
  station.setService(stationService, serviceOptions());
}

void Deployment::limitBatches(int most) {
  const int before = std::min(service->settings.maxBatch, batchLimit_);
  batchLimit_ = std::max(1, std::min(batchLimit_, most));
  if (before <= batchLimit_) return;
  log::warning("gateway", service->name.path() + ": at most " + std::to_string(batchLimit_) +
                              " of its requests run as one from here on, until its batching or its model is changed");
  station.setService(stationService, serviceOptions());
}

void Deployment::limitBatchesAfterCrash(int most, InstanceId instance) {
  limitedBy_ = instance;
  limitBefore_ = batchLimit_;
  limitBatches(most);
}

void Deployment::endedFromOutside(InstanceId instance) {
  if (limitedBy_ != instance || !instance.valid()) return;
  limitedBy_ = {};
  batchLimit_ = limitBefore_;
  station.setService(stationService, serviceOptions());
}

void Deployment::laneReady(const LaneInfo& lane) {
  auto place = std::find_if(lanes.begin(), lanes.end(), [](const Lane& old) { return !old.present && old.inferences.empty(); });
  if (place == lanes.end()) place = lanes.insert(lanes.end(), Lane{});
  const auto cookie = static_cast<std::uint64_t>(place - lanes.begin());
  const auto slotClass = lane.laneClass == LaneClass::Own ? dispatch::SlotClass::Own : dispatch::SlotClass::Loan;
  *place = {lane, station.addSlot(stationService, slotClass, cookie), true, false, false, {}, false};
  station.setSlotOpen(place->slot, false);
  if (applyAllowances()) events_.lanesChanged(*this);
}

void Deployment::laneGone(const LaneRef& ref) {
  const auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& each) { return each.present && each.info.ref == ref; });
  if (lane == lanes.end()) return;
  if (lane->open) --(lane->info.laneClass == LaneClass::Own ? openOwn_ : openLoan_);
  lane->present = false;
  lane->open = false;
  station.removeSlot(lane->slot);
  const bool last =
      std::none_of(lanes.begin(), lanes.end(), [&](const Lane& each) { return each.present && each.info.ref.instance == ref.instance; });
  if (last) {
    service->allowances.erase(ref.instance);  // instance ids are never used again
    events_.instanceWithoutLanes(*this, ref.instance);
  }
  events_.lanesChanged(*this);
}

bool Deployment::applyAllowances() {
  bool opened = false;
  for (Lane& lane : lanes) {
    if (!lane.present) continue;
    const auto found = service->allowances.find(lane.info.ref.instance);
    const LaneAllowance allowance = found == service->allowances.end() ? LaneAllowance{} : found->second;
    const int allowed = lane.info.laneClass == LaneClass::Own ? allowance.own : allowance.loan;
    // Its rank among the lanes of its class and instance, by id.
    const auto before = std::count_if(lanes.begin(), lanes.end(), [&](const Lane& other) {
      return other.present && other.info.laneClass == lane.info.laneClass && other.info.ref.instance == lane.info.ref.instance &&
             other.info.ref.lane < lane.info.ref.lane;
    });
    const bool open = before < allowed && !lane.lost;
    if (open == lane.open) continue;
    lane.open = open;
    opened |= open;
    (lane.info.laneClass == LaneClass::Own ? openOwn_ : openLoan_) += open ? 1 : -1;
    station.setSlotOpen(lane.slot, open);
  }
  return opened;
}

void Deployment::instanceLost(InstanceId instance) {
  for (Lane& lane : lanes) {
    if (lane.info.ref.instance == instance) lane.lost = true;
  }
  applyAllowances();
}

int Deployment::presentLanes(LaneClass laneClass) const {
  return static_cast<int>(
      std::count_if(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.present && lane.info.laneClass == laneClass; }));
}

}  // namespace coterie::gateway
