#include "closed_loop.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/rng.h"

namespace coterie::in_node {

namespace {
constexpr TenantId kTenant{0};
constexpr std::uint64_t kAlignment = 64;
constexpr int kSmoothing = 4;  // a lane's expected run follows the last few
std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
}  // namespace

ClosedLoop::ClosedLoop(EventLoop& loop, ModelBackend& backend, ServiceCounters& counters, const ClosedLoopOptions& options,
                       std::function<void()> finished)
    : loop_(loop), backend_(backend), counters_(counters), options_(options), finished_(std::move(finished)) {
  station_.setTenant(kTenant, {});
  service_ = station_.addService({.initialRun = options.initialRun});
}

ClosedLoop::~ClosedLoop() { backend_.setListener(nullptr); }

// One input for all requests: what it holds does not change how long a convolution takes, and the arena stays small.
void ClosedLoop::start() {
  const ModelSignature& signature = backend_.signature();
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    const std::uint64_t length = tensorBytes(signature.inputs[i].type, options_.shapes[i]).value_or(0);
    inputs_.push_back({static_cast<int>(i), options_.shapes[i], total, length});
    total += aligned(length);
  }
  for (std::size_t i = 0; i < signature.outputs.size(); ++i) outputs_.push_back(static_cast<int>(i));
  auto cell = backend_.allocate(total);
  assert(cell.ok());
  cell_ = std::move(cell).value();
  Rng rng(1);
  const auto bytes = cell_->bytes();
  for (std::size_t at = 0; at + sizeof(float) <= total; at += sizeof(float)) {
    const auto value = static_cast<float>(rng.unit());
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  backend_.setListener(this);
  fill();
}

void ClosedLoop::setOutstanding(int outstanding) {
  options_.outstanding = outstanding;
  fill();
}

void ClosedLoop::offer(Instant intended) {
  if (!submit(intended)) counters_.failed.fetch_add(1);
  pump();
}

bool ClosedLoop::open(const Lane& lane) const {
  const auto found = allowances_.find(lane.ref.instance);
  const Allowance allowance = found == allowances_.end() ? Allowance{} : found->second;
  return lane.rank < (lane.laneClass == LaneClass::Own ? allowance.own : allowance.loan);
}

void ClosedLoop::laneReady(const LaneInfo& info) {
  Lane lane{info.ref, info.laneClass, 0, {}, true, options_.initialRun};
  lane.rank = static_cast<int>(std::count_if(lanes_.begin(), lanes_.end(), [&](const Lane& other) {
    return other.present && other.ref.instance == info.ref.instance && other.laneClass == info.laneClass;
  }));
  lane.slot = station_.addSlot(service_, info.laneClass == LaneClass::Own ? dispatch::SlotClass::Own : dispatch::SlotClass::Loan, lanes_.size());
  station_.setSlotOpen(lane.slot, open(lane));
  lanes_.push_back(lane);
  pump();
}

void ClosedLoop::laneGone(const LaneRef& ref) {
  for (Lane& lane : lanes_) {
    if (!lane.present || lane.ref != ref) continue;
    station_.removeSlot(lane.slot);
    lane.present = false;
  }
}

void ClosedLoop::setLanes(InstanceId instance, int own, int loan) {
  allowances_[instance] = {own, loan};
  for (const Lane& lane : lanes_) {
    if (lane.present && lane.ref.instance == instance) station_.setSlotOpen(lane.slot, open(lane));
  }
  pump();
}

bool ClosedLoop::submit(Instant intended) {
  dispatch::Request request;
  request.tenant = kTenant;
  request.service = service_;
  const Instant now = loop_.clock().now();
  request.deadline = now + std::chrono::hours(24);
  request.inputElements = 1;
  request.cookie = static_cast<std::uint64_t>(intended.time_since_epoch().count());
  if (!station_.enqueue(request, now).accepted()) return false;
  ++submitted_;
  return true;
}

void ClosedLoop::fill() {
  while (submitted_ - answered_ < options_.outstanding && (options_.requests == 0 || submitted_ < options_.requests)) {
    if (submit(loop_.clock().now())) continue;
    retry_ = loop_.after(Millis(1), [this] { fill(); });  // before the first lane there is no instance
    break;
  }
  pump();
}

void ClosedLoop::pump() {
  if (std::exchange(pumping_, true)) return;
  decisions_.clear();
  station_.next(loop_.clock().now(), decisions_);
  for (const auto& dispatch : decisions_.dispatches) {
    const auto lane = static_cast<std::size_t>(dispatch.slotCookie);
    const Instant submitted{Nanos(static_cast<std::int64_t>(dispatch.cookie))};
    auto answered = [this, lane, request = dispatch.request, submitted, alive = std::weak_ptr<bool>(alive_)](RunOutcome outcome) {
      if (!alive.expired()) completed(lane, request, submitted, std::move(outcome));
    };
    counters_.began(lane, loop_.clock().now().time_since_epoch(), lanes_[lane].run);
    backend_.run(lanes_[lane].ref, RunRequest{{{cell_, inputs_}}, outputs_, Seconds(300), {}}, std::move(answered));
  }
  pumping_ = false;
  const auto next = station_.nextEvent();
  timer_ = next ? loop_.after(*next - loop_.clock().now(), [this] { pump(); }) : TimerHandle{};
}

void ClosedLoop::completed(std::size_t lane, dispatch::RequestHandle request, Instant submitted, RunOutcome outcome) {
  const Instant now = loop_.clock().now();
  station_.completed(request, {outcome.held, outcome.queuedForCpu, outcome.cpu},
                     outcome.answer.ok() ? dispatch::Outcome::Succeeded : dispatch::Outcome::Failed, now);
  if (!outcome.answer.ok()) counters_.failed.fetch_add(1);
  counters_.latency[static_cast<std::size_t>(latencyBucket(now - submitted))].fetch_add(1, std::memory_order_relaxed);
  lanes_[lane].run += (outcome.held - lanes_[lane].run) / kSmoothing;
  counters_.ended(lane);
  ++answered_;
  if (options_.observer) {
    options_.observer({lanes_[lane].laneClass, lanes_[lane].rank, submitted, now - outcome.held, now, outcome.cpu, outcome.answer.ok()});
  }
  if (options_.requests > 0 && answered_ == options_.requests) return finished_();
  fill();
}

}  // namespace coterie::in_node
