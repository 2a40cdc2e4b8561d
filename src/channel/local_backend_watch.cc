// What LocalBackend does while runs are under way: time limits, silence, and taking an instance out of the rotation and back.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/cpu_clock.h"
#include "channel/lane_messages.h"
#include "channel/local_backend.h"
#include "channel/local_backend_state.h"
#include "channel/seqpacket.h"

namespace coterie::channel {

void LocalBackend::terminate(const LaneRef& ref) {
  Lane* lane = find(ref);
  if (lane == nullptr || !lane->busy) return;
  lane->stopWanted = true;
  sendTerminate(*lane);
}

void LocalBackend::sendTerminate(Lane& lane) {
  std::array<std::byte, 32> message{};
  const std::size_t size = encode(TerminateMessage{static_cast<std::uint16_t>(lane.index), lane.generation}, message);
  // A worker that does not read its signals is ended by its run's time limit.
  (void)send(lane.instance->signals.get(), std::span<const std::byte>(message).first(size), Wait::No);
}

bool LocalBackend::keeps(InstanceId instance) const {
  const auto found = instances_.find(instance);
  return found != instances_.end() && !found->second->draining &&
         std::all_of(found->second->lanes.begin(), found->second->lanes.end(), [](const Lane& lane) { return lane.open; });
}

void LocalBackend::forget(InstanceId instance, std::uint64_t handle) {
  const auto found = instances_.find(instance);
  if (found == instances_.end()) return;
  std::array<std::byte, 32> message{};
  const std::size_t size = encode(ForgetMessage{handle}, message);
  // A worker that does not read its signals keeps some bytes too long, within its own memory limit.
  (void)send(found->second->signals.get(), std::span<const std::byte>(message).first(size), Wait::No);
}

// Supervision only posts, so nothing changes under the caller.
void LocalBackend::listenTo(Instance& instance) {
  if (instance.pid == 0 || options_.silentAfter.count() <= 0) return;
  // Most runs are shorter than half the limit, and cost nothing here.
  const Instant now = loop_.clock().now();
  const bool working = std::any_of(instance.lanes.begin(), instance.lanes.end(),
                                   [&](const Lane& lane) { return lane.busy && now - lane.started >= options_.silentAfter / 2; });
  const Nanos cpu = working ? cpuTimeOf(instance.pid).value_or(Nanos{}) : Nanos{};
  const int looks = static_cast<int>(std::max<std::int64_t>(1, options_.silentAfter / options_.sweep / 2));
  switch (instance.silence.look({working, cpu}, looks, [&] { return anyRunnable(instance.pid); })) {
    case SilenceWatch::Sign::Nothing: return;
    case SilenceWatch::Sign::FellSilent:
      return supervision_.silent(instance.id, "it has requests and does not work on them: it uses no CPU time and wants none");
    case SilenceWatch::Sign::IsBack: return supervision_.answers(instance.id);
  }
}

void LocalBackend::suspendInstance(InstanceId id) {
  const auto found = instances_.find(id);
  if (found == instances_.end() || std::exchange(found->second->suspended, true)) return;
  const std::shared_ptr<Instance> keep = found->second;
  const std::shared_ptr<bool> alive = alive_;
  for (Lane& lane : keep->lanes) {
    if (!*alive) return;
    if (lane.busy && lane.completion != nullptr && unread(lane)) tellNeverStarted(lane);
    if (!*alive) return;
    if (lane.completion != nullptr) {
      lane.withdrawn = true;  // it is in its run: that one may still end well
    } else {
      withdraw(lane);
    }
  }
}

void LocalBackend::resumeInstance(InstanceId id) {
  const auto found = instances_.find(id);
  if (found == instances_.end() || !std::exchange(found->second->suspended, false)) return;
  const std::shared_ptr<Instance> keep = found->second;
  for (Lane& lane : keep->lanes) {
    if (!lane.busy) offer(lane);
  }
}

// Does the request still lie in the socket? The kernel counts what the other side has not read (SIOCOUTQ).
bool LocalBackend::unread(const Lane& lane) {
  int bytes = 0;
  return ::ioctl(lane.socket.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

// The request may run elsewhere; the lane stays busy and its input quarantined until this worker has answered or is dead.
void LocalBackend::tellNeverStarted(Lane& lane) {
  const Completion completion = std::exchange(lane.completion, nullptr);
  RunOutcome outcome{Error{Code::Unavailable, "InstanceSilent", "the model server did not take this request"},
                     loop_.clock().now() - lane.started,
                     {},
                     {},
                     true,
                     false};
  completion(std::move(outcome));
}

void LocalBackend::armSweep() {
  if (running_ != 1) return;  // armed already
  sweepTimer_ = loop_.after(options_.sweep, [this] { sweep(); });
}

void LocalBackend::sweep() {
  const Instant now = loop_.clock().now();
  std::vector<std::shared_ptr<Instance>> overdue;
  for (auto& [id, instance] : instances_) {
    listenTo(*instance);
    for (Lane& lane : instance->lanes) {
      // The signal may have overtaken the request, which then did not run yet: say it again.
      if (lane.busy && lane.stopWanted) sendTerminate(lane);
      if (!lane.busy || lane.maxRun.count() <= 0 || now - lane.started < lane.maxRun) continue;
      if (!std::exchange(lane.askedToStop, true)) {
        lane.stopAsked = now;
        sendTerminate(lane);
      } else if (now - lane.stopAsked >= options_.killAfter) {
        overdue.push_back(instance);
        break;
      }
    }
  }
  const std::shared_ptr<bool> alive = alive_;
  for (const std::shared_ptr<Instance>& instance : overdue) {
    if (!*alive) return;
    violated(*instance, EndReason::RunTimedOut, "a request ran longer than its limit and did not stop when asked");
  }
  if (*alive && running_ > 0) sweepTimer_ = loop_.after(options_.sweep, [this] { sweep(); });
}

}  // namespace coterie::channel
