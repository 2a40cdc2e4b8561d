#include "subject.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "active_loop.h"
#include "agent/drc.h"
#include "agent/home_journal.h"
#include "agent/realtime_applier.h"
#include "channel/arena.h"
#include "channel/local_backend.h"
#include "closed_loop.h"
#include "http/asio_loop.h"
#include "linux/affinity_controller.h"
#include "linux/cgroup_v1_controller.h"
#include "linux/execute_write.h"
#include "linux/live_machine.h"
#include "process/process_runtime.h"
#include "scenario.h"
#include "testing/bench_report.h"
#include "testing/onnx_writer.h"
#include "worker/worker_main.h"

namespace coterie::in_node {

namespace {

constexpr int kRequestsPerCpu = 2;

std::string runtimeLibrary() {
  if (const char* path = std::getenv("COTERIE_ORT"); path != nullptr) return path;
  if (const char* cache = std::getenv("COTERIE_CACHE"); cache != nullptr) return std::string(cache) + "/ort/lib/libonnxruntime.so";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "/root") + "/.cache/coterie/ort/lib/libonnxruntime.so";
}

Result<allocation::PolicyName> parsePolicy(const std::string& name) {
  using allocation::PolicyName;
  if (name == "drc") return PolicyName::Drc;
  if (name == "none-single") return PolicyName::NoneSingle;
  if (name == "none-multi") return PolicyName::NoneMulti;
  if (name == "cm-single") return PolicyName::CpuManagerSingle;
  if (name == "cm-multi") return PolicyName::CpuManagerMulti;
  return Error{Code::InvalidArgument, "UnknownPolicy", "policy " + name};
}

// How a subject runs one service: containers, threads of a run, lanes.
struct Form {
  int containers{1};
  int width{1};
  bool spin{false};
  int ownLanes{1};
  int loanLanes{0};
};

Form formOf(const std::string& policy, Threads threads, int services, int cpus) {
  const int share = std::max(1, cpus / services);
  Form form;
  if (policy.ends_with("-multi")) form.containers = cpus;
  switch (threads) {
    case Threads::Shipped: form.width = cpus, form.spin = true; break;
    case Threads::Paper: form.width = std::max(1, share / form.containers), form.spin = true; break;
    case Threads::One: break;
    case Threads::Share: form.width = share; break;
    case Threads::All: form.width = cpus; break;
    case Threads::Follow: form.ownLanes = cpus, form.loanLanes = cpus; break;
  }
  return form;
}

class SubjectRun final : public ContainerRuntime::Listener, public agent::Drc::Listener, public channel::Supervision {
 public:
  SubjectRun(SharedPage& page, std::string policy, Threads threads, std::vector<Arrival> arrivals)
      : page_(page), loop_(inner_, page), policy_(std::move(policy)), threads_(threads), arrivals_(std::move(arrivals)) {}

  int run() {
    if (const Status status = start(); !status) fail(status.error().message);
    inner_.run();
    return 0;
  }

  void instanceProgress(InstanceId, int) override {}
  void instanceReady(InstanceId id, const InstanceReady& ready) override;
  void instanceEnded(InstanceId id, const InstanceEnd& end) override { fail("an instance ended: " + std::to_string(id.value) + " " + end.message); }
  void lanesChanged(GroupId group, const std::vector<agent::LaneAllowance>& lanes) override;
  void pendingChanged(GroupId, bool) override {}
  void misbehaved(InstanceId, EndReason, const std::string& message) override { fail("a worker misbehaved: " + message); }

 private:
  struct Service {
    Arrival arrival;
    Form form;
    std::shared_ptr<channel::RequestArena> arena;
    std::unique_ptr<channel::LocalBackend> backend;
    std::unique_ptr<ClosedLoop> load;
    Nanos probe{};
    int ready{0};
    std::vector<agent::LaneAllowance> lanes;
  };

  Status start();
  Status startService(std::size_t index);
  void arrive();
  void beginLoad(Service& service, std::size_t index);
  void loadFinished();
  void fail(const std::string& message) {
    std::snprintf(page_.failure.data(), page_.failure.size(), "%s", message.c_str());
    page_.state.store(SubjectState::Failed);
  }
  [[nodiscard]] std::size_t serviceOf(InstanceId id) const { return static_cast<std::size_t>(id.value / kInstancesPerService); }

  static constexpr int kInstancesPerService = 64;

  SharedPage& page_;
  http::AsioLoop inner_;
  ActiveLoop loop_;
  std::string policy_;
  Threads threads_;
  std::vector<Arrival> arrivals_;
  int cpus_{1};
  linux::LiveMachine machine_;
  std::unique_ptr<CpuController> controller_;
  std::unique_ptr<agent::RealtimeApplier> applier_;
  agent::MemoryHomeJournal journal_;
  std::unique_ptr<agent::Drc> drc_;
  std::unique_ptr<process::ProcessRuntime> runtime_;
  std::vector<Service> services_;
  std::vector<TimerHandle> timers_;
  bool fixedWork_{false};
  std::size_t finished_{0};
  Instant began_{};
};

Status SubjectRun::start() {
  const auto policy = parsePolicy(policy_);
  if (!policy) return policy.error();
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
  process::ProcessOptions options;
  options.runtimeLibrary = runtimeLibrary();
  options.launcherArguments = {"in-node", "worker", "launch"};
  options.workerArguments = {"in-node", "worker", "run"};
  runtime_ = std::make_unique<process::ProcessRuntime>(inner_, options);
  runtime_->setListener(this);
  agent::DrcConfig config;
  config.allocation.policy = *policy;
  services_.resize(arrivals_.size());
  drc_ = std::make_unique<agent::Drc>(agent::Drc::Ports{loop_, *controller_, machine_, *applier_, journal_, *this,
                                                        [this](GroupId id) {
                                                          agent::DemandSample sample;
                                                          const Service& service = services_[static_cast<std::size_t>(id.value)];
                                                          if (service.load == nullptr) return sample;
                                                          const auto demand = service.load->demand();
                                                          sample.arrivals = agent::MilliRps(demand.arrivals.value);
                                                          sample.cpuPerRequest = demand.cpuPerRequest;
                                                          sample.queued = demand.queued;
                                                          sample.queuedBeyondOwnLanes = service.load->queuedBeyondOwnLanes();
                                                          return sample;
                                                        }},
                                      config);
  if (const Status status = drc_->start(); !status) return status;
  fixedWork_ = arrivals_.front().requests > 0;
  arrive();
  return {};
}

void SubjectRun::arrive() {
  began_ = loop_.clock().now();
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    const auto begin = [this, i] {
      if (const Status status = startService(i); !status) fail(status.error().message);
    };
    if (arrivals_[i].startSeconds <= 0) {
      begin();
    } else {
      timers_.push_back(inner_.after(Nanos(static_cast<std::int64_t>(arrivals_[i].startSeconds * 1e9)), begin));
    }
  }
}

Status SubjectRun::startService(std::size_t index) {
  Service& service = services_[index];
  service.arrival = arrivals_[index];
  service.form = formOf(policy_, threads_, static_cast<int>(arrivals_.size()), cpus_);
  auto arena = channel::RequestArena::create({Bytes(64LL << 20), Bytes(16LL << 20)});
  if (!arena) return arena.error();
  service.arena = std::move(arena).value();
  const GroupId group(static_cast<std::int32_t>(index));
  const ServiceName name{"bench", "s" + std::to_string(index)};
  if (const Status status = runtime_->setRequestArena(name, service.arena->fd(), service.arena->size()); !status) return status;
  agent::GroupSpec spec;
  spec.id = group;
  spec.service = name;
  spec.tenant = TenantId(static_cast<std::int32_t>(index));
  drc_->setGroup(spec);
  for (int i = 0; i < service.form.containers; ++i) {
    InstanceSpec instance;
    instance.id = InstanceId(static_cast<std::int32_t>(index) * kInstancesPerService + i);
    instance.service = name;
    instance.tenant = TenantName("t" + std::to_string(index));
    instance.modelPath = modelPath(service.arrival.model);
    instance.ownLanes = service.form.ownLanes;
    instance.loanLanes = service.form.loanLanes;
    instance.width = service.form.width;
    instance.spin = service.form.spin;
    drc_->instanceStarting(group, instance.id);
    if (const Status status = runtime_->start(instance); !status) return status;
  }
  return {};
}

void SubjectRun::instanceReady(InstanceId id, const InstanceReady& ready) {
  Service& service = services_[serviceOf(id)];
  const GroupId group(static_cast<std::int32_t>(serviceOf(id)));
  if (service.backend == nullptr) service.backend = std::make_unique<channel::LocalBackend>(loop_, service.arena, ready.signature, *this);
  auto endpoint = runtime_->takeEndpoint(id);
  if (!endpoint) return fail(endpoint.error().message);
  if (const Status added = service.backend->addInstance(std::move(endpoint).value()); !added) return fail(added.error().message);
  drc_->instanceReady(group, id, ready);
  if (!ready.speeds.empty()) service.probe = ready.speeds.front().mean;
  if (++service.ready < service.form.containers) return;
  // Fixed work starts when its own service is ready; otherwise all begin together, when the last one is.
  if (fixedWork_) {
    beginLoad(service, serviceOf(id));
    page_.state.store(SubjectState::Ready);
    return;
  }
  const bool all = std::all_of(services_.begin(), services_.end(), [](const Service& one) { return one.form.containers == one.ready; });
  if (!all) return;
  for (std::size_t i = 0; i < services_.size(); ++i) beginLoad(services_[i], i);
  page_.state.store(SubjectState::Ready);
}

void SubjectRun::beginLoad(Service& service, std::size_t index) {
  ClosedLoopOptions options;
  options.outstanding = kRequestsPerCpu * cpus_;
  options.requests = service.arrival.requests;
  options.initialRun = std::max(service.probe, Nanos(100'000));
  for (const TensorSpec& input : service.backend->signature().inputs) {
    Shape shape = input.shape;
    std::replace(shape.begin(), shape.end(), kDynamic, std::int64_t{1});
    options.shapes.push_back(shape);
  }
  service.load = std::make_unique<ClosedLoop>(loop_, *service.backend, page_.services[index], options, [this] { loadFinished(); });
  for (const auto& lane : service.lanes) service.load->setLanes(lane.instance, lane.ownLanes, lane.loanLanes);
  service.load->start();
  drc_->demandChanged(GroupId(static_cast<std::int32_t>(index)));
}

void SubjectRun::loadFinished() {
  if (++finished_ < arrivals_.size()) return;
  page_.finishedAt.store((loop_.clock().now() - began_).count());
  page_.state.store(SubjectState::Finished);
}

void SubjectRun::lanesChanged(GroupId group, const std::vector<agent::LaneAllowance>& lanes) {
  Service& service = services_[static_cast<std::size_t>(group.value)];
  service.lanes = lanes;
  if (service.load == nullptr) return;
  for (const auto& lane : lanes) service.load->setLanes(lane.instance, lane.ownLanes, lane.loanLanes);
}

}  // namespace

std::string modelPath(const std::string& model) {
  const char* folder = std::getenv("COTERIE_BENCH_MODELS");
  return std::filesystem::absolute(std::filesystem::path(folder != nullptr ? folder : "build/bench/models") / (model + ".onnx")).string();
}

Status makeModels() {
  for (const char* name : {"mobilenet_v2", "resnet50", "vgg16"}) {
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

int subjectMain(int argc, char** argv) {
  const int fd = std::atoi(testing::benchOption(argc, argv, "page", "-1").c_str());
  void* memory = ::mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return 1;
  ::close(fd);
  const auto threads = parseThreads(testing::benchOption(argc, argv, "threads", "follow"));
  const auto services = parseServices(testing::benchOption(argc, argv, "services", ""));
  if (!threads || !services || services->empty() || services->size() > kMaxServices) return 2;
  return SubjectRun(*static_cast<SharedPage*>(memory), testing::benchOption(argc, argv, "policy", "drc"), *threads, *services).run();
}

}  // namespace coterie::in_node
