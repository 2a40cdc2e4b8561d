// What the bench and the tests put behind the gateway: a backend that answers at once in this process, and real worker processes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "channel/arena.h"
#include "channel/local_backend.h"
#include "gateway/gateway.h"
#include "http/asio_loop.h"
#include "ports/container_runtime.h"
#include "process/process_runtime.h"

namespace coterie::gateway_bench {

// Cells from a free list; the same four bytes as answer to everything, on the loop's next turn.
class NullBackend final : public ModelBackend {
 public:
  NullBackend(EventLoop& loop, ModelSignature signature, int lanes)
      : loop_(loop), signature_(std::move(signature)), lanes_(lanes), pool_(std::make_shared<Pool>()) {}

  void setListener(Listener* listener) override;
  [[nodiscard]] const ModelSignature& signature() const override { return signature_; }
  [[nodiscard]] Result<std::shared_ptr<InputCell>> allocate(std::size_t bytes) override;
  void run(const LaneRef& lane, RunRequest request, Completion completion) override;
  void terminate(const LaneRef&) override {}
  [[nodiscard]] bool keeps(InstanceId) const override { return true; }
  void forget(InstanceId, std::uint64_t) override {}

 private:
  struct Pool {
    std::vector<std::vector<std::byte>> free;
  };
  class Cell;
  class FourBytes;

  EventLoop& loop_;
  ModelSignature signature_;
  int lanes_;
  std::shared_ptr<Pool> pool_;
  std::vector<Completion> waiting_;
};

// One worker process for each model, published as services of one tenant.
class Workers final : public ContainerRuntime::Listener, public channel::Supervision {
 public:
  Workers(http::AsioLoop& loop, gateway::Gateway& gateway);
  ~Workers() override;

  // Makes the model, starts a worker with that many lanes, waits until it is ready and publishes it under that name; so many requests may run as one.
  Status serve(const std::string& name, const std::string& model, int lanes, int maxBatch = 1);
  [[nodiscard]] double cpuSeconds() const;                   // of all workers, since they started
  [[nodiscard]] pid_t pidOf(const std::string& name) const;  // of the latest worker of that name
  [[nodiscard]] static std::string runtimeLibrary();

  void instanceProgress(InstanceId, int) override {}
  void instanceReady(InstanceId id, const InstanceReady& ready) override;
  void instanceEnded(InstanceId id, const InstanceEnd& end) override;
  void misbehaved(InstanceId id, EndReason reason, const std::string& message) override;

 private:
  struct Served {
    ServiceName service;
    int lanes{0};
    int maxBatch{1};
    std::shared_ptr<channel::RequestArena> arena;
    std::unique_ptr<channel::LocalBackend> backend;
    pid_t pid{0};
    std::string fault;
  };
  http::AsioLoop& loop_;
  gateway::Gateway& gateway_;
  std::filesystem::path folder_;
  std::unique_ptr<process::ProcessRuntime> runtime_;
  std::vector<Served> served_;  // by instance id
};

[[nodiscard]] double cpuSecondsOf(pid_t pid);

}  // namespace coterie::gateway_bench
