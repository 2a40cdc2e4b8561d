#include "serve/local_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "admin/admin_handler.h"
#include "admin/metrics_handler.h"
#include "agent/realtime_applier.h"
#include "base/log.h"
#include "controller/tenant_reconciler.h"
#include "files/append_file.h"
#include "files/quiet_thread.h"
#include "files/threaded_model_files.h"
#include "gateway/gateway.h"
#include "http/server.h"
#include "identity/key_format.h"
#include "identity/key_store.h"
#include "linux/cpu_rivals.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/live_machine.h"
#include "linux/resctrl.h"
#include "model/objects.h"
#include "process/process_runtime.h"
#include "serve/access_log.h"
#include "serve/admin_service.h"
#include "serve/apply_manifests.h"
#include "serve/audit_side.h"
#include "serve/bridge.h"
#include "serve/choose_actuator.h"
#include "serve/demo_keys.h"
#include "serve/file_home_journal.h"
#include "serve/log_book.h"
#include "serve/log_keeper.h"
#include "serve/metrics.h"
#include "serve/version.h"
#include "sqlite/sqlite_store.h"

namespace coterie::serve {

namespace {

constexpr std::uint32_t kFirstTenantUser = 200'000;  // workers of tenant i run as this plus i, when we are root
constexpr Bytes kSystemMemory{256LL << 20};

Status makeStateFolder(const std::string& path) {
  if (const int error = linux::makePrivateFolder(path); error != 0) {
    return Error{Code::Unavailable, "StateFolder", path + ": " + std::strerror(error) + "; choose another with --state"};
  }
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0 && (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error{Code::PermissionDenied, "InsecurePermissions",
                 "others may write to the state folder " + path + ", and so put their own keys and socket there: chmod 700 " + path};
  }
  return {};
}

Status checkReserved(const CpuSet& reserved, const Machine& machine) {
  if (const CpuSet strange = reserved - machine.allowed; !strange.empty()) {
    return Error{Code::InvalidArgument, "BadOption",
                 "--reserved-cpus: CPU " + strange.toString() + " is not one that we may use here (" + machine.allowed.toString() + ")"};
  }
  if ((machine.allowed - reserved).empty()) {
    return Error{Code::InvalidArgument, "BadOption",
                 "--reserved-cpus: " + reserved.toString() + " are all the CPUs that we may use; leave at least one for the services"};
  }
  return {};
}

// What run times depend on: another machine, or another part of this one, has others.
std::string shapeText(const Machine& machine) {
  return fmt::format("{}; CPUs {} of {}; {} domains", machine.name, machine.allowed.toString(), machine.online.toString(), machine.domains.size());
}

std::string urlOf(const std::string& address, std::uint16_t port) {
  return address.find(':') == std::string::npos ? fmt::format("http://{}:{}", address, port) : fmt::format("http://[{}]:{}", address, port);
}

// What an acknowledged write changes is told to the gateway within so many turns: the one that acknowledges may still be running, then the store's
// watch, the tenants' pass, the services' pass.
constexpr int kTurnsToGateway = 4;

void afterTurns(EventLoop& loop, int turns, std::function<void()> then) {
  if (turns == 0) return then();
  loop.post([&loop, turns, then = std::move(then)]() mutable { afterTurns(loop, turns - 1, std::move(then)); });
}

// A port in use is mended on the command line, so the message names the option that does it.
Error listenError(const Error& error, std::string_view option, const std::string& address, std::uint16_t port) {
  if (error.reason != "AddressInUse") return error;
  return {error.code, error.reason,
          fmt::format("port {} of {} is in use; choose another with {} PORT, or any free one with {} 0", port, address, option, option)};
}
}  // namespace

// In order of construction: what comes later uses what comes before, and goes first.
struct LocalServer::Parts {
  Parts(http::AsioLoop& loop, const ServeOptions& chosen)
      : control(loop), options(chosen), journal(chosen.state + "/homes.json"), startedWall(loop.clock().wall()) {}

  http::AsioLoop& control;
  ServeOptions options;
  http::AsioLoop gatewayLoop;
  linux::LiveMachine machine;
  Machine shape;
  FileHomeJournal journal;
  LogBook logs;
  std::unique_ptr<sqlite::SqliteStore> store;
  std::unique_ptr<identity::KeyStore> keys;
  std::unique_ptr<AuditSide> audit;
  std::unique_ptr<files::ThreadedModelFiles> modelFiles;
  std::unique_ptr<process::ProcessRuntime> runtime;
  std::unique_ptr<files::AppendFile> record;  // none: nothing is recorded
  std::unique_ptr<AccessLog> accessLog;       // none: nothing is logged
  std::unique_ptr<gateway::Gateway> gateway;
  std::unique_ptr<Bridge> bridge;
  std::unique_ptr<LogKeeper> logKeeper;
  std::unique_ptr<http::Server> gatewayServer;
  std::unique_ptr<CpuController> controller;
  std::unique_ptr<CacheClasses> cacheClasses;  // none: switched off
  std::unique_ptr<agent::RealtimeApplier> applier;
  std::unique_ptr<agent::Drc> drc;
  std::unique_ptr<controller::TenantReconciler> tenants;
  std::unique_ptr<controller::InstanceReconciler> services;
  std::unique_ptr<AdminService> adminService;
  std::unique_ptr<admin::AdminHandler> adminHandler;
  std::unique_ptr<http::Server> adminServer;
  ServeMetrics metrics;
  std::unique_ptr<admin::MetricsHandler> metricsHandler;
  std::unique_ptr<http::Server> metricsServer;
  std::thread gatewayRunner;
  std::map<TenantName, std::uint32_t> users;
  WallTime startedWall;
  bool stopping{false};
  TimerHandle stopTimer;

  [[nodiscard]] Status open();
  [[nodiscard]] Status openCpus();
  void buildRuntime();
  [[nodiscard]] Status buildGateway();
  void buildReconcilers();
  [[nodiscard]] Status buildAdmin();
  [[nodiscard]] std::uint32_t userOf(const TenantName& tenant);
  [[nodiscard]] Status readiness() const;
  void end();
};

std::uint32_t LocalServer::Parts::userOf(const TenantName& tenant) {
  if (::geteuid() != 0) return 0;
  return users.try_emplace(tenant, kFirstTenantUser + static_cast<std::uint32_t>(users.size())).first->second;
}

Status LocalServer::Parts::open() {
  if (const Status made = makeStateFolder(options.state); !made) return made;
  auto opened = sqlite::SqliteStore::open(options.state, control);
  if (!opened) return opened.error();
  store = std::move(opened).value();
  auto keyStore = identity::KeyStore::open(options.state);
  if (!keyStore) return keyStore.error();
  keys = std::move(keyStore).value();
  auto auditSide = AuditSide::open(options.state + "/audit", options.auditLimit, control, gatewayLoop);
  if (!auditSide) return auditSide.error();
  audit = std::move(auditSide).value();
  audit->tell("start", std::string("coterie ") + kVersion);
  auto read = machine.read();
  if (!read) return read.error();
  shape = std::move(read).value();
  if (options.reserved) {
    if (const Status sound = checkReserved(*options.reserved, shape); !sound) return sound;
  }
  if (const Status cpus = openCpus(); !cpus) return cpus;
  buildRuntime();
  if (const Status built = buildGateway(); !built) return built;
  buildReconcilers();
  return buildAdmin();
}

Status LocalServer::Parts::openCpus() {
  linux::allowManyFiles();
  auto chosen = chooseActuator(options.actuator, actuatorsOfThisMachine(shape.allowed));
  if (!chosen) return chosen.error();
  controller = std::move(chosen->controller);
  log::info("serve", chosen->message);
  for (const auto& caveat : controller->traits().caveats) log::info("serve", caveat);
  if (const auto rivals = linux::cpuRivals(::getpid()); !rivals.empty()) {
    log::warning("serve", "others on this machine set CPUs, too: " + rivals + ". Give each a part of its own, e.g. start this with taskset -c LIST");
  }
  if (options.cacheClasses != CacheClassMode::Off) cacheClasses = linux::Resctrl::create();
  auto made = agent::RealtimeApplier::create(control, {linux::executeWrite});
  if (!made) return made.error();
  applier = std::move(made).value();
  log::info("serve", applier->policyText());
  return {};
}

void LocalServer::Parts::buildRuntime() {
  modelFiles = std::make_unique<files::ThreadedModelFiles>(control);
  process::ProcessOptions wanted;
  wanted.runtimeLibrary = options.runtime;
  wanted.worker = options.worker;
  wanted.sandbox = options.sandbox;
  wanted.onErrorText = [this](InstanceId id, std::string_view text) { logs.append(id, text, control.clock().wall()); };
  runtime = std::make_unique<process::ProcessRuntime>(control, wanted);
}

Status LocalServer::Parts::buildGateway() {
  gateway::GatewayOptions wanted;
  wanted.version = kVersion;
  wanted.seed = static_cast<std::uint64_t>(startedWall.micros);
  wanted.authentication.burst = options.authFailures;
  wanted.authentication.perSecond = options.authFailuresPerSecond;
  identity::fillRandom({reinterpret_cast<std::uint8_t*>(wanted.authentication.digestKey.data()), sizeof(wanted.authentication.digestKey)});
  wanted.catchUp = [this](std::function<void()> done) {
    afterTurns(control, kTurnsToGateway, [this, done = std::move(done)] { gatewayLoop.post(done); });
  };
  wanted.denied = [this](const gateway::Denied& denied) { audit->denied(denied); };
  if (!options.record.empty()) {
    files::AppendFile::Options bounds;
    bounds.limit = options.recordLimit;
    bounds.ended = [](const std::string& why) { log::warning("record", why); };
    auto file = files::AppendFile::create(options.record, bounds);
    if (!file) return Error{file.error().code, file.error().reason, "--record: " + file.error().message};
    record = std::move(file).value();
    wanted.record = [this](std::string_view bytes) { record->append(bytes); };
  }
  if (!options.accessLog.empty()) {
    auto log = AccessLog::create(options.accessLog);
    if (!log) return log.error();
    accessLog = std::move(log).value();
    wanted.access = [this](const gateway::Access& access) { accessLog->tell(access, gatewayLoop.clock().wall()); };
  }
  gateway = std::make_unique<gateway::Gateway>(gatewayLoop, wanted, [this](std::string_view key) -> Result<gateway::Caller> {
    auto identity = keys->snapshot()->authenticate(key, gatewayLoop.clock().wall());
    if (!identity) return identity.error();
    return gateway::Caller{std::move(identity->tenant), identity->role, std::move(identity->keyId)};
  });
  bridge = std::make_unique<Bridge>(control, gatewayLoop, *gateway, workerSide(*runtime), *store,
                                    channel::ArenaOptions{options.requestArena, Bytes(options.requestArena.value / 4)});
  auto server =
      http::Server::listenTcp(gatewayLoop, options.address, options.port, {.limits = {}, .allowNonLoopback = options.allowNonLoopback}, *gateway);
  if (!server) return listenError(server.error(), "--port", options.address, options.port);
  gatewayServer = std::move(server).value();
  bridge->connectServer(gatewayServer.get());
  return {};
}

void LocalServer::Parts::buildReconcilers() {
  agent::DrcConfig drcConfig;
  drcConfig.reserved = options.reserved;
  drcConfig.cacheClasses = options.cacheClasses;
  drc = std::make_unique<agent::Drc>(
      agent::Drc::Ports{control, *controller, machine, *applier, journal, *bridge, [this](GroupId group) { return bridge->sampleDemand(group); },
                        [] { return linux::cpuRivals(::getpid()); }, cacheClasses.get()},
      drcConfig);
  tenants = std::make_unique<controller::TenantReconciler>(control, *store, *store, *bridge);
  controller::InstanceReconcilerConfig config;
  // Canonical, as the files' own paths are: a worker compares the two.
  config.modelRoot = [root = options.models](const TenantName& tenant) {
    std::error_code fault;
    const auto path = std::filesystem::weakly_canonical(std::filesystem::absolute(root + "/" + tenant.value, fault), fault);
    return fault || path.empty() ? root + "/" + tenant.value : path.string();
  };
  config.tenantUser = [this](const TenantName& tenant) { return userOf(tenant); };
  config.machineMemory = shape.memory;
  config.systemMemory = kSystemMemory;
  config.machineShape = shapeText(shape);
  config.machineCpus = std::max(1, (shape.allowed & shape.online).count());
  logKeeper = std::make_unique<LogKeeper>(logs, control.clock(), *bridge, *bridge);
  services = std::make_unique<controller::InstanceReconciler>(
      controller::InstanceReconciler::Ports{control, *store, *store, *runtime, *modelFiles, *logKeeper, *logKeeper}, config,
      [this]() -> const controller::TenantDirectory& { return tenants->directory(); });
  tenants->onChange([this] { services->tenantsChanged(); });
  tenants->askExcess([this](const TenantName& tenant) { return services->excessOf(tenant); });
  services->onExcess([this] { tenants->excessChanged(); });
  bridge->connect(*drc, *services);
}

Status LocalServer::Parts::buildAdmin() {
  admin::VersionInfo version;
  version.version = kVersion;
  version.gatewayUrl = urlOf(options.address, gatewayServer->port());
  version.started = startedWall;
  const auto page = [this](const std::optional<TenantName>& tenant) {
    const GatewayFigures figures = bridge->figures();
    return metrics.scrape(figures.gateway, figures.server, drc->groups(), drc->view(), services->summaries(), tenant,
                          accessLog ? std::optional(accessLog->dropped()) : std::nullopt);
  };
  // Who is on this machine is taken for its administrator, unless somebody said otherwise; others say who they are.
  const bool open = http::isLoopback(options.adminAddress) && !options.metricsNeedKey;
  metricsHandler = std::make_unique<admin::MetricsHandler>(
      page, [this] { return readiness(); }, [this](std::string_view key) { return keys->snapshot()->authenticate(key, control.clock().wall()); },
      open ? admin::MetricsDoor::Open : admin::MetricsDoor::Key);
  auto metricsListener = http::Server::listenTcp(control, options.adminAddress, options.adminPort,
                                                 {.limits = {}, .allowNonLoopback = options.allowNonLoopback}, *metricsHandler);
  if (!metricsListener) return listenError(metricsListener.error(), "--admin-port", options.adminAddress, options.adminPort);
  metricsServer = std::move(metricsListener).value();
  version.adminUrl = urlOf(options.adminAddress, metricsServer->port());
  adminService = std::make_unique<AdminService>(AdminService::Parts{control, *drc, *services, *bridge, *keys, *runtime, logs, page}, version);
  adminHandler = std::make_unique<admin::AdminHandler>(control, *store, *store, *adminService, audit->trail(), ::geteuid());
  auto adminListener = http::Server::listenUnix(control, options.state + "/admin.sock", {}, *adminHandler);
  if (!adminListener) return adminListener.error();
  adminServer = std::move(adminListener).value();
  return {};
}

Status LocalServer::Parts::readiness() const {
  if (stopping) return Error{Code::Unavailable, "Draining", "the server is ending"};
  for (const auto& service : services->summaries()) {
    if (service.spec.instances != 0 && service.obstacles.empty() && service.serving == 0)
      return Error{Code::Unavailable, "Loading", service.name.path() + " is loading"};
  }
  return {};
}

// After the last worker: CPUs back, loops down.
void LocalServer::Parts::end() {
  drc->shutDown();
  if (gatewayRunner.joinable()) {
    gatewayLoop.stop();
    gatewayRunner.join();
  }
  audit->gatewayEnded();
  // The gateway lets go of the backends when it goes, and they are the bridge's.
  gatewayServer.reset();
  gateway.reset();
}

LocalServer::LocalServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

LocalServer::~LocalServer() { parts_->end(); }

Result<std::unique_ptr<LocalServer>> LocalServer::create(http::AsioLoop& control, const ServeOptions& options) {
  auto parts = std::make_unique<Parts>(control, options);
  if (const Status opened = parts->open(); !opened) return opened.error();
  // Before anything is written: quotas of isolated services are counted in units of the machine.
  if (const Status drc = parts->drc->start(); !drc) return drc.error();
  return std::unique_ptr<LocalServer>(new LocalServer(std::move(parts)));
}

Status LocalServer::start() {
  if (const Status tenants = parts_->tenants->start(); !tenants) return tenants;
  if (const Status services = parts_->services->start(); !services) return services;
  // After the first pass, which tells the gateway what there is: a client that comes early must wait, and not hear that its service does not exist.
  parts_->control.post([parts = parts_.get()] { parts->gatewayRunner = files::quietThread("gateway", [parts] { parts->gatewayLoop.run(); }); });
  return {};
}

Status LocalServer::apply(const std::vector<objects::AnyObject>& objects) {
  return applyObjects(objects, *parts_->store, admin::machineFacts(*parts_->adminService), parts_->audit->trail());
}

Result<std::vector<DemoKey>> LocalServer::makeDemoKeys() {
  std::vector<TenantName> tenants;
  for (const auto& [name, tenant] : parts_->tenants->directory().tenants()) tenants.push_back(name);
  return serve::makeDemoKeys(*parts_->keys, tenants, parts_->control.clock().wall(), parts_->audit->trail());
}

std::vector<controller::ServiceSummary> LocalServer::services() const { return parts_->services->summaries(); }
std::size_t LocalServer::servicesStored() const {
  const auto stored = parts_->store->list(std::string(kModelServiceKind), std::nullopt);
  return stored ? stored->objects.size() : 0;
}

std::vector<agent::GroupView> LocalServer::groups() const { return parts_->drc->groups(); }
std::string LocalServer::url() const { return urlOf(parts_->options.address, parts_->gatewayServer->port()); }
std::string LocalServer::adminUrl() const { return urlOf(parts_->options.adminAddress, parts_->metricsServer->port()); }

void LocalServer::requestStop(std::function<void()> stopped) {
  if (std::exchange(parts_->stopping, true)) return;
  Parts* parts = parts_.get();
  const auto workers = [parts, stopped = std::move(stopped)] { parts->services->shutDown([parts, stopped] { parts->control.post(stopped); }); };
  parts->gatewayLoop.post([parts, workers] {
    parts->gateway->drain();
    parts->gatewayServer->drain(parts->options.drainGrace, [parts, workers] {
      parts->audit->handOver();
      parts->control.post([parts] { parts->audit->tell("stop", std::string("coterie ") + kVersion); });
      parts->control.post(workers);
    });
  });
}

}  // namespace coterie::serve
