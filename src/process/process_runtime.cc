#include "process/process_runtime.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "base/log.h"
#include "channel/seqpacket.h"
#include "process/prepared_file.h"

namespace coterie::process {

using channel::ControlKind;

struct ProcessRuntime::Instance {
  InstanceSpec spec;
  State state{State::Launching};
  Child child;
  WorkerCgroup memory;
  WorkerCgroup threads;
  UniqueFd preparing;                                 // what it writes, until it is sealed
  std::optional<channel::InstanceEndpoint> endpoint;  // until it is taken
  std::vector<std::string> missingSandbox;
  std::optional<InstanceEnd> verdict;  // decided before the process was gone
  std::string errorTail;               // the last it wrote to standard error
  TimerHandle controlWatch;
  TimerHandle exitWatch;
  TimerHandle errorWatch;
  TimerHandle startTimer;
  TimerHandle exitCheck;
  std::optional<InstanceEnd> unlessItSaid;  // the end's reason if it gave none itself
  TimerHandle stopTimer;
  TimerHandle memoryTimer;
  bool stopped{false};   // by a signal
  std::string idleness;  // the gateway's reason to call it silent
  int silentLooks{0};
  [[nodiscard]] std::string silence() const { return stopped ? "a signal has stopped it (SIGCONT lets it go on)" : idleness; }
};

namespace {

constexpr std::size_t kErrorTail = 1024;
constexpr Millis kExitCheck{50};
constexpr std::int64_t kLargestPrepared = (2LL << 30) - 1;  // as ONNX Runtime's format
constexpr std::int64_t kRuntimeData = 64LL << 20;           // RLIMIT_DATA beyond the limit: stacks and what is reserved but never touched

// Of a run of the widest that it serves or measures.
int mostThreads(const InstanceSpec& spec) {
  return spec.measureWidths.empty() ? spec.width : std::max(spec.width, *std::max_element(spec.measureWidths.begin(), spec.measureWidths.end()));
}

std::string fileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

EndReason reasonOf(const Error& error) {
  if (error.reason == "OutOfMemory") return EndReason::OutOfMemory;
  if (error.reason == "SandboxFailed" || error.reason == "NoWorker" || error.reason == "NoRuntime" || error.reason == "NoThread")
    return EndReason::SpawnFailed;
  return EndReason::LoadFailed;
}

}  // namespace

ProcessRuntime::ProcessRuntime(EventLoop& loop, ProcessOptions options)
    : loop_(loop), options_(std::move(options)), buffer_(channel::kMaxControlMessage), alive_(std::make_shared<bool>(true)) {
  if (options_.worker.empty()) {
    std::array<char, 4096> path{};
    const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
    options_.worker = length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "/proc/self/exe";
  }
  sweepLeftovers(CgroupKind::Memory);
  sweepLeftovers(CgroupKind::Pids);
}

ProcessRuntime::~ProcessRuntime() {
  *alive_ = false;
  for (auto& [id, instance] : instances_) kill(instance->child.process);
  for (auto& [id, instance] : instances_) (void)reap(instance->child.pid);
}

Status ProcessRuntime::setRequestArena(const ServiceName& service, int fd, std::uint64_t size) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) return Error{Code::Unavailable, "NoDescriptor", std::strerror(errno)};
  arenas_[service] = {std::move(copy), size};
  return {};
}

Status ProcessRuntime::start(const InstanceSpec& spec) {
  const auto arena = arenas_.find(spec.service);
  if (arena == arenas_.end()) return Error{Code::NotFound, "NoRequestArena", "the service has no request arena yet"};
  if (instances_.contains(spec.id) || !spec.id.valid()) return Error{Code::Conflict, "AlreadyExists", "there is an instance with this id"};
  if (spec.prepare && spec.prepared) return Error{Code::InvalidArgument, "BadInstance", "what is prepared is not prepared again"};
  if (spec.ownLanes < 1 || spec.loanLanes < 0 || spec.ownLanes + spec.loanLanes > 4096 || mostThreads(spec) < 1) {
    return Error{Code::InvalidArgument, "BadInstance", "an instance has 1 to 4096 lanes, at least one of its own"};
  }
  auto instance = std::make_shared<Instance>();
  instance->spec = spec;
  if (Status s = launchChild(*instance, arena->second.fd.get(), arena->second.size); !s.ok()) return s;
  Instance& started = *instance;
  instances_[spec.id] = std::move(instance);
  watch(started);
  return {};
}

Status ProcessRuntime::launchChild(Instance& instance, int requestArena, std::uint64_t requestBytes) {
  const InstanceSpec& spec = instance.spec;
  channel::InstanceEndpoint endpoint;
  endpoint.id = spec.id;
  const Bytes cell = spec.largestAnswer.value > 0 ? spec.largestAnswer : options_.largestAnswer;
  auto answers = channel::ResponseArena::create(spec.ownLanes + spec.loanLanes, cell);
  if (!answers.ok()) return answers.error();
  endpoint.answers = std::make_shared<channel::ResponseArena>(std::move(answers).value());
  auto signals = channel::seqpacketPair();
  if (!signals.ok()) return signals.error();
  endpoint.signals = std::move(signals->first);
  std::vector<UniqueFd> workerEnds;
  workerEnds.push_back(std::move(signals->second));
  for (int i = 0; i < spec.ownLanes + spec.loanLanes; ++i) {
    auto lane = channel::seqpacketPair();
    if (!lane.ok()) return lane.error();
    (i < spec.ownLanes ? endpoint.ownLanes : endpoint.loanLanes).push_back(std::move(lane->first));
    workerEnds.push_back(std::move(lane->second));
  }
  instance.endpoint = std::move(endpoint);
  if (spec.prepare) {
    auto file = PreparedFile::create();
    if (!file.ok()) return file.error();
    instance.preparing = std::move(file).value();
  }

  auto child = spawn(options_.launcher, options_.launcherArguments);
  if (!child.ok()) return child.error();
  instance.child = std::move(child).value();
  instance.endpoint->pid = instance.child.pid;
  instance.endpoint->width = spec.width;
  // A launcher that went before it took everything has said why (a model that is not there): its end tells that, else this.
  if (Status s = sendSetup(instance, requestArena, requestBytes, workerEnds); !s.ok()) {
    instance.unlessItSaid = InstanceEnd{EndReason::SpawnFailed, s.error().message};
    kill(instance.child.process);
  }
  return {};
}

// Before the launcher is told anything: it waits for its first message inside the groups.
void ProcessRuntime::limitChild(Instance& instance) {
  const InstanceSpec& spec = instance.spec;
  const std::string name = std::to_string(::getpid()) + "-" + std::to_string(instance.child.pid);
  if (spec.memoryLimit.value > 0) {
    auto memory = WorkerCgroup::create(CgroupKind::Memory, name, spec.memoryLimit.value);
    if (memory.ok() && memory->attach(instance.child.pid).ok()) instance.memory = std::move(memory).value();
  }
  auto threads = WorkerCgroup::create(CgroupKind::Pids, name, spec.ownLanes + spec.loanLanes + mostThreads(spec) + 8);
  if (threads.ok() && threads->attach(instance.child.pid).ok()) instance.threads = std::move(threads).value();
}

Status ProcessRuntime::sendSetup(Instance& instance, int requestArena, std::uint64_t requestBytes, const std::vector<UniqueFd>& workerEnds) {
  const InstanceSpec& spec = instance.spec;
  limitChild(instance);
  const int lanes = spec.ownLanes + spec.loanLanes;
  channel::LaunchMessage launch;
  launch.workerPath = options_.worker;
  launch.workerArguments = options_.workerArguments;
  launch.modelPath = spec.modelPath;
  launch.modelRoot = spec.modelRoot;
  launch.runtimePath = options_.runtimeLibrary;
  launch.parent = ::getpid();
  launch.uid = ::geteuid() == 0 ? spec.uid : 0;
  if (!instance.memory.valid() && spec.memoryLimit.value > 0) launch.dataLimit = spec.memoryLimit.value + kRuntimeData + lanes * (4LL << 20);
  // The count is per user: generous where other processes share it and the pids group does the work.
  launch.threadLimit = instance.threads.valid() ? 16384 : ::geteuid() == 0 ? 4096 : lanes + mostThreads(spec) + 16;
  launch.fileLimit = lanes * 2 + 128;
  launch.sandbox = options_.sandbox;
  launch.network = true;
  if (spec.prepare) launch.writeLimit = spec.memoryLimit.value > 0 ? std::min(spec.memoryLimit.value, kLargestPrepared) : kLargestPrepared;
  if (!channel::send(instance.child.control.get(), encode(launch), channel::Wait::No)) {
    return Error{Code::Unavailable, "SpawnFailed", "the launcher does not take its instructions"};
  }

  channel::SetupMessage setup;
  setup.modelName = fileName(spec.modelPath);
  setup.sha256 = spec.sha256;
  setup.ownLanes = spec.ownLanes;
  setup.loanLanes = spec.loanLanes;
  setup.width = spec.width;
  setup.spin = spec.spin;
  setup.requestBytes = requestBytes;
  setup.responseBytes = instance.endpoint->answers->size();
  setup.memoryLimit = static_cast<std::uint64_t>(spec.memoryLimit.value);
  setup.probe = spec.probe;
  setup.measureWidths.assign(spec.measureWidths.begin(), spec.measureWidths.end());
  setup.measureNanos = Nanos(spec.measureTime).count();
  const auto* prepared = dynamic_cast<const PreparedFile*>(spec.prepared.get());  // one that this runtime gave out
  setup.prepare = spec.prepare;
  setup.judge = spec.judge;
  setup.preparedBytes = prepared == nullptr ? 0 : static_cast<std::uint64_t>(prepared->size().value);
  std::vector<int> fds{workerEnds[0].get(), requestArena, instance.endpoint->answers->fd()};
  if (setup.bringsMemoryFile()) fds.push_back(prepared == nullptr ? instance.preparing.get() : prepared->fd());
  for (std::size_t i = 1; i < workerEnds.size(); ++i) fds.push_back(workerEnds[i].get());
  std::vector<std::byte> message = encode(setup);
  for (std::size_t sent = 0; sent < fds.size();) {
    const std::size_t count = std::min(channel::kMaxFdsPerMessage, fds.size() - sent);
    if (!channel::sendWithFds(instance.child.control.get(), message, std::span(fds).subspan(sent, count), channel::Wait::No)) {
      return Error{Code::Unavailable, "SpawnFailed", "the launcher does not take its lanes"};
    }
    sent += count;
    message = channel::encodePlain(ControlKind::MoreLanes);
  }
  return {};
}

void ProcessRuntime::watch(Instance& instance) {
  Instance* raw = &instance;
  instance.controlWatch = loop_.whenReadable(instance.child.control.get(), [this, raw] { onControl(*raw); });
  instance.exitWatch = loop_.whenReadable(instance.child.process.get(), [this, raw] { onExit(*raw); });
  instance.errorWatch = loop_.whenReadable(instance.child.errors.get(), [this, raw] { onErrors(*raw); });
  instance.startTimer = loop_.after(options_.startTimeout, [this, raw] {
    killFor(*raw, EndReason::StartTimedOut, "it was not ready within " + std::to_string(options_.startTimeout.count()) + " s");
  });
  if (instance.spec.memoryLimit.value > 0 && !instance.memory.valid()) {
    instance.memoryTimer = loop_.after(options_.memoryPoll, [this, raw] { pollMemory(*raw); });
  }
}

void ProcessRuntime::pollMemory(Instance& instance) {
  const MemoryUse use = memoryOf(instance.child.pid);
  if (use.charged > instance.spec.memoryLimit.value) {
    return killFor(
        instance, EndReason::OutOfMemory,
        "it used " + std::to_string(use.charged >> 20) + " MiB of the " + std::to_string(instance.spec.memoryLimit.value >> 20) + " MiB it may use");
  }
  instance.memoryTimer = loop_.after(options_.memoryPoll, [this, raw = &instance] { pollMemory(*raw); });
}

void ProcessRuntime::onControl(Instance& instance) {
  if (!instances_.contains(instance.spec.id)) return;  // its end was told in the same round of events
  const channel::Received received = channel::receive(instance.child.control.get(), buffer_, channel::Wait::No);
  if (received.outcome == channel::ReceiveOutcome::Nothing) return;
  if (received.outcome != channel::ReceiveOutcome::Message) {
    // Its end is told by the process itself; a worker that only closes its socket is caught by the start time limit or by its lanes.
    checkExitLater(instance);
    loop_.post([alive = alive_, keep = std::weak_ptr(instances_.at(instance.spec.id))] {
      if (const auto kept = keep.lock(); *alive && kept) kept->controlWatch.reset();
    });
    return;
  }
  if (received.truncated) return killFor(instance, EndReason::ProtocolViolation, "it sent a control message that is too long");
  onMessage(instance, std::span<const std::byte>(buffer_).first(received.size));
}

void ProcessRuntime::onMessage(Instance& instance, std::span<const std::byte> message) {
  if (instance.verdict) return;  // it is being killed: nothing it says counts
  const auto kind = channel::kindOf(message);
  const auto violation = [&] { killFor(instance, EndReason::ProtocolViolation, "it sent a control message that is malformed or out of order"); };
  if (kind == ControlKind::Sandbox && instance.state == State::Launching) {
    auto missing = channel::decodeSandbox(message);
    if (!missing.ok()) return violation();
    instance.missingSandbox = std::move(missing).value();
    instance.state = State::Loading;
  } else if (kind == ControlKind::Progress && instance.state == State::Loading) {
    const auto percent = channel::decodeProgress(message);
    if (!percent.ok()) return violation();
    if (listener_ != nullptr) listener_->instanceProgress(instance.spec.id, *percent);
  } else if (kind == ControlKind::Ready && instance.state == State::Loading) {
    onReady(instance, message);
  } else if (kind == ControlKind::Failed && instance.state <= State::Loading) {
    const auto failed = channel::decodeFailed(message);
    if (!failed.ok()) return violation();
    killFor(instance, reasonOf(failed->error), channel::printable(failed->error.message, 1024));
  } else if (instance.state != State::Stopping) {
    violation();
  }
}

void ProcessRuntime::onReady(Instance& instance, std::span<const std::byte> message) {
  auto decoded = channel::decodeReady(message);
  const InstanceSpec& spec = instance.spec;
  const auto isThread = [&](std::int32_t thread) { return hasThread(instance.child.pid, thread); };
  const auto allThreads = [&](const std::vector<std::int32_t>& threads) { return std::all_of(threads.begin(), threads.end(), isThread); };
  if (!decoded.ok() || decoded->ownLaneThreads.size() != static_cast<std::size_t>(spec.ownLanes) ||
      decoded->loanLaneThreads.size() != static_cast<std::size_t>(spec.loanLanes) || !allThreads(decoded->ownLaneThreads) ||
      !allThreads(decoded->loanLaneThreads) || !allThreads(decoded->serviceThreads)) {
    return killFor(instance, EndReason::ProtocolViolation, "it reported lanes or threads that it does not have");
  }
  if (const auto fault = markStates(spec.states, decoded->signature)) return killFor(instance, EndReason::LoadFailed, *fault);
  const MemoryUse memory = memoryOf(instance.child.pid);
  // What its group was charged is what its limit is held against; its own figures count pages of files that others have in memory too.
  const std::int64_t charged = instance.memory.peak();
  const std::int64_t most = charged > 0 ? charged : INT64_MAX;
  InstanceReady ready;
  ready.signature = decoded->signature;
  ready.speeds = decoded->speeds;
  ready.width = spec.width;
  ready.pid = instance.child.pid;
  ready.ownLaneThreads = decoded->ownLaneThreads;
  ready.loanLaneThreads = decoded->loanLaneThreads;
  ready.serviceThreads = decoded->serviceThreads;
  ready.steadyMemory = Bytes(std::min(memory.resident, most));
  ready.peakMemory = Bytes(std::min(std::max(memory.peak, memory.resident), most));
  ready.missingSandbox = instance.missingSandbox;
  if (spec.memoryLimit.value > 0 && !instance.memory.valid()) ready.missingSandbox.emplace_back("memory cgroup (polled instead)");
  if (decoded->prepared) ready.prepared = PreparedFile::seal(std::move(instance.preparing));
  instance.preparing.reset();
  instance.state = State::Ready;
  instance.startTimer.reset();
  instance.endpoint->signature = std::move(decoded->signature);
  armStopCheck();
  const std::shared_ptr<Instance> keep = instances_.at(spec.id);
  if (listener_ != nullptr) listener_->instanceReady(spec.id, ready);
}

void ProcessRuntime::armStopCheck() {
  if (std::exchange(stopCheckArmed_, true)) return;
  stopCheck_ = loop_.after(options_.stopCheck, [this] { lookForStopped(); });
}

void ProcessRuntime::lookForStopped() {
  stopCheckArmed_ = false;
  std::vector<std::shared_ptr<Instance>> ready;
  for (const auto& [id, instance] : instances_) {
    if (instance->state == State::Ready) ready.push_back(instance);
  }
  if (!ready.empty()) armStopCheck();
  for (const auto& instance : ready) {
    const std::string before = instance->silence();
    if (const StopNews news = stopNews(instance->child.pid); news != StopNews::Nothing) instance->stopped = news == StopNews::Stopped;
    noteSilence(*instance, before);
    if (before.empty() || instance->silence().empty()) continue;
    const Millis limit = silentLimitOf(*instance);
    if (++instance->silentLooks * options_.stopCheck < limit) continue;
    killFor(*instance, EndReason::Unresponsive,
            "it was silent for " + std::to_string(std::chrono::ceil<Seconds>(limit).count()) + " s: " + instance->silence());
  }
}

Millis ProcessRuntime::silentLimitOf(const Instance& instance) const {
  const bool another = std::any_of(instances_.begin(), instances_.end(), [&](const auto& entry) {
    const Instance& other = *entry.second;
    return &other != &instance && other.spec.service == instance.spec.service && other.state == State::Ready && other.silence().empty();
  });
  return instance.stopped && !another ? std::min(options_.soleLimit, options_.silentLimit) : options_.silentLimit;
}

void ProcessRuntime::heard(InstanceId id, const std::string& silence) {
  const auto found = instances_.find(id);
  if (found == instances_.end() || found->second->state != State::Ready) return;
  const std::shared_ptr<Instance> keep = found->second;
  const std::string before = keep->silence();
  keep->idleness = silence;
  // Who answers is not stopped, whatever we were told last.
  if (silence.empty()) keep->stopped = stopNews(keep->child.pid) == StopNews::Stopped;
  noteSilence(*keep, before);
}

void ProcessRuntime::noteSilence(Instance& instance, const std::string& before) {
  const std::string now = instance.silence();
  if (now.empty()) instance.silentLooks = 0;
  if (now.empty() == before.empty() || instance.verdict || listener_ == nullptr) return;
  if (now.empty()) return listener_->instanceAnswers(instance.spec.id);
  listener_->instanceSilent(instance.spec.id, now);
}

Result<channel::InstanceEndpoint> ProcessRuntime::takeEndpoint(InstanceId id) {
  const auto found = instances_.find(id);
  if (found == instances_.end() || found->second->state != State::Ready || !found->second->endpoint) {
    return Error{Code::NotFound, "NoEndpoint", "the instance is not ready, or its endpoint was taken before"};
  }
  channel::InstanceEndpoint endpoint = *std::exchange(found->second->endpoint, std::nullopt);
  endpoint.process.reset(::fcntl(found->second->child.process.get(), F_DUPFD_CLOEXEC, 3));
  return endpoint;
}

// A pidfd may wake us before the process counts as ended, and not again when it does: so whoever seems to go is looked at until it has gone.
void ProcessRuntime::checkExitLater(Instance& instance) {
  instance.exitCheck = loop_.after(kExitCheck, [this, raw = &instance] { onExit(*raw); });
}

void ProcessRuntime::onErrors(Instance& instance) {
  if (!instances_.contains(instance.spec.id)) return;
  std::array<char, 4096> text{};
  const ssize_t length = ::read(instance.child.errors.get(), text.data(), text.size());
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length <= 0) {
    loop_.post([alive = alive_, keep = std::weak_ptr(instances_.at(instance.spec.id))] {
      if (const auto kept = keep.lock(); *alive && kept) kept->errorWatch.reset();
    });
    return;
  }
  if (options_.onErrorText) options_.onErrorText(instance.spec.id, std::string_view(text.data(), static_cast<std::size_t>(length)));
  // Kept for the report of its end; a flood costs the worker's own time only.
  instance.errorTail.append(text.data(), static_cast<std::size_t>(length));
  if (instance.errorTail.size() > kErrorTail) instance.errorTail.erase(0, instance.errorTail.size() - kErrorTail);
}

void ProcessRuntime::killFor(Instance& instance, EndReason reason, std::string message) {
  if (!instance.verdict) instance.verdict = InstanceEnd{reason, std::move(message)};
  kill(instance.child.process);
}

void ProcessRuntime::violated(InstanceId id, EndReason reason, const std::string& message) {
  if (const auto found = instances_.find(id); found != instances_.end()) killFor(*found->second, reason, message);
}

void ProcessRuntime::stop(InstanceId id, Millis grace) {
  const auto found = instances_.find(id);
  if (found == instances_.end()) return;
  Instance& instance = *found->second;
  if (!instance.verdict) instance.verdict = InstanceEnd{EndReason::Stopped, "it was told to stop"};
  const bool asked =
      instance.state == State::Ready && channel::send(instance.child.control.get(), channel::encodePlain(ControlKind::Stop), channel::Wait::No);
  instance.state = State::Stopping;
  if (!asked || grace.count() <= 0) return kill(instance.child.process);
  instance.stopTimer = loop_.after(grace, [raw = &instance] { kill(raw->child.process); });
}

Bytes ProcessRuntime::residentMemory(InstanceId id) const {
  const auto found = instances_.find(id);
  return found == instances_.end() ? Bytes(0) : Bytes(memoryOf(found->second->child.pid).resident);
}

InstanceEnd ProcessRuntime::endOf(const Instance& instance, const ExitStatus& status) const {
  if (instance.verdict) return *instance.verdict;
  if (instance.unlessItSaid) return *instance.unlessItSaid;
  // Early in a small group's life the kernel may count the kill elsewhere; that the group was full then says the same.
  const bool killed = status.signalled && status.code == SIGKILL;
  if (instance.memory.valid() && (instance.memory.killedForMemory() || (killed && instance.memory.wasFull()))) {
    return {EndReason::OutOfMemory, "it needed more than the " + std::to_string(instance.spec.memoryLimit.value >> 20) + " MiB it may use"};
  }
  if (killed && instance.spec.memoryLimit.value > 0 && instance.state <= State::Loading) {
    // A group too small for the process itself makes exec fail past its point of no return: a kill that no counter shows.
    return {EndReason::OutOfMemory, "it was killed before it was ready, within its " + std::to_string(instance.spec.memoryLimit.value >> 20) +
                                        " MiB: too little memory, unless somebody killed it by hand"};
  }
  std::string message = "the model server ended with " + describe(status);
  if (instance.state == State::Loading) message += " while it loaded " + fileName(instance.spec.modelPath);
  if (!instance.errorTail.empty()) message += ": " + channel::printable(instance.errorTail, kErrorTail);
  // Without a memory group of its own, the machine's lack of memory looks the same as somebody's kill -9.
  return {EndReason::Crashed, std::move(message), killed && instance.memory.valid() && instance.state == State::Ready};
}

void ProcessRuntime::onExit(Instance& instance) {
  const InstanceId id = instance.spec.id;
  if (!instances_.contains(id)) return;
  if (!hasEnded(instance.child.process)) return checkExitLater(instance);
  const std::shared_ptr<Instance> keep = instances_.at(id);
  onErrors(instance);
  for (int i = 0; i < 128 && !instance.verdict; ++i) {  // what it said before it went
    const channel::Received received = channel::receive(instance.child.control.get(), buffer_, channel::Wait::No);
    if (received.outcome == channel::ReceiveOutcome::Reset) continue;  // it left something of ours unread; what it said before comes next
    if (received.outcome != channel::ReceiveOutcome::Message) break;
    if (!received.truncated) onMessage(instance, std::span<const std::byte>(buffer_).first(received.size));
  }
  const ExitStatus status = reap(instance.child.pid);
  const InstanceEnd end = endOf(instance, status);
  instances_.erase(id);
  instance.startTimer.reset();
  instance.exitCheck.reset();
  instance.stopTimer.reset();
  instance.memoryTimer.reset();
  retired_.push_back(keep);  // this is the callback of one of its own watches
  loop_.post([this, alive = alive_] {
    if (*alive) retired_.clear();
  });
  if (listener_ != nullptr) listener_->instanceEnded(id, end);
}

}  // namespace coterie::process
