// ContainerRuntime over processes of this machine: each instance is a sandboxed child that serves one model.
//
// start() spawns the launcher (this program again), which enters the sandbox and becomes the worker; over the control socket the worker gets its
// arenas and lanes, reports progress and Ready. The endpoint for the gateway is then fetched with takeEndpoint(), usually from within instanceReady.
// States of an instance:
//   Launching -> Loading -> Ready -> Stopping -> (ended, reported once);  any state -> ended when the process dies or is killed for a reason.
// What a worker says about itself is checked against the kernel: its threads are looked up, its memory is read from /proc. Messages out of order or
// malformed are a ProtocolViolation. Memory limit: a v1 memory cgroup where one can be made below our own, else RLIMIT_DATA and polling, 4 times a
// second. A ready worker that is alive and does nothing is told of as silent and, if it stays so, killed as Unresponsive: the kernel says whether a
// signal stopped it (one wake-up for all workers, none without workers), the gateway whether it does nothing although it has requests (heard()). One
// that a signal stopped and beside which nobody of its service works is killed sooner: all its requests are refused meanwhile.
// Silence is counted in those wake-ups, not by the clock, so that a pause of the whole machine is nobody's fault. Children die with the thread that
// started them (PDEATHSIG): construct and use this on a control loop whose thread lives as long as the process. The destructor kills and reaps what
// is left. Thread rule: the control loop; violated() and heard() reach it from other threads by the loop's post().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "channel/control_messages.h"
#include "channel/local_backend.h"
#include "ports/clock.h"
#include "ports/container_runtime.h"
#include "process/child.h"
#include "process/worker_cgroup.h"

namespace coterie::process {

struct ProcessOptions {
  std::string launcher{"/proc/self/exe"};                                     // spawned with launcherArguments
  std::vector<std::string> launcherArguments{"coterie", "worker", "launch"};  // argv, with argv[0]
  std::string worker;                                                         // becomes the worker; empty: this program's own file
  std::vector<std::string> workerArguments{"coterie", "worker", "run"};       // argv; three descriptor numbers are added
  std::string runtimeLibrary;                                                 // ONNX Runtime
  Bytes largestAnswer{64LL << 20};                                            // response cell; sparse
  Seconds startTimeout{120};                                                  // from start() to Ready
  Millis memoryPoll{250};                                                     // where there is no memory cgroup
  Millis stopCheck{1000};                                                     // how often it is asked whether ready workers stand still
  Millis silentLimit{10'000};                                                 // so long silent (in steps of stopCheck): killed, to be started again
  Millis soleLimit{2000};                                                     // the same where a signal stopped the only one of a service that works
  bool sandbox{true};                                                         // off only under sanitizers and debuggers
  std::function<void(InstanceId, std::string_view)> onErrorText;              // what a worker writes to standard error, as it comes; may be empty
};

class ProcessRuntime final : public ContainerRuntime {
 public:
  ProcessRuntime(EventLoop& loop, ProcessOptions options);
  ~ProcessRuntime() override;
  ProcessRuntime(const ProcessRuntime&) = delete;
  ProcessRuntime& operator=(const ProcessRuntime&) = delete;

  void setListener(Listener* listener) override { listener_ = listener; }
  Status start(const InstanceSpec& spec) override;  // FailedPrecondition-like: NotFound/NoRequestArena before setRequestArena()
  void stop(InstanceId id, Millis grace) override;
  [[nodiscard]] Bytes residentMemory(InstanceId id) const override;

  // The arena that instances of this service started from now on read their inputs from. `fd` is duplicated.
  Status setRequestArena(const ServiceName& service, int fd, std::uint64_t size);
  // Once per instance, after instanceReady: its lanes for the gateway.
  [[nodiscard]] Result<channel::InstanceEndpoint> takeEndpoint(InstanceId id);
  // The gateway has seen it misbehave: it is killed and its end reported with this reason.
  void violated(InstanceId id, EndReason reason, const std::string& message);
  // The gateway's word on a ready instance: it does nothing although it has requests, for this reason; an empty one: it answers.
  void heard(InstanceId id, const std::string& silence);

 private:
  enum class State : std::uint8_t { Launching, Loading, Ready, Stopping };
  struct Instance;

  Status launchChild(Instance& instance, int requestArena, std::uint64_t requestBytes);
  void limitChild(Instance& instance);
  Status sendSetup(Instance& instance, int requestArena, std::uint64_t requestBytes, const std::vector<UniqueFd>& workerEnds);
  void watch(Instance& instance);
  void onControl(Instance& instance);
  void onMessage(Instance& instance, std::span<const std::byte> message);
  void onReady(Instance& instance, std::span<const std::byte> message);
  void onErrors(Instance& instance);
  void onExit(Instance& instance);
  void checkExitLater(Instance& instance);
  void killFor(Instance& instance, EndReason reason, std::string message);
  void pollMemory(Instance& instance);
  void armStopCheck();
  void lookForStopped();
  void noteSilence(Instance& instance, const std::string& before);
  [[nodiscard]] Millis silentLimitOf(const Instance& instance) const;
  [[nodiscard]] InstanceEnd endOf(const Instance& instance, const ExitStatus& status) const;

  struct SharedArena {
    UniqueFd fd;
    std::uint64_t size{0};
  };

  EventLoop& loop_;
  ProcessOptions options_;
  Listener* listener_{nullptr};
  std::map<ServiceName, SharedArena> arenas_;
  std::map<InstanceId, std::shared_ptr<Instance>> instances_;
  std::vector<std::shared_ptr<Instance>> retired_;  // ended; their watches go once the callback that told us is over
  TimerHandle stopCheck_;
  bool stopCheckArmed_{false};
  std::vector<std::byte> buffer_;
  std::shared_ptr<bool> alive_;  // guards posted callbacks
};

}  // namespace coterie::process
