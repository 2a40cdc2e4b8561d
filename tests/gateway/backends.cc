#include "backends.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/cpu_clock.h"
#include "onnx/default_library.h"
#include "testing/onnx_writer.h"

namespace coterie::gateway_bench {

class NullBackend::Cell final : public InputCell {
 public:
  Cell(std::shared_ptr<Pool> pool, std::size_t bytes) : pool_(std::move(pool)) {
    if (!pool_->free.empty()) {
      memory_ = std::move(pool_->free.back());
      pool_->free.pop_back();
    }
    if (memory_.size() < bytes) memory_.resize(bytes);
  }
  ~Cell() override { pool_->free.push_back(std::move(memory_)); }
  std::span<std::byte> bytes() override { return memory_; }

 private:
  std::shared_ptr<Pool> pool_;
  std::vector<std::byte> memory_;
};

class NullBackend::FourBytes final : public Answer {
 public:
  std::span<const OutputTensor> outputs() const override { return outputs_; }

 private:
  static constexpr float kValue = 1.5F;
  std::vector<OutputTensor> outputs_{{0, {1, 1}, std::as_bytes(std::span(&kValue, 1))}};
};

void NullBackend::setListener(Listener* listener) {
  if (listener == nullptr) return;
  for (int lane = 0; lane < lanes_; ++lane) listener->laneReady({{InstanceId(0), LaneId(lane)}, LaneClass::Own});
}

Result<std::shared_ptr<InputCell>> NullBackend::allocate(std::size_t bytes) {
  return std::shared_ptr<InputCell>(std::make_shared<Cell>(pool_, bytes));
}

void NullBackend::run(const LaneRef&, RunRequest, Completion completion) {
  waiting_.push_back(std::move(completion));
  if (waiting_.size() > 1) return;
  loop_.post([this] {
    std::vector<Completion> all;
    all.swap(waiting_);
    for (const Completion& each : all) each({std::unique_ptr<Answer>(std::make_unique<FourBytes>()), Micros(1), {}, Micros(1)});
  });
}

Workers::Workers(http::AsioLoop& loop, gateway::Gateway& gateway) : loop_(loop), gateway_(gateway) {
  std::string pattern = "/tmp/coterie-gateway-bench-XXXXXX";
  folder_ = ::mkdtemp(pattern.data());
  ::chmod(folder_.c_str(), 0755);
  process::ProcessOptions options;
  options.launcher = options.worker = COTERIE_WORKER_BINARY;
  options.launcherArguments = {"worker", "launch"};
  options.workerArguments = {"worker", "run"};
  options.runtimeLibrary = runtimeLibrary();
  options.largestAnswer = Bytes(4 << 20);
  options.sandbox = !COTERIE_SANITIZED;  // sanitizers need more of the kernel than a worker does
  runtime_ = std::make_unique<process::ProcessRuntime>(loop_, options);
  runtime_->setListener(this);
}

Workers::~Workers() {
  runtime_->setListener(nullptr);
  // What was under way when the load ended is finished first: until then the gateway holds on to the backends.
  std::size_t drained = 0;
  for (const Served& served : served_) gateway_.withdrawService(served.service, [&] { ++drained; });
  if (!loop_.runUntil([&] { return drained == served_.size(); }, Seconds(60))) std::abort();
  served_.clear();
  runtime_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Status Workers::serve(const std::string& name, const std::string& model, int lanes, int maxBatch) {
  const auto bytes = testing::makeModel(model);
  if (!bytes) return bytes.error();
  const std::string path = (folder_ / (model + ".onnx")).string();
  std::ofstream(path, std::ios::binary).write(bytes->data(), static_cast<std::streamsize>(bytes->size()));
  auto arena = channel::RequestArena::create({Bytes(256 << 20), Bytes(32 << 20)});
  if (!arena) return arena.error();
  Served entry;
  entry.service = {"space", name};
  entry.lanes = lanes;
  entry.maxBatch = maxBatch;
  entry.arena = std::move(*arena);
  if (const Status shared = runtime_->setRequestArena(entry.service, entry.arena->fd(), entry.arena->size()); !shared) return shared.error();
  InstanceSpec spec;
  spec.id = InstanceId(static_cast<std::int32_t>(served_.size()));
  spec.service = entry.service;
  spec.tenant = TenantName("tenant");
  spec.modelPath = path;
  spec.ownLanes = lanes;
  served_.push_back(std::move(entry));
  if (const Status started = runtime_->start(spec); !started) return started.error();
  const std::size_t at = served_.size() - 1;
  loop_.runUntil([&] { return served_[at].pid != 0 || !served_[at].fault.empty(); }, Seconds(60));
  if (served_[at].pid == 0)
    return Error{Code::Unavailable, "NotReady", model + ": " + (served_[at].fault.empty() ? "not ready within a minute" : served_[at].fault)};
  return {};
}

void Workers::instanceReady(InstanceId id, const InstanceReady& ready) {
  Served& served = served_[static_cast<std::size_t>(id.value)];
  auto endpoint = runtime_->takeEndpoint(id);
  if (!endpoint) return served.fault = endpoint.error().message, void();
  served.backend = std::make_unique<channel::LocalBackend>(loop_, served.arena, endpoint->signature, *this);
  gateway::ServiceSettings settings;
  settings.tenant = TenantName("tenant");
  settings.maxBatch = served.maxBatch;
  settings.initialRun = ready.speeds.empty() ? Nanos(Millis(1)) : ready.speeds.front().mean;
  gateway_.publishService(served.service, settings, served.backend.get());
  gateway_.setLanes(served.service, id, {served.lanes, 0});
  if (const Status added = served.backend->addInstance(std::move(*endpoint)); !added) return served.fault = added.error().message, void();
  served.pid = ready.pid;
}

void Workers::instanceEnded(InstanceId id, const InstanceEnd& end) {
  Served& served = served_[static_cast<std::size_t>(id.value)];
  served.fault = end.message.empty() ? std::string(endReasonName(end.reason)) : end.message;
  if (served.backend) served.backend->removeInstance(id);
}

void Workers::misbehaved(InstanceId id, EndReason reason, const std::string& message) {
  loop_.post([this, id, reason, message] { runtime_->violated(id, reason, message); });
}

pid_t Workers::pidOf(const std::string& name) const {
  const auto found = std::find_if(served_.rbegin(), served_.rend(), [&](const Served& served) { return served.service.name == name; });
  return found == served_.rend() ? 0 : found->pid;
}

std::string Workers::runtimeLibrary() { return onnx::defaultLibrary(); }

double cpuSecondsOf(pid_t pid) { return static_cast<double>(cpuTimeOf(pid).value_or(Nanos{}).count()) * 1e-9; }

double Workers::cpuSeconds() const {
  double all = 0;
  for (const Served& served : served_) all += cpuSecondsOf(served.pid);
  return all;
}

}  // namespace coterie::gateway_bench
