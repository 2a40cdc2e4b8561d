#include "running_subject.h"

#include <poll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/unique_fd.h"

namespace coterie::in_node {

namespace {
constexpr Millis kSettle{50};
constexpr Millis kMinSlice{250};
constexpr Seconds kMaxSlice{12};
constexpr double kMinRequests = 10;
constexpr double kMinRequestsEach = 1;
constexpr Seconds kStartLimit{120};

Nanos monotonic() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Seconds(now.tv_sec) + Nanos(now.tv_nsec);
}
void pause(Millis time) { ::poll(nullptr, 0, static_cast<int>(time.count())); }
}  // namespace

Work& Work::operator+=(const Work& other) {
  requests.resize(std::max(requests.size(), other.requests.size()), 0);
  for (std::size_t i = 0; i < other.requests.size(); ++i) requests[i] += other.requests[i];
  time += other.time;
  return *this;
}

double Work::logRate() const {
  double sum = 0;
  for (const double one : requests) sum += std::log(one / std::chrono::duration<double>(time).count());
  return sum / static_cast<double>(requests.size());
}

Result<std::unique_ptr<RunningSubject>> RunningSubject::start(const Scenario& scenario, const Subject& subject, const std::string& label) {
  const UniqueFd fd(::memfd_create("coterie-bench", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), sizeof(SharedPage)) != 0) return Error{Code::Internal, "NoMemory", "no shared page for the bench"};
  void* memory = ::mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return Error{Code::Internal, "NoMemory", "no shared page for the bench"};
  std::unique_ptr<RunningSubject> running(new RunningSubject());
  running->page_ = new (memory) SharedPage();
  running->services_ = scenario.services.size();
  auto process = testing::FreezableProcess::start(label,
                                                  {"/proc/self/exe", "--subject", "--page", std::to_string(fd.get()), "--policy", subject.policy,
                                                   "--threads", threadsName(subject.threads), "--services", encodeServices(scenario.services)},
                                                  {fd.get()});
  if (!process) return process.error();
  running->process_ = std::move(process).value();
  const Nanos giveUp = monotonic() + kStartLimit;
  while (running->page_->state.load() == SubjectState::Starting) {
    if (monotonic() > giveUp || !running->running()) {
      return Error{Code::Internal, "SubjectNotReady", subject.name() + " did not become ready: " + running->failure()};
    }
    pause(Millis(5));
  }
  if (running->page_->state.load() == SubjectState::Failed) return Error{Code::Internal, "SubjectFailed", subject.name() + ": " + running->failure()};
  return running;
}

RunningSubject::~RunningSubject() {
  if (process_) process_->kill();
  if (page_ != nullptr) ::munmap(page_, sizeof(SharedPage));
}

Status RunningSubject::freeze() {
  if (auto status = process_->freeze(); !status) return status;
  frozenSince_ = monotonic();
  return {};
}

Status RunningSubject::thaw() {
  if (frozenSince_ != Nanos{}) page_->frozenNanos.fetch_add((monotonic() - frozenSince_).count());
  frozenSince_ = Nanos{};
  return process_->thaw();
}

RunningSubject::Reading RunningSubject::read() const {
  Reading reading;
  reading.at = monotonic() - Nanos(page_->frozenNanos.load());
  for (std::size_t i = 0; i < services_; ++i) reading.work.push_back(workAt(page_->services[i], reading.at));
  return reading;
}

// A slow model's first answer may still be under way, and what a run takes is known only after it.
void RunningSubject::untilFirstAnswers() {
  const Nanos first = monotonic();
  for (std::size_t i = 0; i < services_; ++i) {
    while (page_->services[i].completed.load() == 0 && running() && monotonic() - first < kMaxSlice) pause(Millis(5));
  }
}

Result<Work> RunningSubject::slice() {
  if (auto status = thaw(); !status) return status.error();
  pause(kSettle);
  untilFirstAnswers();
  const Reading from = read();
  Reading to;
  while (true) {
    pause(Millis(10));
    to = read();
    double total = 0;
    double least = kMinRequestsEach;
    for (std::size_t i = 0; i < services_; ++i) {
      total += to.work[i] - from.work[i];
      least = std::min(least, to.work[i] - from.work[i]);
    }
    if (to.at - from.at >= kMinSlice && total >= kMinRequests && least >= kMinRequestsEach) break;
    if (to.at - from.at >= kMaxSlice) break;
    if (!running() || page_->state.load() != SubjectState::Ready)
      return Error{Code::Internal, "SubjectDied", "a subject ended during a slice: " + failure()};
  }
  if (auto status = freeze(); !status) return status.error();
  Work work;
  work.time = to.at - from.at;
  for (std::size_t i = 0; i < services_; ++i) {
    const double done = to.work[i] - from.work[i];
    if (done <= 0) return Error{Code::Internal, "NoProgress", fmt::format("service {} did nothing within {} s", i, kMaxSlice.count())};
    work.requests.push_back(done);
  }
  counted_ += work;
  return work;
}

std::vector<ServiceFigures> RunningSubject::figures() const {
  std::vector<ServiceFigures> figures;
  for (std::size_t i = 0; i < services_; ++i) {
    const ServiceCounters& counters = page_->services[i];
    ServiceFigures one;
    one.throughput = counted_.time > Nanos{} ? counted_.requests[i] / std::chrono::duration<double>(counted_.time).count() : 0;
    one.failed = counters.failed.load();
    for (const auto& bucket : counters.latency) one.samples += bucket.load();
    std::int64_t seen = 0;
    for (int bucket = 0; bucket < kLatencyBuckets && one.samples > 0; ++bucket) {
      seen += counters.latency[static_cast<std::size_t>(bucket)].load();
      if (one.p50 == Nanos{} && seen * 2 >= one.samples) one.p50 = latencyOfBucket(bucket);
      if (one.p99 == Nanos{} && one.samples >= 300 && seen * 100 >= one.samples * 99) one.p99 = latencyOfBucket(bucket);
    }
    figures.push_back(one);
  }
  return figures;
}

Result<double> RunningSubject::finishWithin(Seconds time) {
  if (auto status = thaw(); !status) return status.error();
  const Nanos end = monotonic() + time;
  while (page_->state.load() == SubjectState::Ready && running() && monotonic() < end) pause(Millis(10));
  if (auto status = freeze(); !status) return status.error();
  const SubjectState state = page_->state.load();
  if (state == SubjectState::Finished) return static_cast<double>(page_->finishedAt.load()) / 1e9;
  if (state != SubjectState::Ready || !running()) return Error{Code::Internal, "SubjectDied", "a subject ended: " + failure()};
  return 0.0;
}

Result<double> throughputAlone(const Scenario& scenario, const Subject& subject) {
  auto running = RunningSubject::start(scenario, subject, "alone");
  if (!running) return running.error();
  if (auto status = (*running)->freeze(); !status) return status.error();
  Work sum;
  constexpr int kSlices = 4;
  for (int i = 0; i <= kSlices; ++i) {
    const auto work = (*running)->slice();
    if (!work) return work.error();
    if (i > 0) sum += *work;  // the first one warms up
  }
  return std::exp(sum.logRate());
}

}  // namespace coterie::in_node
