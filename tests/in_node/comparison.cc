#include "comparison.h"

#include <poll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include <fmt/format.h>

namespace coterie::in_node {

namespace {
constexpr Millis kSettle{50};
constexpr Millis kMinSlice{250};
constexpr Seconds kMaxSlice{12};
constexpr std::int64_t kMinRequests = 10;
constexpr std::int64_t kMinRequestsEach = 4;  // times between completions have no edge error, so a few suffice for slow models
constexpr Seconds kStartLimit{120};

std::int64_t monotonic() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}
void pause(Nanos time) { ::poll(nullptr, 0, static_cast<int>(std::chrono::duration_cast<Millis>(time).count())); }
}  // namespace

Result<std::unique_ptr<RunningSubject>> RunningSubject::start(const Scenario& scenario, const Subject& subject, const std::string& label) {
  const int fd = ::memfd_create("coterie-bench", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, sizeof(SharedPage)) != 0) return Error{Code::Internal, "NoMemory", "no shared page for the bench"};
  const UniqueFd owner(fd);
  void* memory = ::mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Error{Code::Internal, "NoMemory", "no shared page for the bench"};
  std::unique_ptr<RunningSubject> running(new RunningSubject());
  running->page_ = new (memory) SharedPage();
  running->services_ = scenario.services.size();
  running->counted_.resize(running->services_);
  running->spent_.resize(running->services_);
  auto process = testing::FreezableProcess::start(label,
                                                  {"/proc/self/exe", "--subject", "--page", std::to_string(fd), "--policy", subject.policy,
                                                   "--threads", threadsName(subject.threads), "--services", encodeServices(scenario.services)},
                                                  {fd});
  if (!process) return process.error();
  running->process_ = std::move(process).value();
  const std::int64_t giveUp = monotonic() + Nanos(kStartLimit).count();
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

std::string RunningSubject::failure() const { return page_->failure.data(); }

Status RunningSubject::freeze() {
  if (auto status = process_->freeze(); !status) return status;
  frozenSince_ = monotonic();
  return {};
}

Status RunningSubject::thaw() {
  if (frozenSince_ != 0) page_->frozenNanos.fetch_add(monotonic() - frozenSince_);
  frozenSince_ = 0;
  return process_->thaw();
}

RunningSubject::Reading RunningSubject::read(std::size_t service) const {
  const ServiceCounters& counters = page_->services[service];
  while (true) {  // the pair must belong together: read until the count stood still around the time
    const std::int64_t before = counters.completed.load();
    const std::int64_t at = counters.lastCompletion.load();
    if (counters.completed.load() == before) return {before, at};
  }
}

Result<double> RunningSubject::slice() {
  if (auto status = thaw(); !status) return status.error();
  pause(kSettle);
  const std::int64_t first = monotonic();
  for (std::size_t i = 0; i < services_; ++i) {  // a slow model's first answer may still be under way
    while (read(i).completed == 0 && running() && monotonic() - first < Nanos(kMaxSlice).count()) pause(Millis(5));
  }
  std::vector<Reading> from;
  for (std::size_t i = 0; i < services_; ++i) from.push_back(read(i));
  const std::int64_t began = monotonic();
  std::vector<Reading> to;
  while (true) {
    pause(Millis(10));
    to.clear();
    bool enough = monotonic() - began >= Nanos(kMinSlice).count();
    std::int64_t total = 0;
    for (std::size_t i = 0; i < services_; ++i) {
      to.push_back(read(i));
      const std::int64_t done = to[i].completed - from[i].completed;
      total += done;
      enough = enough && done >= kMinRequestsEach;
    }
    enough = enough && total >= kMinRequests;
    if (enough || monotonic() - began > Nanos(kMaxSlice).count()) break;
    if (!running() || page_->state.load() != SubjectState::Ready)
      return Error{Code::Internal, "SubjectDied", "a subject ended during a slice: " + failure()};
  }
  if (auto status = freeze(); !status) return status.error();
  double logSum = 0;
  for (std::size_t i = 0; i < services_; ++i) {
    const std::int64_t done = to[i].completed - from[i].completed;
    const std::int64_t time = std::max<std::int64_t>(to[i].at - from[i].at, 1);
    if (done == 0) return Error{Code::Internal, "NoProgress", fmt::format("service {} completed nothing within {} s", i, kMaxSlice.count())};
    counted_[i] += done;
    spent_[i] += time;
    logSum += std::log(static_cast<double>(done) * 1e9 / static_cast<double>(time));
  }
  return logSum / static_cast<double>(services_);
}

std::vector<ServiceFigures> RunningSubject::figures() const {
  std::vector<ServiceFigures> figures;
  for (std::size_t i = 0; i < services_; ++i) {
    const ServiceCounters& counters = page_->services[i];
    ServiceFigures one;
    one.throughput = spent_[i] > 0 ? static_cast<double>(counted_[i]) * 1e9 / static_cast<double>(spent_[i]) : 0;
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

Result<Comparison> compare(const Scenario& scenario, const Subject& a, const Subject& b, Seconds limit) {
  auto first = RunningSubject::start(scenario, a, "a");
  if (!first) return first.error();
  if (auto status = (*first)->freeze(); !status) return status.error();
  auto second = RunningSubject::start(scenario, b, "b");
  if (!second) return second.error();
  if (auto status = (*second)->freeze(); !status) return status.error();
  for (auto* subject : {first->get(), second->get()}) {  // warm caches and estimates; not counted in the ratio
    if (const auto warm = subject->slice(); !warm) return warm.error();
  }
  Comparison comparison;
  std::vector<double> blocks;
  const std::int64_t end = monotonic() + Nanos(limit).count();
  while (blocks.size() < testing::kLooks.back()) {
    double sum = 0;
    for (const int which : {0, 1, 1, 0}) {
      const auto work = (which == 0 ? *first : *second)->slice();
      if (!work) return work.error();
      sum += which == 0 ? -*work : *work;
    }
    blocks.push_back(sum / 2);
    const bool look = std::find(testing::kLooks.begin(), testing::kLooks.end(), blocks.size()) != testing::kLooks.end();
    if (look && testing::pairedRatio(blocks).halfWidth() <= 0.03) break;
    if (monotonic() > end && blocks.size() >= 4) break;
  }
  comparison.ratio = testing::pairedRatio(blocks);
  comparison.a = (*first)->figures();
  comparison.b = (*second)->figures();
  return comparison;
}

Result<double> glance(const Scenario& scenario, const Subject& subject) {
  auto running = RunningSubject::start(scenario, subject, "glance");
  if (!running) return running.error();
  if (auto status = (*running)->freeze(); !status) return status.error();
  double sum = 0;
  constexpr int kSlices = 4;
  for (int i = 0; i <= kSlices; ++i) {
    const auto work = (*running)->slice();
    if (!work) return work.error();
    if (i > 0) sum += *work / kSlices;
  }
  return sum;
}

Result<double> makespan(const Scenario& scenario, const Subject& subject) {
  auto running = RunningSubject::start(scenario, subject, "mix");
  if (!running) return running.error();
  while ((*running)->page().state.load() == SubjectState::Ready && (*running)->running()) pause(Millis(20));
  if ((*running)->page().state.load() != SubjectState::Finished)
    return Error{Code::Internal, "SubjectDied", subject.name() + ": " + (*running)->failure()};
  return static_cast<double>((*running)->page().finishedAt.load()) / 1e9;
}

}  // namespace coterie::in_node
