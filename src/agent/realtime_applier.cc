#include "agent/realtime_applier.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "agent/spsc_queue.h"
#include "base/unique_fd.h"

namespace coterie::agent {
namespace {

constexpr std::int64_t kPauseAfterNanos = 10'000'000;
constexpr std::int64_t kHurryWindowNanos = 1'000'000'000;
constexpr int kNice = -15;

std::int64_t nanosOf(clockid_t clock) noexcept {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::int64_t monotonicNanos() noexcept { return nanosOf(CLOCK_MONOTONIC); }

void ring(int fd) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);  // fails only when it is ringing already
}

// Waits for the bell; also how a real-time thread sleeps.
void await(int fd) noexcept {
  std::uint64_t rings = 0;
  while (::read(fd, &rings, sizeof rings) < 0 && errno == EINTR) {
  }
}

bool becomeRealtime() noexcept {
  sched_param priority{};
  priority.sched_priority = 1;
  ::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
  return (::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;  // read back: what holds, not what was asked
}

RealtimeApplier::Policy takePolicy(bool realtime) noexcept {
  if (!realtime) return RealtimeApplier::Policy::Ordinary;
  if (becomeRealtime()) return RealtimeApplier::Policy::Fifo;
  const auto self = static_cast<id_t>(::syscall(SYS_gettid));
  ::setpriority(PRIO_PROCESS, self, kNice);
  return ::getpriority(PRIO_PROCESS, self) <= kNice ? RealtimeApplier::Policy::Nice : RealtimeApplier::Policy::Ordinary;
}

// What writers share with the control loop. A writer that never comes back from a system call keeps it alive.
struct Shared {
  ApplyBatch::Execute execute{nullptr};
  bool realtime{true};
  UniqueFd progress;
  std::atomic<int> policy{-1};
};

struct Writer {
  UniqueFd bell;
  SpscQueue<ApplyBatch*, 64> inbox;     // control loop -> writer
  std::atomic<std::uint64_t> taken{0};  // batches it is done with, in order
  std::atomic<bool> stopping{false};
  std::atomic<bool> ended{false};
  std::vector<std::shared_ptr<ApplyBatch>> abandoned;  // what a writer that is left behind in the kernel still uses
};

void writerMain(const std::shared_ptr<Shared>& shared, const std::shared_ptr<Writer>& writer) noexcept {
  shared->policy.store(static_cast<int>(takePolicy(shared->realtime)), std::memory_order_release);
  ring(shared->progress.get());
  std::int64_t awakeSince = monotonicNanos();
  while (!writer->stopping.load(std::memory_order_acquire)) {
    const auto batch = writer->inbox.pop();
    if (!batch) {
      await(writer->bell.get());
      awakeSince = monotonicNanos();
      continue;
    }
    while ((*batch)->workOne(shared->execute)) {
      if (monotonicNanos() - awakeSince > kPauseAfterNanos) {
        const timespec moment{0, 50'000};
        ::nanosleep(&moment, nullptr);
        awakeSince = monotonicNanos();
      }
    }
    writer->taken.fetch_add(1, std::memory_order_acq_rel);
    ring(shared->progress.get());
  }
  writer->ended.store(true, std::memory_order_release);
}

// The policy of the calling thread while it hurries, within its budget. Back at the old one its niceness is what it was: the kernel keeps it aside.
class Hurry {
 public:
  explicit Hurry(Nanos most) : most_(most.count()) {}

  void set(bool wanted) noexcept {
    if (!wanted) return lower();
    const std::int64_t now = monotonicNanos();
    if (now - windowFrom_ > kHurryWindowNanos) {
      windowFrom_ = now;
      spent_ = 0;
      raisedAt_ = raised_ ? nanosOf(CLOCK_THREAD_CPUTIME_ID) : 0;
    }
    if (raised_ && spent_ + nanosOf(CLOCK_THREAD_CPUTIME_ID) - raisedAt_ > most_) lower();
    if (!raised_ && spent_ <= most_) raise();
  }

 private:
  void raise() noexcept {
    found_ = ::sched_getscheduler(0);
    if ((found_ & ~SCHED_RESET_ON_FORK) != SCHED_OTHER || !becomeRealtime()) return;  // somebody gave it a policy: that stays
    raised_ = true;
    raisedAt_ = nanosOf(CLOCK_THREAD_CPUTIME_ID);
  }
  void lower() noexcept {
    if (!raised_) return;
    raised_ = false;
    spent_ += nanosOf(CLOCK_THREAD_CPUTIME_ID) - raisedAt_;
    const sched_param none{};
    ::sched_setscheduler(0, found_, &none);
  }

  std::int64_t most_;  // CPU time in a window
  bool raised_{false};
  int found_{SCHED_OTHER};
  std::int64_t windowFrom_{0};
  std::int64_t spent_{0};  // in the window, before raisedAt_
  std::int64_t raisedAt_{0};
};

}  // namespace

struct RealtimeApplier::Impl {
  struct Hired {
    std::shared_ptr<Writer> writer;
    std::thread thread;
    std::vector<std::shared_ptr<ApplyBatch>> given;  // kept until the writer is done with them, in order
    std::uint64_t released{0};
  };

  EventLoop& loop;
  RealtimeApplierConfig config;
  std::shared_ptr<Shared> shared{std::make_shared<Shared>()};
  std::vector<Hired> hired;
  Hurry hurry;
  std::function<void()> progress;
  TimerHandle watch;

  Impl(EventLoop& eventLoop, const RealtimeApplierConfig& wanted) : loop(eventLoop), config(wanted), hurry(wanted.hurryMost) {}

  Status hire() {
    Hired fresh;
    fresh.writer = std::make_shared<Writer>();
    fresh.writer->bell = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    if (!fresh.writer->bell) return Error{Code::Internal, "NoEventFd", std::string("cannot make an eventfd: ") + std::strerror(errno)};
    fresh.thread = std::thread([keep = shared, writer = fresh.writer] { writerMain(keep, writer); });
    hired.push_back(std::move(fresh));
    return {};
  }

  void give(Hired& to, const std::shared_ptr<ApplyBatch>& batch) {
    if (!to.writer->inbox.push(batch.get())) return;  // 64 batches behind a stuck writer: this one's deadline calls a helper
    to.given.push_back(batch);
    ring(to.writer->bell.get());
  }

  void release() {
    for (Hired& one : hired) {
      const std::uint64_t taken = one.writer->taken.load(std::memory_order_acquire);
      while (one.released < taken && !one.given.empty()) {
        one.given.erase(one.given.begin());
        ++one.released;
      }
    }
  }

  void onProgress() {
    std::uint64_t rings = 0;
    [[maybe_unused]] const ssize_t got = ::read(shared->progress.get(), &rings, sizeof rings);
    release();
    if (progress) progress();
  }
};

RealtimeApplier::RealtimeApplier(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<RealtimeApplier>> RealtimeApplier::create(EventLoop& loop, const RealtimeApplierConfig& config) {
  auto impl = std::make_unique<Impl>(loop, config);
  impl->shared->execute = config.execute;
  impl->shared->realtime = config.realtime;
  impl->shared->progress = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!impl->shared->progress) return Error{Code::Internal, "NoEventFd", std::string("cannot make an eventfd: ") + std::strerror(errno)};
  impl->hired.reserve(static_cast<std::size_t>(config.mostHelpers) + 1);
  if (const Status first = impl->hire(); !first) return first.error();
  impl->watch = loop.whenReadable(impl->shared->progress.get(), [raw = impl.get()] { raw->onProgress(); });
  return std::unique_ptr<RealtimeApplier>(new RealtimeApplier(std::move(impl)));
}

RealtimeApplier::~RealtimeApplier() {
  impl_->watch.reset();
  impl_->hurry.set(false);
  for (Impl::Hired& one : impl_->hired) {
    one.writer->stopping.store(true, std::memory_order_release);
    ring(one.writer->bell.get());
  }
  for (Impl::Hired& one : impl_->hired) {
    const std::int64_t until = monotonicNanos() + 200'000'000;
    while (!one.writer->ended.load(std::memory_order_acquire) && monotonicNanos() < until) {
      const timespec moment{0, 200'000};
      ::nanosleep(&moment, nullptr);
    }
    if (one.writer->ended.load(std::memory_order_acquire)) {
      one.thread.join();
    } else {  // stuck in the kernel: it keeps what it uses, and is left behind
      one.writer->abandoned = std::move(one.given);
      one.thread.detach();
    }
  }
}

void RealtimeApplier::setProgress(std::function<void()> progress) { impl_->progress = std::move(progress); }

void RealtimeApplier::submit(std::shared_ptr<ApplyBatch> batch) {
  impl_->release();
  impl_->give(impl_->hired.front(), batch);
}

void RealtimeApplier::helpOut(std::shared_ptr<ApplyBatch> batch) {
  impl_->release();
  for (std::size_t i = 1; i < impl_->hired.size(); ++i) {
    if (!impl_->hired[i].given.empty()) continue;  // busy, perhaps stuck itself
    impl_->give(impl_->hired[i], batch);
    return;
  }
  if (static_cast<int>(impl_->hired.size()) > impl_->config.mostHelpers) return;
  if (impl_->hire().ok()) impl_->give(impl_->hired.back(), batch);
}

void RealtimeApplier::hurry(bool wanted) {
  const bool fifo = impl_->shared->policy.load(std::memory_order_acquire) == static_cast<int>(Policy::Fifo);
  impl_->hurry.set(wanted && fifo);
}

RealtimeApplier::Policy RealtimeApplier::policy() const {
  int seen = impl_->shared->policy.load(std::memory_order_acquire);
  for (int tries = 0; seen < 0 && tries < 1000; ++tries) {  // its first act
    const timespec moment{0, 100'000};
    ::nanosleep(&moment, nullptr);
    seen = impl_->shared->policy.load(std::memory_order_acquire);
  }
  return seen < 0 ? Policy::Ordinary : static_cast<Policy>(seen);
}

std::string RealtimeApplier::policyText() const {
  switch (policy()) {
    case Policy::Fifo: return "plans are applied by a real-time thread (SCHED_FIFO 1)";
    case Policy::Nice: return "plans are applied at nice -15: no real-time budget here, so a change may take some milliseconds on a busy machine";
    case Policy::Ordinary: break;
  }
  return "plans are applied by an ordinary thread: without CAP_SYS_NICE a change may take up to 0.1 s on a busy machine";
}

}  // namespace coterie::agent
