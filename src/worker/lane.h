// One lane: a thread that takes a request from its socket, runs it, and answers on the same socket.
//
// Nothing is handed over inside the worker: the thread that is woken by the request is the one that runs it, so growing is a matter of the gateway
// sending to another lane, and a parked lane costs a blocked recv. A loan lane puts itself into SCHED_IDLE before anything else. Messages are checked
// against the arenas; tensors against the signature by the runner. Several requests in one message run as one (gather.h); one of a sequence runs on
// the state that the one before left (sequence_states.h). Two system calls of transport a request, two to tell its cost (thread CPU time, run-queue
// wait), no allocation of ours. Thread rule: start() and terminate() from the service thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "onnx/session.h"
#include "ports/model_backend.h"
#include "worker/sequence_states.h"

namespace coterie::worker {

struct LaneSetup {
  LaneClass laneClass{LaneClass::Own};
  int index{0};                         // among all lanes of the instance
  int socket{-1};                       // owned by the process for its whole life
  std::span<const std::byte> requests;  // the whole request arena
  std::span<std::byte> answers;         // the whole response arena
};

class Lane {
 public:
  Lane(const LaneSetup& setup, const onnx::Session& session, SequenceStates& states);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Starts its thread and waits until it is in its class. Unavailable/NoThread if it cannot be.
  [[nodiscard]] Status start();
  [[nodiscard]] std::int32_t thread() const { return thread_; }
  // Asks the run of that generation to stop; nothing happens if another or none is running.
  void terminate(std::uint64_t generation);

 private:
  struct Buffers;
  static void* enter(void* self);
  void serve();
  [[nodiscard]] bool answerOne(Buffers& buffers);
  [[nodiscard]] Status runOne(Buffers& buffers);
  void begin(std::uint64_t generation);
  void end();

  LaneSetup setup_;
  const ModelSignature& signature_;
  onnx::Runner runner_;
  SequenceStates& states_;
  std::mutex mutex_;          // between the lane and terminate(); never held during a run
  std::uint64_t running_{0};  // generation; 0: none
  bool terminated_{false};
  std::int32_t thread_{0};
  bool classSet_{false};
};

}  // namespace coterie::worker
