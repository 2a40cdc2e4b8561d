#include "serve/serve_command.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/unique_fd.h"
#include "cli/context.h"
#include "cli/manifests.h"
#include "http/asio_loop.h"
#include "linux/stop_signals.h"
#include "onnx/default_library.h"
#include "serve/choose_actuator.h"
#include "serve/local_server.h"
#include "serve/options.h"
#include "serve/startup_view.h"
#include "tenancy/authentication_limits.h"

namespace coterie::serve {

namespace {

// As the parser fills them in.
struct Flags {
  std::vector<std::string> manifests;
  std::string models;
  std::string address{"127.0.0.1"};
  std::int64_t port{8080};
  std::string adminAddress{"127.0.0.1"};
  std::int64_t adminPort{8081};
  bool metricsNeedKey{false};
  bool allowNonLoopback{false};
  bool demoKeys{false};
  std::string runtime;
  std::string reserved;
  std::string actuator{"auto"};
  std::string cacheClasses{"auto"};
  std::int64_t authFailures{ServeOptions{}.authFailures};
  std::int64_t authFailuresPerSecond{ServeOptions{}.authFailuresPerSecond};
  std::int64_t drainSeconds{20};
  std::string record;
  std::string accessLog;
  std::int64_t recordMegabytes{1024};
  std::int64_t auditMegabytes{256};
  std::string logLevel{"warning"};
  bool quiet{false};
  bool noSandbox{false};
};

// Without it every worker would start, fail and wait for its next try.
Status checkRuntime(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return Error{Code::NotFound, "OnnxRuntimeNotFound",
                 "--onnxruntime: " + path + " " + why + "; run ./dev setup, or name ONNX Runtime's shared library (libonnxruntime.so)"};
  };
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return refuse(std::string("cannot be opened: ") + std::strerror(errno));
  std::array<char, SELFMAG> magic{};
  const bool read = ::read(file.get(), magic.data(), magic.size()) == static_cast<ssize_t>(magic.size());
  if (!read || std::string_view(magic.data(), magic.size()) != ELFMAG) return refuse("is no shared library");
  return {};
}

Result<ServeOptions> optionsOf(const Flags& flags, const std::string& state) {
  ServeOptions options;
  options.state = state;
  options.models = flags.models.empty() ? state + "/models" : flags.models;
  std::error_code fault;
  const auto kind = std::filesystem::status(options.models, fault).type();
  if (!flags.models.empty() && kind != std::filesystem::file_type::directory) {
    const char* what = kind == std::filesystem::file_type::not_found ? " does not exist" : " is no folder that can be read";
    return Error{Code::InvalidArgument, "BadOption",
                 "--models: " + flags.models + what + "; name the folder that holds a folder of models per tenant"};
  }
  options.manifests = flags.manifests;
  options.demoKeys = flags.demoKeys;
  for (const auto& [name, port] : {std::pair<const char*, std::int64_t>{"--port", flags.port}, {"--admin-port", flags.adminPort}}) {
    if (port < 0 || port > 65535) return Error{Code::InvalidArgument, "BadOption", std::string(name) + ": 0 to 65535 is wanted"};
  }
  options.address = flags.address;
  options.port = static_cast<std::uint16_t>(flags.port);
  options.adminAddress = flags.adminAddress;
  options.adminPort = static_cast<std::uint16_t>(flags.adminPort);
  options.metricsNeedKey = flags.metricsNeedKey;
  options.allowNonLoopback = flags.allowNonLoopback;
  options.runtime = flags.runtime.empty() ? onnx::defaultLibrary() : flags.runtime;
  if (const Status usable = checkRuntime(options.runtime); !usable) return usable.error();
  if (!flags.reserved.empty()) {
    auto reserved = CpuSet::parse(flags.reserved);
    if (!reserved) return Error{Code::InvalidArgument, "BadOption", "--reserved-cpus: " + reserved.error().message};
    options.reserved = std::move(reserved).value();
  }
  for (const Actuator actuator : {Actuator::Auto, Actuator::Affinity, Actuator::CgroupV1, Actuator::CgroupV2}) {
    if (flags.actuator == actuatorName(actuator)) options.actuator = actuator;
  }
  for (const CacheClassMode mode : {CacheClassMode::Auto, CacheClassMode::All, CacheClassMode::Off}) {
    if (flags.cacheClasses == cacheClassModeName(mode)) options.cacheClasses = mode;
  }
  if (flags.drainSeconds < 0 || flags.drainSeconds > 3600) return Error{Code::InvalidArgument, "BadOption", "--drain-seconds: 0 to 3600 is wanted"};
  options.drainGrace = Seconds(flags.drainSeconds);
  constexpr std::int64_t kMost = tenancy::AuthenticationLimitOptions::kMost;
  if (flags.authFailures < 0 || flags.authFailures > kMost)
    return Error{Code::InvalidArgument, "BadOption", "--auth-failures: 0 (no limit) to 1000000 is wanted"};
  if (flags.authFailuresPerSecond < 1 || flags.authFailuresPerSecond > kMost)
    return Error{Code::InvalidArgument, "BadOption", "--auth-failures-per-second: 1 to 1000000 is wanted; for no limit, --auth-failures 0"};
  options.authFailures = flags.authFailures;
  options.authFailuresPerSecond = flags.authFailuresPerSecond;
  options.record = flags.record;
  options.accessLog = flags.accessLog;
  if (flags.recordMegabytes < 1 || flags.recordMegabytes > (1 << 20))
    return Error{Code::InvalidArgument, "BadOption", "--record-megabytes: 1 to 1048576 is wanted"};
  options.recordLimit = Bytes(flags.recordMegabytes << 20);
  if (flags.auditMegabytes < 1 || flags.auditMegabytes > (1 << 20))
    return Error{Code::InvalidArgument, "BadOption", "--audit-megabytes: 1 to 1048576 is wanted"};
  options.auditLimit = Bytes(flags.auditMegabytes << 20);
  options.sandbox = !flags.noSandbox;
  options.quiet = flags.quiet;
  return options;
}

log::Level levelOf(const std::string& name) {
  return name == "debug" ? log::Level::Debug : name == "info" ? log::Level::Info : name == "error" ? log::Level::Error : log::Level::Warning;
}

// A core dump would hold the keys of requests under way and the pepper. The workers set their own limit (process/sandbox.cc).
Status forbidCoreDumps() {
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_CORE, &none) == 0) return {};
  return Error{Code::Internal, "CoreLimit", std::string("core dumps cannot be switched off (RLIMIT_CORE): ") + std::strerror(errno)};
}

// One run of the server; the control loop is this thread.
class ServeRun {
 public:
  ServeRun(cli::Context& context, ServeOptions options, std::vector<objects::AnyObject> objects)
      : context_(context),
        options_(std::move(options)),
        objects_(std::move(objects)),
        view_(stdout, {context.terminal.interactive, context.terminal.colors, options_.quiet}),
        began_(loop_.clock().now()) {}

  int run();

 private:
  [[nodiscard]] Status begin();
  void look();
  void stop();

  cli::Context& context_;
  ServeOptions options_;
  std::vector<objects::AnyObject> objects_;
  http::AsioLoop loop_;
  StartupView view_;
  Instant began_;
  std::unique_ptr<LocalServer> server_;
  std::vector<DemoKey> keys_;
  std::optional<linux::StopSignals> signals_;
  TimerHandle lookTimer_;
  int stopRequests_{0};
};

Status ServeRun::begin() {
  auto server = LocalServer::create(loop_, options_);
  if (!server) return server.error();
  server_ = std::move(server).value();
  if (const Status applied = server_->apply(objects_); !applied) return applied;
  if (const Status started = server_->start(); !started) return started;
  if (!options_.demoKeys) return {};
  auto keys = server_->makeDemoKeys();
  if (!keys) return keys.error();
  keys_ = std::move(keys).value();
  return {};
}

void ServeRun::look() {
  const auto services = server_->services();
  if (!view_.update(services) || services.size() < server_->servicesStored()) {
    lookTimer_ = loop_.after(Millis(50), [this] { look(); });
    return;
  }
  Examples examples;
  for (const auto& path : options_.manifests) {
    if (std::filesystem::is_directory(path)) examples.folders.push_back(path);
  }
  view_.ready(server_->services(), server_->groups(), server_->url(), options_.state, keys_, examples, loop_.clock().now() - began_);
}

// The first signal drains, a second one ends at once.
void ServeRun::stop() {
  if (++stopRequests_ > 1) return loop_.stop();
  lookTimer_.reset();
  if (!options_.quiet) std::fprintf(stdout, "\nending: requests under way finish first (again: at once)\n");
  std::fflush(stdout);
  server_->requestStop([this] { loop_.stop(); });
}

int ServeRun::run() {
  signals_.emplace(loop_, [this] { stop(); });
  if (const Status begun = begin(); !begun) return context_.fail(begun.error());
  if (!options_.quiet)
    std::fprintf(stdout, "coterie: gateway %s, metrics %s/metrics, state %s\n", server_->url().c_str(), server_->adminUrl().c_str(),
                 options_.state.c_str());
  look();
  loop_.run();
  server_.reset();
  return cli::kOk;
}

int serve(cli::Context& context, const Flags& flags) {
  log::setLevel(levelOf(flags.logLevel));
  if (const Status none = forbidCoreDumps(); !none) return context.fail(none.error());
  auto options = optionsOf(flags, context.stateFolder);
  if (!options) return context.usage(options.error().message);
  cli::Manifests manifests;
  if (!flags.manifests.empty()) manifests = cli::readManifests(context, flags.manifests, "");
  if (!manifests.faults.empty()) {
    for (const auto& fault : manifests.faults) std::fprintf(stderr, "coterie: %s\n", fault.c_str());
    return cli::kUsage;
  }
  return ServeRun(context, std::move(options).value(), std::move(manifests.objects)).run();
}

}  // namespace

cli::Command serveCommand() {
  const auto flags = std::make_shared<Flags>();  // shared by the parser, which fills it, and the run
  return {
      "serve",
      "Server",
      "Serve models on this machine: store, gateway, workers, resource controller in one process",
      "coterie serve --models ./models -f ./objects",
      {
          {"-f,--filename", "manifests applied at the start: file or folder; may be repeated", &flags->manifests, {}, cli::Names::Files},
          {"--models", "model roots: tenant T's models lie below DIR/T (default: STATE/models)", &flags->models, {}, cli::Names::Files},
          {"--address", "address of the gateway", &flags->address},
          {"--port", "port of the gateway; 0: any free one", &flags->port},
          {"--admin-address", "address of /metrics, /healthz, /readyz", &flags->adminAddress},
          {"--admin-port", "its port; 0: any free one", &flags->adminPort},
          {"--metrics-need-key", "/metrics asks for a key also on loopback; on other addresses it always does", &flags->metricsNeedKey},
          {"--allow-non-loopback", "clear text may leave this machine", &flags->allowNonLoopback},
          {"--demo-keys", "make and show a key per tenant, named quickstart", &flags->demoKeys},
          {"--onnxruntime", "ONNX Runtime's shared library (default: the one that ./dev setup fetched)", &flags->runtime, {}, cli::Names::Files},
          {"--reserved-cpus", "CPUs for Coterie itself, e.g. 0-1 (default: none below 8 CPUs)", &flags->reserved},
          {"--actuator",
           "how CPU sets are enforced; auto: cgroup v2 where it may be used, else v1, else affinity",
           &flags->actuator,
           {"auto", "affinity", "cgroup-v1", "cgroup-v2"}},
          {"--cache-classes",
           "ways of the last-level caches for tenants, where the kernel has them (resctrl); auto: those with an isolated service",
           &flags->cacheClasses,
           {"auto", "all", "off"}},
          {"--access-log",
           "a file for a line of JSON about each answered inference request: who, which service, status, bytes, times; made anew where it was moved "
           "away",
           &flags->accessLog,
           {},
           cli::Names::Files},
          {"--auth-failures", "bad keys that one source address may show at once before its keys are not looked at any more (429); 0: no limit",
           &flags->authFailures},
          {"--auth-failures-per-second", "and per second after that", &flags->authFailuresPerSecond},
          {"--drain-seconds", "how long requests under way may take at the end", &flags->drainSeconds},
          {"--record",
           "a new file for every decision about whose request runs next, for `coterie replay`: names, sizes and times, nothing of what is in them",
           &flags->record,
           {},
           cli::Names::Files},
          {"--record-megabytes", "recording ends when its file is as large", &flags->recordMegabytes},
          {"--audit-megabytes", "of the audit log (`coterie audit`); its oldest lines go when it is as large", &flags->auditMegabytes},
          {"--log-level", "least level of log lines on standard error", &flags->logLevel, {"debug", "info", "warning", "error"}},
          {"--no-sandbox", "run workers without their sandbox: for debuggers only", &flags->noSandbox},
          {"-q,--quiet", "no progress and no table", &flags->quiet},
      },
      {},
      [flags](cli::Context& context) { return serve(context, *flags); }};
}

}  // namespace coterie::serve
