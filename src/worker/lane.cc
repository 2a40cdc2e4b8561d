#include "worker/lane.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "channel/lane_messages.h"
#include "channel/seqpacket.h"
#include "worker/gather.h"

namespace coterie::worker {

namespace {

constexpr std::size_t kStackBytes = 2 << 20;

std::int64_t threadCpuNanos() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

// Time spent runnable but waiting, the second number of schedstat; 0 where the kernel does not say.
std::int64_t queuedNanos(int schedstat) {
  if (schedstat < 0) return 0;
  std::array<char, 96> text{};
  if (::pread(schedstat, text.data(), text.size() - 1, 0) <= 0) return 0;
  char* end = nullptr;
  (void)std::strtoll(text.data(), &end, 10);
  return std::strtoll(end, nullptr, 10);
}

}  // namespace

struct Lane::Buffers {
  channel::RunMessage request;
  channel::AnswerMessage answer;
  std::array<std::byte, channel::kMaxLaneMessage> bytes;
  Gather gather;
  std::vector<onnx::Input> inputs;
  std::vector<int> wanted;
  std::vector<onnx::Output> outputs;
  UniqueFd schedstat;
  std::int64_t cpuSeen{0};
  std::int64_t queuedSeen{0};
};

namespace {
struct Start {
  Lane* lane{nullptr};
  sem_t ready{};
};
}  // namespace

Lane::Lane(const LaneSetup& setup, const onnx::Session& session, SequenceStates& states)
    : setup_(setup), signature_(session.signature()), runner_(session), states_(states) {}

Status Lane::start() {
  Start start;
  start.lane = this;
  ::sem_init(&start.ready, 0, 0);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const int rc = ::pthread_create(&thread, &attributes, &Lane::enter, &start);
  ::pthread_attr_destroy(&attributes);
  if (rc != 0) return Error{Code::Unavailable, "NoThread", std::string("a lane's thread cannot be started: ") + std::strerror(rc)};
  while (::sem_wait(&start.ready) != 0 && errno == EINTR) continue;
  ::sem_destroy(&start.ready);
  if (!classSet_) return Error{Code::Unavailable, "NoIdleClass", "a loan lane cannot enter the kernel's idle class"};
  return {};
}

void* Lane::enter(void* argument) {
  auto* start = static_cast<Start*>(argument);
  Lane& lane = *start->lane;
  const bool own = lane.setup_.laneClass == LaneClass::Own;
  const sched_param none{};
  lane.classSet_ = own || ::sched_setscheduler(0, SCHED_IDLE, &none) == 0;
  lane.thread_ = static_cast<std::int32_t>(::syscall(SYS_gettid));
  const std::string name = (own ? "own-" : "loan-") + std::to_string(lane.setup_.index);
  (void)::prctl(PR_SET_NAME, name.c_str(), 0, 0, 0);
  ::sem_post(&start->ready);  // start is gone after this
  if (lane.classSet_) lane.serve();
  return nullptr;
}

void Lane::serve() {
  const auto buffers = std::make_unique<Buffers>();
  const std::string path = "/proc/self/task/" + std::to_string(thread_) + "/schedstat";
  buffers->schedstat.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  while (answerOne(*buffers)) continue;
}

void Lane::begin(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  running_ = generation;
}

void Lane::end() {
  const std::lock_guard lock(mutex_);
  running_ = 0;
  if (std::exchange(terminated_, false)) runner_.resetTerminate();
}

void Lane::terminate(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  if (running_ != generation || generation == 0) return;
  terminated_ = true;
  runner_.terminate();
}

Status Lane::runOne(Buffers& buffers) {
  const channel::RunMessage& request = buffers.request;
  if (request.cellOffset > setup_.answers.size() || request.cellBytes > setup_.answers.size() - request.cellOffset)
    return Error{Code::InvalidArgument, "BadRequest", "the answer's cell is outside its arena"};
  if (Status s = buffers.gather.join(request, setup_.requests, signature_, buffers.inputs); !s.ok()) return s;
  std::shared_ptr<const SequenceState> state;
  if (request.sequence != 0) {
    auto taken = takeState(request, signature_, states_, buffers.inputs);
    if (!taken.ok()) return taken.error();
    state = std::move(*taken);
  }
  buffers.wanted.assign(request.outputs.begin(), request.outputs.begin() + request.outputCount);
  const std::span<std::byte> cell = setup_.answers.subspan(request.cellOffset, request.cellBytes);
  Status ran = runner_.run(buffers.inputs, buffers.wanted, cell, buffers.outputs);
  buffers.gather.release();
  if (!ran.ok()) return ran;
  if (request.sequence != 0) {
    if (Status s = keepState(request, buffers.outputs, cell, state, states_); !s.ok()) return s;
  }
  channel::AnswerMessage& answer = buffers.answer;
  for (std::size_t i = 0; i < request.answerCount(); ++i) {
    const onnx::Output& output = buffers.outputs[i];
    channel::TensorPlace& place = answer.outputs[i];
    if (output.dims.size() > channel::kMaxRank) return Error{Code::Internal, "AnswerTooLarge", "an output has too many dimensions"};
    place.index = static_cast<std::uint16_t>(output.output);
    place.rank = static_cast<std::uint16_t>(output.dims.size());
    place.offset = request.cellOffset + output.offset;
    place.length = output.length;
    std::copy(output.dims.begin(), output.dims.end(), place.dims.begin());
  }
  answer.outputCount = static_cast<std::uint16_t>(request.answerCount());
  return {};
}

// False when the gateway is gone.
bool Lane::answerOne(Buffers& buffers) {
  const channel::Received received = channel::receive(setup_.socket, buffers.bytes, channel::Wait::Yes);
  if (received.outcome != channel::ReceiveOutcome::Message) return false;
  channel::AnswerMessage& answer = buffers.answer;
  answer.outputCount = 0;
  if (received.truncated || !channel::decode(std::span<const std::byte>(buffers.bytes).first(received.size), buffers.request)) return false;
  begin(buffers.request.generation);
  const Status status = runOne(buffers);
  end();
  answer.generation = buffers.request.generation;
  answer.failed = !status.ok();
  if (answer.failed) {
    answer.error = status.error();
    answer.outputCount = 0;
  }
  // Both clocks run on from the previous answer: waking up and reading the request belong to this one, and each clock is read once.
  const std::int64_t cpu = threadCpuNanos();
  const std::int64_t queued = queuedNanos(buffers.schedstat.get());
  answer.cpuNanos = cpu - std::exchange(buffers.cpuSeen, cpu);
  answer.queuedNanos = queued - std::exchange(buffers.queuedSeen, queued);
  const std::size_t size = encode(answer, buffers.bytes);
  return size > 0 && channel::send(setup_.socket, std::span<const std::byte>(buffers.bytes).first(size), channel::Wait::Yes);
}

}  // namespace coterie::worker
