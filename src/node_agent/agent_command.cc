#include "node_agent/agent_command.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "agent/realtime_applier.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "cli/context.h"
#include "cli/manifests.h"
#include "cli/table.h"
#include "http/asio_loop.h"
#include "linux/cgroup_meter.h"
#include "linux/cpu_rivals.h"
#include "linux/enforcer_lock.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/foreign_controller.h"
#include "linux/live_machine.h"
#include "linux/proc_processes.h"
#include "linux/resctrl.h"
#include "linux/set_limits.h"
#include "linux/stop_signals.h"
#include "node_agent/agent_doors.h"
#include "node_agent/agent_file.h"
#include "node_agent/agent_metrics.h"
#include "node_agent/config_watch.h"
#include "node_agent/hint_sender.h"
#include "node_agent/hook_caller.h"
#include "node_agent/kubelet_policy.h"
#include "node_agent/node_agent.h"
#include "text/text.h"

namespace coterie::node_agent {

namespace {

constexpr std::int64_t kNoPort = std::numeric_limits<std::int64_t>::min();  // nobody says so
// In the state folder.
constexpr const char* kJournal = "/agent-found";
constexpr const char* kLock = "/agent.lock";

// As the parser fills them in.
struct Flags {
  std::string config;
  std::string mode;
  bool once{false};
  std::int64_t window{10};
  std::string output{"table"};
  std::string logLevel{"warning"};
  std::string metricsAddress{"127.0.0.1"};
  std::int64_t metricsPort{kNoPort};
};

log::Level levelOf(const std::string& name) {
  return name == "debug" ? log::Level::Debug : name == "info" ? log::Level::Info : name == "error" ? log::Level::Error : log::Level::Warning;
}

// "agent.yaml:4: groups[0].floor: unknown field", one for each.
std::vector<std::string> faultLines(const std::string& path, const Faults& faults) {
  std::vector<std::string> lines;
  for (const Fault& fault : faults) lines.push_back(cli::printable(path + ":" + (fault.line > 0 ? "" : " ") + faultText(fault)));
  return lines;
}

// One enforcing agent per state folder: a second one would take the first one's sets for those of a dead run.
Result<UniqueFd> lockState(const std::string& folder) {
  static_cast<void>(linux::makePrivateFolder(folder));  // what is wrong is said of the file
  UniqueFd lock(::open((folder + kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock)
    return Error{Code::PermissionDenied, "StateUnwritable",
                 "cannot open " + folder + kLock + ": " + std::strerror(errno) + "; name a folder with --state"};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return Error{Code::Unavailable, "AgentRunning", "another coterie agent enforces with the state folder " + folder};
  return Result<UniqueFd>(std::move(lock));
}

// Whoever only observes gives nothing back.
void warnOfDeadRun(const std::string& folder) {
  std::error_code fault;
  if (!std::filesystem::exists(folder + kJournal, fault) || !lockState(folder)) return;
  log::warning("agent",
               "an agent that enforced was killed, and what it set is still in force: start one with --mode enforce to have it given back; what is "
               "foretold here starts from that");
}

// One run of the agent; the control loop is this thread.
class AgentRun {
 public:
  AgentRun(cli::Context& context, const Flags& flags, AgentFile file, std::optional<ConfigWatch> config)
      : context_(context), flags_(flags), file_(std::move(file)), config_(std::move(config)) {}
  int run();

 private:
  [[nodiscard]] Status begin();
  [[nodiscard]] Result<std::optional<Millis>> claimMachine();
  [[nodiscard]] Result<NodeAgent::Actuators> openActuators(const AgentFile& file);
  [[nodiscard]] Status openDoors();
  [[nodiscard]] std::string socketPath() const { return context_.stateFolder + "/" + std::string(cli::kAgentSocket); }
  void openSocket();
  void keepState();
  void hangUp();
  void take(const Result<std::string>& yaml);
  void look();
  void show();
  void stop();

  cli::Context& context_;
  const Flags& flags_;
  AgentFile file_;                     // as the run began
  std::optional<ConfigWatch> config_;  // none: it cannot be read again
  linux::LiveMachine machine_;         // before anything is placed
  http::AsioLoop loop_;
  linux::ProcProcesses processes_{loop_.clock(), [](std::string_view path) { return !foreign::containerOf(path).id.empty(); }};
  linux::CgroupMeter meter_;
  KubeletPolicy kubelet_;
  std::optional<linux::EnforcerClaim> claim_;
  UniqueFd lock_;
  std::unique_ptr<linux::ForeignController> controller_;
  std::unique_ptr<CacheClasses> cacheClasses_;
  std::unique_ptr<agent::RealtimeApplier> applier_;
  std::unique_ptr<HookCaller> hooks_;  // where somebody has a hook; a thread: made when signals are blocked
  std::unique_ptr<NodeAgent> agent_;
  AgentMetrics metrics_;
  std::unique_ptr<AgentDoors> doors_;
  std::optional<linux::StopSignals> signals_;
  TimerHandle lookTimer_;
  int seen_{-1};   // changes
  int shown_{-1};  // those that the last report had
  Instant lastChange_{};
  Instant firstChange_{};  // since the last report
  bool socketOpen_{false};
  bool stopping_{false};
};

Result<std::optional<Millis>> AgentRun::claimMachine() {
  if (!claim_) claim_.emplace();
  return claim_->look(loop_.clock().now());
}

// The machine has been claimed.
Result<NodeAgent::Actuators> AgentRun::openActuators(const AgentFile& file) {
  auto locked = lock_ ? Result<UniqueFd>(std::move(lock_)) : lockState(context_.stateFolder);  // going on in another way, it has it
  if (!locked) return locked.error();
  const auto shape = machine_.read();
  if (!shape) return shape.error();
  if (!applier_) {
    auto applier = agent::RealtimeApplier::create(loop_, {linux::executeWrite});
    if (!applier) return applier.error();
    applier_ = std::move(applier).value();
    log::info("agent", applier_->policyText());
  }
  controller_ = std::make_unique<linux::ForeignController>(
      shape->allowed,
      [this](InstanceId id) {
        linux::ForeignPlace place;
        const foreign::FoundContainer* member = agent_->member(id);
        if (member == nullptr) return place;
        place.cgroup = member->name.cgroup;
        for (const SeenProcess& process : member->processes) place.processes.push_back(process.pid);
        return place;
      },
      context_.stateFolder + kJournal, file.keepsMemoryNodes ? linux::ForeignNodes::Keep : linux::ForeignNodes::Follow);
  for (const std::string& caveat : controller_->traits().caveats) log::info("agent", caveat);
  if (const std::string rivals = linux::cpuRivals(::getpid()); !rivals.empty())
    log::warning("agent", "running here, too: " + rivals +
                              "; where two set the same process's CPUs, neither keeps what it gives, and the one that ends "
                              "last gives back what the other had set");
  if (::geteuid() != 0) log::warning("agent", "not root: only processes of this user can be given CPU sets");
  lock_ = std::move(locked).value();
  if (!cacheClasses_) cacheClasses_ = linux::Resctrl::create();
  return NodeAgent::Actuators{controller_.get(), applier_.get(), cacheClasses_.get()};
}

Status AgentRun::begin() {
  NodeAgent::Ports ports{loop_, processes_, machine_};
  ports.meter = &meter_;
  ports.claimMachine = [this] { return claimMachine(); };
  ports.openActuators = [this](const AgentFile& file) { return openActuators(file); };
  ports.closeActuators = [this] { claim_.reset(), lock_.reset(); };  // the rest may still be at a write that hangs
  ports.heldBy = [this](InstanceId id) { return controller_->heldBy(id); };
  ports.rivals = [] { return linux::cpuRivals(::getpid()); };
  ports.limitAbove = [](const foreign::FoundContainer& one, const CpuSet& cpus) { return linux::limitAbove(one.pid(), one.name.cgroup, cpus); };
  ports.kubeletIsStatic = [this](const std::string& state) { return kubelet_.isStatic(state); };
  ports.sendHint = [this](const HintSpec& spec, const foreign::FoundContainer& container, const ThreadHint& hint) {
    const auto url = spec.http.empty() ? std::nullopt : parseHookUrl(filledIn(spec.http, container));
    if (url && !hooks_) hooks_ = std::make_unique<HookCaller>();
    if (url) hooks_->call({container.key, *url, hookText(container, hint)});
    return sendHint(spec, container, hint);
  };
  NodeAgentConfig config;
  config.self = ::getpid();
  config.window = Seconds(flags_.window);
  config.file = file_;
  if (file_.mode == Mode::Enforce) {
    auto claim = linux::lockEnforcing();  // no loop runs yet that would be held up
    if (!claim) return claim.error();
    claim_ = std::move(claim).value();
  } else {
    warnOfDeadRun(context_.stateFolder);
  }
  agent_ = std::make_unique<NodeAgent>(std::move(ports), std::move(config));
  return agent_->start();
}

// Whoever asks for one report needs nobody to ask for more. Without its socket the agent does its work all the same.
Status AgentRun::openDoors() {
  if (flags_.once) return {};
  doors_ = std::make_unique<AgentDoors>([this] { return reportValue(agent_->report()); },
                                        [this] { return metrics_.scrape(agent_->report(), agent_->controllerView(), agent_->controllerGroups()); });
  openSocket();
  if (flags_.metricsPort == kNoPort) return {};
  const Status opened = doors_->openMetrics(loop_, flags_.metricsAddress, static_cast<std::uint16_t>(flags_.metricsPort));
  if (opened.ok()) log::info("agent", "metrics on port " + std::to_string(doors_->metricsPort()));
  return opened;
}

void AgentRun::openSocket() {
  static_cast<void>(linux::makePrivateFolder(context_.stateFolder));  // what is wrong is said of the socket
  const Status opened = doors_->openSocket(loop_, socketPath());
  socketOpen_ = opened.ok();
  if (opened.ok()) return;
  const bool others = opened.error().reason == "AddressInUse" && std::filesystem::is_socket(socketPath());
  log::warning("agent", others ? "another agent runs with the state folder " + context_.stateFolder +
                                     ": `coterie top --node` shows that one, and not this; run this one with a --state of its own"
                               : "`coterie top --node` will not find this agent: " + opened.error().message);
}

// Whoever removed the state folder took the lock and the socket with it: they are put back (the journal is the controller's).
void AgentRun::keepState() {
  if (!socketOpen_ || ::access(socketPath().c_str(), F_OK) == 0) return;
  openSocket();
  if (!socketOpen_) return;
  log::warning("agent", socketPath() + " was removed while this agent runs: it is made anew");
  if (!lock_ || ::access((context_.stateFolder + kLock).c_str(), F_OK) == 0) return;
  if (auto locked = lockState(context_.stateFolder)) lock_ = std::move(locked).value();
}

// A report follows a change when the figures are of the time since then; where changes do not end, after three such times all the same.
void AgentRun::look() {
  constexpr Millis kPause{250};
  constexpr int kMostWindows = 3;
  const Instant now = loop_.clock().now();
  if (agent_->changes() != seen_) {
    if (seen_ == shown_) firstChange_ = now;
    seen_ = agent_->changes();
    lastChange_ = now;
  }
  const Nanos window = Seconds(flags_.window);
  if (seen_ != shown_ && (now - lastChange_ >= window || now - firstChange_ >= kMostWindows * window)) {
    shown_ = seen_;
    show();
    if (flags_.once) return stop();
  }
  keepState();
  if (config_) {
    if (const auto yaml = config_->look()) take(*yaml);
  }
  lookTimer_ = loop_.after(kPause, [this] { look(); });
}

void AgentRun::hangUp() {
  if (stopping_) return;
  if (config_) return take(config_->readAgain());
  log::warning("agent", "SIGHUP: " + flags_.config + " is no file that can be read again; start the agent anew to change its configuration");
}

// What the file says now: all of it is put in force, or nothing.
void AgentRun::take(const Result<std::string>& yaml) {
  if (!yaml) return agent_->refuseConfiguration({yaml.error().message});
  ReadAgentFile read = readAgentFile(*yaml);
  if (!read.faults.empty()) return agent_->refuseConfiguration(faultLines(flags_.config, read.faults));
  if (!flags_.mode.empty()) {
    const Mode mode = agent_->configuration().mode;
    if (read.file.mode != mode) log::info("agent", "the mode stays " + std::string(modeName(mode)) + ", as --mode says");
    read.file.mode = mode;
  }
  agent_->reconfigure(std::move(read.file));
}

void AgentRun::show() {
  const AgentReport report = agent_->report();
  std::ostream& out = context_.terminal.out;
  if (flags_.output == "json") {
    out << text::printJson(reportValue(report)) << "\n";
  } else {
    out << reportText(report, context_.terminal.colors) << "\n";
  }
  out.flush();
}

void AgentRun::stop() {
  if (std::exchange(stopping_, true)) return;
  lookTimer_.reset();
  agent_->stop([this] { loop_.stop(); });
}

int AgentRun::run() {
  signals_.emplace(loop_, [this] { stop(); }, [this] { hangUp(); });
  if (const Status begun = begin(); !begun) return context_.fail(begun.error());
  if (const Status opened = openDoors(); !opened) {
    agent_->stop([this] { loop_.stop(); });  // what was set is given back
    loop_.run();
    return context_.fail(opened.error());
  }
  look();
  loop_.run();
  doors_.reset();
  agent_.reset();
  return cli::kOk;
}

int runAgent(cli::Context& context, const Flags& flags) {
  log::setLevel(levelOf(flags.logLevel));
  linux::allowManyFiles();  // some are kept for each container
  if (flags.metricsPort != kNoPort && (flags.metricsPort < 0 || flags.metricsPort > 65535))
    return context.usage("--metrics-port: 0 to 65535 are wanted");
  if (flags.window < 1 || flags.window > 3600) return context.usage("--window: 1 to 3600 seconds are wanted");
  const auto yaml = cli::readInput(context, flags.config);
  if (!yaml) return context.fail(yaml.error());
  ReadAgentFile read = readAgentFile(*yaml);
  if (!read.faults.empty()) {
    for (const std::string& line : faultLines(flags.config, read.faults)) context.terminal.err << "coterie: " << line << "\n";
    return cli::kFailed;
  }
  if (!flags.mode.empty()) read.file.mode = flags.mode == "enforce" ? Mode::Enforce : Mode::Observe;
  std::optional<ConfigWatch> watch;
  if (ConfigWatch::canBeReadAgain(flags.config)) watch.emplace(flags.config, *yaml);
  return AgentRun(context, flags, std::move(read.file), std::move(watch)).run();
}

}  // namespace

void holdHangUpsOfAgent(int argc, const char* const* argv) {
  int at = 1;
  while (at < argc && argv[at][0] == '-') at += std::string_view(argv[at]) == "--state" ? 2 : 1;
  if (at < argc && std::string_view(argv[at]) == "agent") linux::holdHangUps();
}

cli::Command agentCommand() {
  const auto flags = std::make_shared<Flags>();  // shared by the parser, which fills it, and the run
  return {"agent",
          "Server",
          "Give other people's model servers on this machine their CPUs: observe (what would it do, what would it gain) or enforce",
          "coterie agent --config examples/thread-hint/agent.yaml --once",
          {
              {"--config", "YAML file of groups, or - for standard input", &flags->config, {}, cli::Names::Files, true},
              {"--mode", "in place of the file's", &flags->mode, {"observe", "enforce"}},
              {"--once", "end after the first report", &flags->once},
              {"--window", "seconds that the figures of a report are of", &flags->window},
              {"-o,--output", "form of the reports; json: a line each", &flags->output, {"table", "json"}},
              {"--metrics-port", "of /metrics, /healthz and /readyz for Prometheus; 0: any free one; left out: none", &flags->metricsPort},
              {"--metrics-address", "of the same; an address of this machine's loopback", &flags->metricsAddress},
              {"--log-level", "least level of log lines on standard error", &flags->logLevel, {"debug", "info", "warning", "error"}},
          },
          {},
          [flags](cli::Context& context) { return runAgent(context, *flags); }};
}

}  // namespace coterie::node_agent
