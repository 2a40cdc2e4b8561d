// What LocalBackend keeps of its instances and their lanes; for this folder's sources only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/unique_fd.h"
#include "channel/arena.h"
#include "channel/local_backend.h"
#include "channel/process_watch.h"

namespace coterie::channel {

struct LocalBackend::Lane {
  Instance* instance{nullptr};
  int index{0};
  LaneClass laneClass{LaneClass::Own};
  UniqueFd socket;
  TimerHandle watch;
  bool open{true};        // its socket works
  bool offered{false};    // the listener knows it
  bool withdrawn{false};  // its instance was suspended while it ran: gone once it has answered

  // The run in progress.
  bool busy{false};
  Completion completion;                           // empty: whoever wanted it has been told that it never started
  std::vector<std::shared_ptr<InputCell>> inputs;  // of each request in it
  std::vector<int> wanted;                         // outputs asked for
  std::uint64_t generation{0};                     // of the run in progress or the last one
  int cell{0};                                     // response cell of the run
  Instant started{};
  Nanos maxRun{};
  bool stopWanted{false};   // terminate() was called
  bool askedToStop{false};  // its time was up
  Instant stopAsked{};

  std::array<bool, kCellsPerLane> held{};  // cells whose answers are being read
  [[nodiscard]] LaneRef ref() const;
};

struct LocalBackend::Instance {
  InstanceId id;
  UniqueFd signals;
  UniqueFd process;
  std::shared_ptr<ResponseArena> answers;
  std::vector<Lane> lanes;  // never resized after addInstance
  TimerHandle processWatch;
  bool draining{false};
  bool suspended{false};
  int pid{0};
  int width{1};
  CostMeter cost;
  SilenceWatch silence;
  bool reported{false};  // misbehaved() was called
  std::function<void()> drained;
  std::optional<TimerHandle> deathTimer;  // runs from the first lane that closed
};

inline LaneRef LocalBackend::Lane::ref() const { return {instance->id, LaneId(index)}; }

}  // namespace coterie::channel
