// ModelBackend over our own worker processes: one socket per lane, tensors in shared memory.
//
// A run is one message to the lane's socket and one message back; nothing is handed over inside either process. A lane holds one run at a time, of
// one request or several. Its two response cells alternate: while an answer is still being read the other cell serves the next run; if both would
// be held, the answer is copied out of the arena instead, so that a slow client never stops a lane. Input cells belong to their run until the
// worker has answered or is known to be dead (quarantine). Everything a worker sends is checked before it is believed: generation, outputs asked
// for, ranks, dimensions against the signature, lengths against shapes, places against the lane's own cell. BYTES answers are copied and walked. A
// breach is reported once through Supervision::misbehaved, which must end the instance; until then its lanes stay silent. What it says of its
// waiting and CPU time, which others pay for, is bounded by the kernel's word (process_watch.h). How a run ended when its worker died: with the
// request unread in the socket the kernel answers ECONNRESET (neverStarted), else end-of-file (instanceCrashed); what the kernel cannot tell
// counts as crashed. A run longer than its maxRun is asked to stop, and a second later the instance is reported RunTimedOut; an instance that has
// a run and does nothing is reported silent long before. Cost: two system calls a run, no locks. Thread rule: everything on the gateway's loop.
// The loop and the supervision outlive the backend.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "channel/arena.h"
#include "channel/lane_messages.h"
#include "channel/process_watch.h"
#include "ports/clock.h"
#include "ports/container_runtime.h"
#include "ports/model_backend.h"

namespace coterie::channel {

// What the supervisor hands over when an instance is ready. Lane i is the i-th of own lanes followed by loan lanes.
struct InstanceEndpoint {
  InstanceId id;
  std::vector<UniqueFd> ownLanes;
  std::vector<UniqueFd> loanLanes;
  UniqueFd signals;                        // for TerminateMessage
  UniqueFd process;                        // pidfd: readable once the worker is dead
  std::shared_ptr<ResponseArena> answers;  // shared with the answers that are still being read
  ModelSignature signature;
  int pid{0};    // of the worker, for what the kernel says of it; 0: not looked at
  int width{1};  // threads of one run
};

class Supervision {
 public:
  virtual ~Supervision() = default;
  // The instance must be killed and its end reported with this reason; called once per instance, on the gateway's loop.
  virtual void misbehaved(InstanceId id, EndReason reason, const std::string& message) = 0;
  // It has a run and shows no sign of life / shows one again. The backend goes on as before unless told to suspend it. Must not call back at once.
  virtual void silent(InstanceId, const std::string& /*why*/) {}
  virtual void answers(InstanceId) {}
};

struct BackendOptions {
  Millis sweep{50};        // how often running times are looked at, while something runs
  Millis killAfter{1000};  // after a run that was asked to stop has not
  // A run has been on an instance this long, and for the second half of it its process neither used nor wanted CPU time: it is reported silent.
  // Counted in sweeps. 0: never.
  Millis silentAfter{1500};
};

class LocalBackend final : public ModelBackend {
 public:
  LocalBackend(EventLoop& loop, std::shared_ptr<RequestArena> arena, ModelSignature signature, Supervision& supervision, BackendOptions options = {});
  ~LocalBackend() override;  // completes what runs with Unavailable
  LocalBackend(const LocalBackend&) = delete;
  LocalBackend& operator=(const LocalBackend&) = delete;

  // Its lanes become ready. Conflict/SignatureDiffers if the model has other inputs or outputs than this backend's.
  Status addInstance(InstanceEndpoint endpoint);
  // No further runs there; `drained` is called once nothing runs there any more (later, never from inside). The instance is then forgotten.
  void drainInstance(InstanceId id, std::function<void()> drained);
  // The instance is dead (or about to be killed): what runs there ends as crashed, its lanes are gone.
  void removeInstance(InstanceId id);
  // Out of the rotation and back, for an instance that lives and does not answer. Requests that it has not taken end as neverStarted (their cells
  // stay quarantined), those in its run may still end well. Its lanes are announced anew by resumeInstance().
  void suspendInstance(InstanceId id);
  void resumeInstance(InstanceId id);

  void setListener(Listener* listener) override;
  [[nodiscard]] const ModelSignature& signature() const override { return signature_; }
  [[nodiscard]] Result<std::shared_ptr<InputCell>> allocate(std::size_t bytes) override { return RequestArena::allocate(arena_, bytes); }
  void run(const LaneRef& lane, RunRequest request, Completion completion) override;
  void terminate(const LaneRef& lane) override;
  [[nodiscard]] bool keeps(InstanceId instance) const override;
  void forget(InstanceId instance, std::uint64_t handle) override;

  [[nodiscard]] const RequestArena& arena() const { return *arena_; }

 private:
  struct Lane;
  struct Instance;
  class LocalAnswer;
  enum class Ending : std::uint8_t { Crashed, NeverStarted, Violated };

  [[nodiscard]] Lane* find(const LaneRef& ref);
  void onReadable(Lane& lane);
  void onProcessEnd(Instance& instance);
  void finish(Lane& lane);
  void complete(Lane& lane, RunOutcome outcome);
  void failRunning(Lane& lane, Ending ending);
  void close(Lane& lane, Ending ending);
  void violated(Instance& instance, EndReason reason, const std::string& message);
  void retire(Instance& instance);
  static void unwatch(Instance& instance);
  void settleDrain(Instance& instance);
  void offer(Lane& lane);
  void withdraw(Lane& lane);
  [[nodiscard]] Nanos believedWait(const Lane& lane, const CostMeter::Claim& claim);
  void listenTo(Instance& instance);
  [[nodiscard]] static bool unread(const Lane& lane);
  void tellNeverStarted(Lane& lane);
  void sweep();
  void armSweep();
  void sendTerminate(Lane& lane);
  void reject(Completion completion, Error error, bool neverStarted);
  [[nodiscard]] Result<std::unique_ptr<Answer>> makeAnswer(Lane& lane);
  [[nodiscard]] Status prepare(Lane& lane, const RunRequest& request);
  [[nodiscard]] Status addSequence(const std::optional<SequencePart>& part, RunMessage& message) const;

  EventLoop& loop_;
  std::shared_ptr<RequestArena> arena_;
  ModelSignature signature_;
  Supervision& supervision_;
  BackendOptions options_;
  Listener* listener_{nullptr};
  std::map<InstanceId, std::shared_ptr<Instance>> instances_;
  std::vector<std::shared_ptr<Instance>> retired_;  // gone; their watches go once the callback that told us is over
  int running_{0};
  TimerHandle sweepTimer_;
  std::unique_ptr<RunMessage> outgoing_;     // scratch: one run is encoded at a time
  std::unique_ptr<AnswerMessage> incoming_;  // scratch
  std::vector<std::byte> buffer_;            // scratch
  std::shared_ptr<bool> alive_;              // guards posted callbacks
};

}  // namespace coterie::channel
