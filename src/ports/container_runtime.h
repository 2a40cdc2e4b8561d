// Starts, supervises and ends worker processes (the paper's containers): the control loop's side of an instance.
//
// start() spawns a sandboxed worker with its lanes' channels and response arena and returns at once; events arrive later on the control loop:
// ready (signature, probe of its speed, thread ids, memory) or ended (why). An instance ends exactly once, whatever happens. No instance outlives the
// supervisor. Adapters: src/process (our workers), a fake in tests. Thread rule: calls and callbacks on the control loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/ids.h"
#include "model/states.h"
#include "model/tensor.h"

namespace coterie {

struct ProbeShape {
  std::string input;
  Shape shape;
};

// What was made once of a model and can be loaded by many instances in place of it: its weights are in memory once, however many run over them. It is
// there as long as somebody holds it. Of one program's run on one machine; made of a tenant's model, and for that tenant's instances only.
class PreparedModel {
 public:
  virtual ~PreparedModel() = default;
  [[nodiscard]] virtual Bytes size() const = 0;
};

struct InstanceSpec {
  InstanceId id;
  ServiceName service;
  TenantName tenant;
  std::string modelPath;  // resolved below the tenant's root
  std::string sha256;     // lower-case hex; empty: not checked
  int ownLanes{1};        // lanes created at start: max CPUs of the service
  int loanLanes{0};
  int width{1};       // threads of one run
  bool spin{false};   // threads of a wide run wait busily between parts (what servers ship with; for comparisons)
  Bytes memoryLimit;  // 0: none
  std::vector<ProbeShape> probe;
  StatePairs states;  // of sequences: marked in the signature; a model that has no such tensors is a failed load
  Seconds maxRun{300};
  std::uint32_t uid{0};   // the tenant's user when we are root; 0: stay as we are
  std::string modelRoot;  // modelPath is opened beneath it; empty: anywhere
  Bytes largestAnswer;    // of one request; 0: the runtime's default
  // Further widths to be timed before it is ready, one session at a time, within measureTime all together: what would not end in it is left out.
  std::vector<int> measureWidths;
  Millis measureTime{0};
  bool prepare{false};                            // first a prepared form is made of the model, and what follows runs over it
  bool judge{true};                               // ... if its runs are worth it, which is timed; else they are known to be
  std::shared_ptr<const PreparedModel> prepared;  // loaded in place of the model's file; null: the file
};

struct WidthSpeed {
  int width{1};
  Nanos mean{};
  Nanos p99{};
  Nanos cpu{};  // thread CPU time of one run, all threads
};

struct InstanceReady {
  ModelSignature signature;
  std::vector<WidthSpeed> speeds;  // of its own width first, then of what was to be measured and fitted in, ascending
  int width{1};                    // threads of one run
  int pid{0};
  std::vector<int> ownLaneThreads;  // thread ids, one per own lane
  std::vector<int> loanLaneThreads;
  std::vector<int> serviceThreads;
  Bytes steadyMemory;  // resident after the probe
  Bytes peakMemory;
  std::vector<std::string> missingSandbox;  // what the machine lacks: "Landlock", ... (a condition, said once)
  // Of one that was to prepare: what it made. Null: it could not, or runs over it would be slower by more than a tenth.
  std::shared_ptr<const PreparedModel> prepared;
};

enum class EndReason : std::uint8_t {
  Stopped,
  LoadFailed,
  Crashed,
  OutOfMemory,
  ProtocolViolation,
  StartTimedOut,
  RunTimedOut,
  SpawnFailed,
  Unresponsive
};
[[nodiscard]] std::string_view endReasonName(EndReason reason);

struct InstanceEnd {
  EndReason reason{EndReason::Stopped};
  std::string message;      // what to tell the tenant: "model.onnx is not an ONNX file: ..."
  bool fromOutside{false};  // a ready one was killed by somebody else, and is known not to have been for its memory
};

class ContainerRuntime {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void instanceProgress(InstanceId id, int percent) = 0;  // of loading
    virtual void instanceReady(InstanceId id, const InstanceReady& ready) = 0;
    virtual void instanceEnded(InstanceId id, const InstanceEnd& end) = 0;
    // A ready instance lives and does nothing (stopped, frozen, locked up): it should get no requests. It answers again, or ends as Unresponsive.
    virtual void instanceSilent(InstanceId /*id*/, const std::string& /*why*/) {}
    virtual void instanceAnswers(InstanceId /*id*/) {}
  };
  virtual ~ContainerRuntime() = default;
  virtual void setListener(Listener* listener) = 0;
  virtual Status start(const InstanceSpec& spec) = 0;
  // Ends it: asks first, kills after the grace. The end is reported as Stopped.
  virtual void stop(InstanceId id, Millis grace) = 0;
  [[nodiscard]] virtual Bytes residentMemory(InstanceId id) const = 0;
};

}  // namespace coterie
