// The gateway's view of running instances of services: memory to put inputs in, lanes to run on, answers.
//
// A backend belongs to one service. Inputs are written straight into a cell of the service's request arena (shared memory that the workers map
// read-only), so the instance is chosen late: any lane of any instance of the service can run any cell. Outputs are read in place from the instance's
// response arena (mapped read-only here) and stay valid until the Answer is destroyed. Sizes, offsets, types and shapes travel in messages only and
// are checked once, here. Worker output is untrusted: adapters validate every length against the arena and every type and shape against the signature
// before an Answer is made. Adapters: src/channel (our workers), test fake in tests. Thread rule: every call and callback on the gateway's event
// loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/batching.h"
#include "model/ids.h"
#include "model/tensor.h"

namespace coterie {

enum class LaneClass : std::uint8_t { Own, Loan };

struct LaneRef {
  InstanceId instance;
  LaneId lane;
  friend auto operator<=>(const LaneRef&, const LaneRef&) = default;
};

struct LaneInfo {
  LaneRef ref;
  LaneClass laneClass{LaneClass::Own};
};

// Memory of the request arena; freed (or quarantined, if a worker may still read it) when destroyed.
class InputCell {
 public:
  virtual ~InputCell() = default;
  [[nodiscard]] virtual std::span<std::byte> bytes() = 0;  // 64-byte aligned
};

struct InputTensor {
  int input{0};  // index into the signature's inputs
  Shape shape;
  std::uint64_t offset{0};  // in the cell; 64-byte aligned
  std::uint64_t length{0};
};

struct RunMember {
  std::shared_ptr<InputCell> cell;
  std::vector<InputTensor> inputs;
};

// A run in a sequence: the model's state inputs and outputs (TensorSpec::isState) are the instance's to keep under this handle, and are in neither
// inputs nor outputs of the run.
struct SequencePart {
  std::uint64_t handle{0};  // not 0; never given to another sequence
  bool fresh{false};        // the state is zeros; else it is what the last run under this handle left,
  bool takesBack{false};    // ... or what that run began with
  bool end{false};          // nothing is kept after it, if it succeeds
  Bytes most;               // more state than this is an error, and leaves what was kept
};

// One run. Of several members, at most mostInBatch(signature), the inputs are joined along the first dimension, in this order: they agree in which
// inputs, in which order, and in all dimensions but the first; so is the answer joined, if the model does what it is taken to do.
struct RunRequest {
  std::vector<RunMember> members;        // at least one
  std::vector<int> outputs;              // indices into the signature's outputs, in the order wanted
  Nanos maxRun{};                        // the lane is terminated after this, killed a second later
  std::optional<SequencePart> sequence;  // then there is one member
};

struct OutputTensor {
  int output{0};
  Shape shape;
  std::span<const std::byte> data;  // in shared memory: read once, never trust twice
};

// What a lane answered. Holds the response cell until destroyed.
class Answer {
 public:
  virtual ~Answer() = default;
  [[nodiscard]] virtual std::span<const OutputTensor> outputs() const = 0;
  // The outputs are copies in this process's memory: who needs a part for long takes a copy of it, and lets go of the rest.
  [[nodiscard]] virtual bool copied() const { return false; }
};

struct RunOutcome {
  Result<std::unique_ptr<Answer>> answer;
  Nanos held{};                 // wall time the lane was held
  Nanos queuedForCpu{};         // of it, waiting in the kernel's run queue
  Nanos cpu{};                  // thread CPU time of the run
  bool neverStarted{false};     // the worker went before it took the request: it may be retried elsewhere once
  bool instanceCrashed{false};  // it was in flight when the worker died (poison: never again after two)
};

class ModelBackend {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void laneReady(const LaneInfo& lane) = 0;  // a new lane may be dispatched to
    // Dispatch there no more, unless laneReady names it anew; requests in flight there have been completed before.
    virtual void laneGone(const LaneRef& lane) = 0;
  };
  using Completion = std::function<void(RunOutcome)>;

  virtual ~ModelBackend() = default;
  virtual void setListener(Listener* listener) = 0;  // replays laneReady for present lanes
  [[nodiscard]] virtual const ModelSignature& signature() const = 0;
  // A cell of at least `bytes`; ResourceExhausted/ArenaFull when the arena has no room, TooLarge beyond its largest cell.
  [[nodiscard]] virtual Result<std::shared_ptr<InputCell>> allocate(std::size_t bytes) = 0;
  // The lane must be free. Completion is called exactly once, later, never from inside run().
  virtual void run(const LaneRef& lane, RunRequest request, Completion completion) = 0;
  // Ask a running lane to stop (client gone past dispatch, or deadline): the completion still comes when the worker confirms.
  virtual void terminate(const LaneRef& lane) = 0;
  // The instance lives, and may be run on again even if it has no lane now: what it keeps of sequences is not lost.
  [[nodiscard]] virtual bool keeps(InstanceId instance) const = 0;
  // Nothing runs under this handle, and nobody needs its state any more. Unknown: nothing happens.
  virtual void forget(InstanceId instance, std::uint64_t handle) = 0;
};

}  // namespace coterie
