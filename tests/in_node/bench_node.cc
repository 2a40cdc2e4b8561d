#include "bench_node.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "channel/arena.h"
#include "linux/affinity_controller.h"
#include "linux/cgroup_v1_controller.h"
#include "linux/execute_write.h"
#include "onnx/default_library.h"
#include "testing/onnx_writer.h"
#include "worker/worker_main.h"

namespace coterie::in_node {

std::string runtimeLibrary() {
  if (const char* path = std::getenv("COTERIE_ORT"); path != nullptr) return path;
  return onnx::defaultLibrary();
}

namespace {
GroupId groupOf(std::size_t service) { return GroupId(static_cast<std::int32_t>(service)); }

}  // namespace

Status BenchNode::start(const Options& options, std::size_t services) {
  const auto sets = machine_.poll();
  if (!sets) return sets.error();
  cpus_ = sets->allowed.count();
  auto cgroups = linux::CgroupV1Controller::create();
  if (cgroups) {
    controller_ = std::move(cgroups).value();
  } else {
    controller_ = std::make_unique<linux::AffinityController>(sets->allowed);
  }
  auto applier = agent::RealtimeApplier::create(inner_, {linux::executeWrite});
  if (!applier) return applier.error();
  applier_ = std::move(applier).value();
  process::ProcessOptions processes;
  processes.runtimeLibrary = runtimeLibrary();
  const char* sandbox = std::getenv("COTERIE_BENCH_SANDBOX");  // off in a packed folder: its libraries lie where a sandbox does not let them be read
  processes.sandbox = sandbox == nullptr || std::string_view(sandbox) != "off";
  processes.launcherArguments = {options.program, "worker", "launch"};
  processes.workerArguments = {options.program, "worker", "run"};
  runtime_ = std::make_unique<process::ProcessRuntime>(inner_, processes);
  runtime_->setListener(this);
  services_.resize(services);
  agent::DrcConfig config;
  config.allocation = options.allocation;
  drc_ = std::make_unique<agent::Drc>(
      agent::Drc::Ports{loop_, *controller_, machine_, *applier_, journal_, *this, [this](GroupId id) { return demandOf(id); }}, config);
  return drc_->start();
}

agent::DemandSample BenchNode::demandOf(GroupId group) const {
  agent::DemandSample sample;
  const Service& service = services_[static_cast<std::size_t>(group.value)];
  if (service.load == nullptr) return sample;
  const auto demand = service.load->demand();
  sample.arrivals = MilliRps(demand.arrivals.value);
  sample.cpuPerRequest = demand.cpuPerRequest;
  sample.queued = demand.queued;
  sample.queuedBeyondOwnLanes = service.load->queuedBeyondOwnLanes();
  return sample;
}

agent::GroupSpec BenchNode::groupSpec(std::size_t service) {
  agent::GroupSpec spec;
  spec.id = groupOf(service);
  spec.service = ServiceName{"bench", "s" + std::to_string(service)};
  spec.tenant = TenantId(static_cast<std::int32_t>(service));
  return spec;
}

Status BenchNode::startService(std::size_t index, const std::string& model, const Form& form) {
  Service& service = services_[index];
  service.form = form;
  auto arena = channel::RequestArena::create({Bytes(64LL << 20), Bytes(16LL << 20)});
  if (!arena) return arena.error();
  service.arena = std::move(arena).value();
  const agent::GroupSpec spec = groupSpec(index);
  if (const Status status = runtime_->setRequestArena(spec.service, service.arena->fd(), service.arena->size()); !status) return status;
  drc_->setGroup(spec);
  for (int i = 0; i < form.containers; ++i) {
    InstanceSpec instance;
    instance.id = instanceOf(index, i);
    instance.service = spec.service;
    instance.tenant = TenantName("t" + std::to_string(index));
    instance.modelPath = modelPath(model);
    instance.ownLanes = form.ownLanes;
    instance.loanLanes = form.loanLanes;
    instance.width = form.width;
    instance.spin = form.spin;
    drc_->instanceStarting(spec.id, instance.id);
    if (const Status status = runtime_->start(instance); !status) return status;
  }
  return {};
}

void BenchNode::instanceReady(InstanceId id, const InstanceReady& ready) {
  Service& service = services_[serviceOf(id)];
  if (service.backend == nullptr) service.backend = std::make_unique<channel::LocalBackend>(loop_, service.arena, ready.signature, *this);
  auto endpoint = runtime_->takeEndpoint(id);
  if (!endpoint) return events_.failed(endpoint.error().message);
  if (const Status added = service.backend->addInstance(std::move(endpoint).value()); !added) return events_.failed(added.error().message);
  drc_->instanceReady(groupOf(serviceOf(id)), id, ready);
  if (service.ready == 0) service.firstReady = ready;
  if (++service.ready == service.form.containers) events_.serviceReady(serviceOf(id));
}

void BenchNode::instanceEnded(InstanceId id, const InstanceEnd& end) {
  if (!services_[serviceOf(id)].stopping) return events_.failed("an instance ended: " + std::to_string(id.value) + " " + end.message);
  drc_->instanceEnded(id);
}

void BenchNode::beginLoad(std::size_t index, ServiceCounters& counters, ClosedLoopOptions options, std::function<void()> finished) {
  Service& service = services_[index];
  const auto& speeds = service.firstReady.speeds;
  options.initialRun = std::max(speeds.empty() ? Nanos{} : speeds.front().mean, Nanos(100'000));
  const auto& inputs = service.backend->signature().inputs;
  for (std::size_t i = options.shapes.size(); i < inputs.size(); ++i) {
    Shape shape = inputs[i].shape;
    std::replace(shape.begin(), shape.end(), kDynamic, std::int64_t{1});
    options.shapes.push_back(shape);
  }
  service.load = std::make_unique<ClosedLoop>(loop_, *service.backend, counters, options, std::move(finished));
  for (const auto& lane : service.lanes) service.load->setLanes(lane.instance, lane.ownLanes, lane.loanLanes);
  service.load->start();
  drc_->demandChanged(groupOf(index));
}

void BenchNode::stopService(std::size_t index) {
  Service& service = services_[index];
  service.stopping = true;
  drc_->removeGroup(groupOf(index));
  for (int i = 0; i < service.form.containers; ++i) {
    service.backend->removeInstance(instanceOf(index, i));
    runtime_->stop(instanceOf(index, i), Millis(1000));
  }
}

void BenchNode::lanesChanged(GroupId group, const std::vector<agent::LaneAllowance>& lanes) {
  Service& service = services_[static_cast<std::size_t>(group.value)];
  service.lanes = lanes;
  if (service.load == nullptr) return;
  for (const auto& lane : lanes) service.load->setLanes(lane.instance, lane.ownLanes, lane.loanLanes);
}

std::string modelPath(const std::string& model) {
  const char* folder = std::getenv("COTERIE_BENCH_MODELS");
  return std::filesystem::absolute(std::filesystem::path(folder != nullptr ? folder : "build/bench/models") / (model + ".onnx")).string();
}

Status makeModels(const std::vector<std::string>& models) {
  for (const std::string& name : models) {
    const std::filesystem::path path = modelPath(name);
    if (std::filesystem::exists(path)) continue;
    std::error_code ignored;
    std::filesystem::create_directories(path.parent_path(), ignored);
    const auto bytes = testing::makeModel(name);
    if (!bytes) return bytes.error();
    const std::filesystem::path temporary = path.string() + ".new";
    std::ofstream file(temporary, std::ios::binary);
    if (!file.write(bytes->data(), static_cast<std::streamsize>(bytes->size())).flush())
      return Error{Code::Unavailable, "CannotWrite", "cannot write " + temporary.string()};
    file.close();
    std::filesystem::rename(temporary, path, ignored);
  }
  return {};
}

bool isWorkerCall(int argc, char** argv) { return argc > 1 && std::string_view(argv[1]) == "worker"; }
int workerCall(int argc, char** argv) { return worker::workerMain(argc - 1, argv + 1); }

}  // namespace coterie::in_node
