#include "worker/serve_model.h"

#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "channel/arena.h"
#include "channel/control_messages.h"
#include "channel/lane_messages.h"
#include "channel/seqpacket.h"
#include "onnx/session.h"
#include "worker/lane.h"
#include "worker/measure_widths.h"
#include "worker/model_file.h"
#include "worker/prepared_model.h"
#include "worker/probe.h"
#include "worker/sequence_states.h"

namespace coterie::worker {

namespace {

using channel::ControlKind;
using channel::kControlFd;

void progress(int percent) { (void)channel::send(kControlFd, channel::encodeProgress(percent), channel::Wait::Yes); }

// Everything a worker owns; lives until the process ends.
struct Worker {
  channel::SetupMessage setup;
  UniqueFd signals;
  UniqueFd memoryFile;            // of a prepared form, given or to be made
  std::vector<UniqueFd> sockets;  // own lanes, then loan lanes
  channel::Mapping requests;
  channel::Mapping answers;
  std::unique_ptr<onnx::Library> library;
  ModelSource source;  // as long as a session may lie over it
  std::unique_ptr<onnx::Session> session;
  std::vector<WidthSpeed> speeds;
  SequenceStates states;
  std::vector<std::unique_ptr<Lane>> lanes;
};

Error broken(const char* what) { return {Code::Internal, "BadSetup", what}; }

// Setup brings the signal socket, both arenas, perhaps a memory file, and the first lanes; MoreLanes the others.
Status receiveSetup(Worker& worker) {
  std::vector<std::byte> buffer(channel::kMaxControlMessage);
  channel::Received received = channel::receiveWithFds(kControlFd, buffer, channel::Wait::Yes);
  if (received.outcome != channel::ReceiveOutcome::Message || received.truncated || received.fds.size() < 3) return broken("no setup message");
  auto setup = channel::decodeSetup(std::span<const std::byte>(buffer).first(received.size));
  if (!setup.ok()) return setup.error();
  worker.setup = std::move(setup).value();
  worker.signals = std::move(received.fds[0]);
  const UniqueFd requests = std::move(received.fds[1]);
  const UniqueFd answers = std::move(received.fds[2]);
  std::size_t next = 3;
  if (worker.setup.bringsMemoryFile()) {
    if (received.fds.size() <= next) return broken("the memory file is missing");
    worker.memoryFile = std::move(received.fds[next++]);
  }
  for (; next < received.fds.size(); ++next) worker.sockets.push_back(std::move(received.fds[next]));
  const auto wanted = static_cast<std::size_t>(worker.setup.ownLanes) + static_cast<std::size_t>(worker.setup.loanLanes);
  while (worker.sockets.size() < wanted) {
    received = channel::receiveWithFds(kControlFd, buffer, channel::Wait::Yes);
    if (received.outcome != channel::ReceiveOutcome::Message || received.fds.empty()) return broken("lanes are missing");
    for (UniqueFd& fd : received.fds) worker.sockets.push_back(std::move(fd));
  }
  auto in = channel::mapShared(requests.get(), worker.setup.requestBytes, channel::Access::Read);
  if (!in.ok()) return in.error();
  auto out = channel::mapShared(answers.get(), worker.setup.responseBytes, channel::Access::ReadWrite);
  if (!out.ok()) return out.error();
  worker.requests = std::move(in).value();
  worker.answers = std::move(out).value();
  return {};
}

Error named(const Worker& worker, const Error& error) { return {error.code, error.reason, worker.setup.modelName + " " + error.message}; }

Result<std::unique_ptr<onnx::Session>> loadSession(const Worker& worker, int threads) {
  onnx::LoadOptions options;
  options.threads = threads;
  options.spin = worker.setup.spin;
  auto session = loadFrom(worker.source, *worker.library, options);
  if (!session.ok()) return named(worker, session.error());
  return session;
}

// Times the widths that were asked for, while they fit into their time: a session each, gone before the next one is loaded, so that never more than
// one model is in memory.
Status measureWidths(const Worker& worker, std::vector<WidthSpeed>& speeds) {
  constexpr int kTries = 3;
  const auto one = [&](int width) -> Result<std::optional<WidthSpeed>> {
    auto session = loadSession(worker, width);
    if (!session.ok()) return session.error();
    for (int i = 0; i < kTries; ++i) {
      const Nanos before = waitedForCpus();
      auto speed = probe(**session, worker.setup.probe, worker.answers.bytes(), width);
      if (!speed.ok()) return named(worker, speed.error());
      if (!disturbed(waitedForCpus() - before, speed->mean * kProbeRuns, width)) return std::optional(*speed);
    }
    return std::optional<WidthSpeed>();
  };
  auto measured = measureWithin(worker.setup.measureWidths, Nanos(worker.setup.measureNanos), one);
  if (!measured.ok()) return measured.error();
  speeds = std::move(measured).value();
  return {};
}

// The model's file, or the form that was prepared of it: that was made of the bytes with the checksum that this worker is to serve.
Status openSource(Worker& worker, const InheritedFds& fds) {
  const channel::SetupMessage& setup = worker.setup;
  if (setup.preparedBytes > 0) {
    auto form = mapForm(worker.memoryFile.get(), setup.preparedBytes);
    if (!form.ok()) return named(worker, form.error());
    worker.source.form = std::move(form).value();
    return {};
  }
  auto model = readModel(fds.model, fds.folder, {setup.modelName, setup.sha256, setup.memoryLimit});
  if (!model.ok()) return model.error();
  worker.source.file = std::move(model).value();
  return {};
}

Status prepareForm(Worker& worker) {
  const auto probeOne = [&](const onnx::Session& session) { return probe(session, worker.setup.probe, worker.answers.bytes(), 1); };
  if (Status s = prepare(worker.source, *worker.library, worker.memoryFile.get(), worker.setup.judge ? ProbeSession(probeOne) : ProbeSession());
      !s.ok())
    return named(worker, s.error());
  return {};
}

Status loadModel(Worker& worker, const InheritedFds& fds) {
  if (Status s = openSource(worker, fds); !s.ok()) return s;
  progress(20);
  auto library = onnx::Library::open("/proc/self/fd/" + std::to_string(fds.runtime));
  if (!library.ok()) return library.error();
  worker.library = std::move(library).value();
  progress(40);
  if (worker.setup.prepare) {
    if (Status s = prepareForm(worker); !s.ok()) return s;
  }
  std::vector<WidthSpeed> others;
  if (Status s = measureWidths(worker, others); !s.ok()) return s;
  auto session = loadSession(worker, worker.setup.width);
  if (!session.ok()) return session.error();
  worker.session = std::move(session).value();
  worker.source.file = {};  // what was copied from it is all that is needed
  progress(80);
  auto speed = probe(*worker.session, worker.setup.probe, worker.answers.bytes(), worker.setup.width);
  if (!speed.ok()) return named(worker, speed.error());
  worker.speeds.push_back(*speed);
  worker.speeds.insert(worker.speeds.end(), others.begin(), others.end());
  return {};
}

Status startLanes(Worker& worker) {
  for (std::size_t i = 0; i < worker.sockets.size(); ++i) {
    LaneSetup setup;
    setup.laneClass = static_cast<std::int32_t>(i) < worker.setup.ownLanes ? LaneClass::Own : LaneClass::Loan;
    setup.index = static_cast<int>(i);
    setup.socket = worker.sockets[i].get();
    setup.requests = worker.requests.bytes();
    setup.answers = worker.answers.bytes();
    worker.lanes.push_back(std::make_unique<Lane>(setup, *worker.session, worker.states));
    if (Status s = worker.lanes.back()->start(); !s.ok()) return s;
  }
  return {};
}

std::int64_t residentBytes() {
  std::int64_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re"); file != nullptr) {
    long long total = 0;
    long long resident = 0;
    if (std::fscanf(file, "%lld %lld", &total, &resident) == 2) pages = resident;
    std::fclose(file);
  }
  return pages * ::sysconf(_SC_PAGESIZE);
}

// Every thread that is no lane: this one, and those that ONNX Runtime keeps.
std::vector<std::int32_t> otherThreads(const channel::ReadyMessage& lanes) {
  std::vector<std::int32_t> threads;
  DIR* folder = ::opendir("/proc/self/task");
  if (folder == nullptr) return {static_cast<std::int32_t>(::syscall(SYS_gettid))};
  const auto isLane = [&](std::int32_t thread) {
    return std::count(lanes.ownLaneThreads.begin(), lanes.ownLaneThreads.end(), thread) > 0 ||
           std::count(lanes.loanLaneThreads.begin(), lanes.loanLaneThreads.end(), thread) > 0;
  };
  while (const dirent* entry = ::readdir(folder)) {
    const std::int32_t thread = std::atoi(entry->d_name);
    if (thread > 0 && !isLane(thread)) threads.push_back(thread);
  }
  ::closedir(folder);
  return threads;
}

void sayReady(const Worker& worker) {
  channel::ReadyMessage ready;
  ready.signature = worker.session->signature();
  ready.speeds = worker.speeds;
  for (std::size_t i = 0; i < worker.lanes.size(); ++i) {
    auto& threads = static_cast<std::int32_t>(i) < worker.setup.ownLanes ? ready.ownLaneThreads : ready.loanLaneThreads;
    threads.push_back(worker.lanes[i]->thread());
  }
  ready.serviceThreads = otherThreads(ready);
  ready.prepared = worker.setup.prepare && worker.source.inPlace();
  ready.steadyBytes = residentBytes();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  ready.peakBytes = std::max(ready.steadyBytes, std::int64_t{usage.ru_maxrss} * 1024);
  (void)channel::send(kControlFd, channel::encode(ready), channel::Wait::Yes);
}

void onSignal(Worker& worker, std::span<const std::byte> bytes) {
  channel::TerminateMessage terminate;
  channel::ForgetMessage forget;
  if (channel::decode(bytes, terminate) && terminate.lane < worker.lanes.size()) worker.lanes[terminate.lane]->terminate(terminate.generation);
  if (channel::decode(bytes, forget)) worker.states.forget(forget.sequence);
}

// Until Stop, or until either side of the system is gone.
void waitForEnd(Worker& worker) {
  std::vector<std::byte> buffer(channel::kMaxControlMessage);
  pollfd watched[] = {{kControlFd, POLLIN, 0}, {worker.signals.get(), POLLIN, 0}};
  while (true) {
    if (::poll(watched, 2, -1) < 0) continue;
    if (watched[0].revents != 0) {
      const channel::Received received = channel::receive(kControlFd, buffer, channel::Wait::No);
      if (received.outcome == channel::ReceiveOutcome::Nothing) continue;
      if (received.outcome != channel::ReceiveOutcome::Message) return;
      if (channel::kindOf(std::span<const std::byte>(buffer).first(received.size)) == ControlKind::Stop) return;
    }
    if (watched[1].revents != 0) {
      const channel::Received received = channel::receive(worker.signals.get(), buffer, channel::Wait::No);
      if (received.outcome == channel::ReceiveOutcome::Closed || received.outcome == channel::ReceiveOutcome::Reset) {
        watched[1].fd = -1;  // the gateway has let go; the supervisor decides
        continue;
      }
      if (received.outcome == channel::ReceiveOutcome::Message) onSignal(worker, std::span<const std::byte>(buffer).first(received.size));
    }
  }
}

Status prepare(Worker& worker, const InheritedFds& fds) {
  if (Status s = receiveSetup(worker); !s.ok()) return s;
  progress(5);
  if (Status s = loadModel(worker, fds); !s.ok()) return s;
  return startLanes(worker);
}

}  // namespace

int serveModel(const InheritedFds& fds) {
  // A model's fault must not fill the disk with a core or hang in a handler: the default actions end the process, and the supervisor says why.
  (void)::prctl(PR_SET_NAME, "coterie-worker", 0, 0, 0);
  static Worker worker;  // never destroyed: lanes may still be in a run when the process ends
  if (Status s = prepare(worker, fds); !s.ok()) {
    (void)channel::send(kControlFd, channel::encodeFailed(s.error()), channel::Wait::Yes);
    ::_exit(0);
  }
  (void)::malloc_trim(0);  // what loading needed and running does not
  sayReady(worker);
  waitForEnd(worker);
  ::_exit(0);
}

}  // namespace coterie::worker
