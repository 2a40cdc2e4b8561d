#include "node_agent/container_watch.h"

#include <algorithm>
#include <utility>

namespace coterie::node_agent {

namespace {

constexpr Millis kShortest{100};
constexpr Millis kLongest{1000};
constexpr Seconds kPressureEach{1}, kMemoryEach{5}, kNodesEach{30}, kThrottlesKept{10};
constexpr int kRestFactor = 4;              // of pressure, sets and memory of who rests
constexpr std::int64_t kBusyPermille = 20;  // of a CPU
constexpr std::int64_t kPressedPermille = 100;

// The first reading of a figure, so that not all containers' come at the same moment.
Nanos spread(InstanceId id, Nanos period) {
  constexpr int kSlots = 16;
  return period * (id.value % kSlots) / kSlots;
}

}  // namespace

void ContainerWatch::open(InstanceId id, int pid, const std::string& cgroup, Instant now) {
  meter_.open(id, pid, cgroup);
  Watched watched;
  watched.pause = kShortest;
  watched.cpuDue = now;
  watched.pressureDue = now + spread(id, kPressureEach);
  watched.memoryDue = now + spread(id, kMemoryEach);
  watched.nodesDue = now + spread(id, kNodesEach);
  watched_.insert_or_assign(id, std::move(watched));
}

void ContainerWatch::close(InstanceId id) {
  meter_.close(id);
  watched_.erase(id);
}

void ContainerWatch::readCpu(InstanceId id, Watched& watched, Instant now, bool closely, Events& events) {
  const auto before = std::exchange(watched.seen.cpu, meter_.cpu(id));
  const auto& cpu = watched.seen.cpu;
  const Nanos span = now - std::exchange(watched.lastCpu, now);
  watched.pause = std::min<Nanos>(watched.pause * 2, kLongest);
  if (cpu && before && cpu->used >= before->used) {
    const Nanos ran = cpu->used - before->used;
    watched.seen.ran += ran;
    watched.atRest = cpu->timed && ran * 1000 < span * kBusyPermille;
    if (const std::int64_t periods = cpu->throttledPeriods - before->throttledPeriods; periods > 0) {
      watched.throttles.emplace_back(now, periods);
      watched.seen.throttledLately += periods;
      events.throttled.push_back(id);
      watched.atRest = false;
    }
  }
  while (!watched.throttles.empty() && now - watched.throttles.front().first > kThrottlesKept) {
    watched.seen.throttledLately -= watched.throttles.front().second;
    watched.throttles.pop_front();
  }
  if ((cpu && !watched.atRest) || closely) watched.pause = kShortest;
  watched.cpuDue = now + watched.pause;
}

void ContainerWatch::readPressure(InstanceId id, Watched& watched, Instant now, Events& events) {
  watched.seen.pressure = meter_.pressure(id);
  if (readsSets_) watched.seen.sets = meter_.sets(id);
  const bool pressed = watched.seen.pressure && watched.seen.pressure->somePermille > kPressedPermille;
  if (pressed && !watched.pressed) events.pressed.push_back(id);
  watched.pressed = pressed;
  watched.pressureDue = now + kPressureEach * (watched.atRest ? kRestFactor : 1);
}

ContainerWatch::Events ContainerWatch::look(Instant now, const std::set<InstanceId>& closely) {
  Events events;
  for (auto& [id, watched] : watched_) {
    const bool close = closely.count(id) > 0;
    if (close) watched.cpuDue = std::min(watched.cpuDue, watched.lastCpu + kShortest);
    if (watched.cpuDue <= now) readCpu(id, watched, now, close, events);
    if (!watched.atRest) watched.pressureDue = std::min(watched.pressureDue, now + kPressureEach);
    if (watched.pressureDue <= now) readPressure(id, watched, now, events);
    if (watched.memoryDue <= now) {
      watched.seen.memory = meter_.memory(id);
      watched.memoryDue = now + kMemoryEach * (watched.atRest ? kRestFactor : 1);
    }
    if (watched.nodesDue <= now) {
      watched.seen.nodes = meter_.memoryNodes(id);
      watched.nodesDue = now + kNodesEach;
    }
  }
  return events;
}

std::optional<Instant> ContainerWatch::nextDue() const {
  std::optional<Instant> next;
  for (const auto& [id, watched] : watched_) {
    const Instant due = std::min(std::min(watched.cpuDue, watched.pressureDue), std::min(watched.memoryDue, watched.nodesDue));
    next = next ? std::min(*next, due) : due;
  }
  return next;
}

const ContainerWatch::Seen* ContainerWatch::seen(InstanceId id) const {
  const auto found = watched_.find(id);
  return found == watched_.end() ? nullptr : &found->second.seen;
}

std::optional<Nanos> ContainerWatch::takeRan(InstanceId id) {
  const auto found = watched_.find(id);
  if (found == watched_.end() || !found->second.seen.cpu || !found->second.seen.cpu->timed) return std::nullopt;
  return std::exchange(found->second.seen.ran, Nanos{0});
}

}  // namespace coterie::node_agent
