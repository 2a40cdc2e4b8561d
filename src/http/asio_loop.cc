#include "http/asio_loop.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <utility>

#include "http/asio_loop_impl.h"

namespace coterie::http {

namespace asio = boost::asio;

Instant SystemClock::now() const { return Instant(std::chrono::duration_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch())); }
WallTime SystemClock::wall() const { return {std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch()).count()}; }

AsioLoop::AsioLoop() : impl_(std::make_unique<Impl>()) {}
AsioLoop::~AsioLoop() = default;

void AsioLoop::run() {
  const auto guard = asio::make_work_guard(impl_->context);
  impl_->context.restart();
  impl_->context.run();
}

std::size_t AsioLoop::poll() {
  impl_->context.restart();
  return impl_->context.poll();
}

bool AsioLoop::runUntil(const std::function<bool()>& done, Nanos limit) {
  const auto guard = asio::make_work_guard(impl_->context);
  impl_->context.restart();
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (impl_->context.run_one_until(end) == 0) return done();
  }
  return true;
}

void AsioLoop::stop() { impl_->context.stop(); }

void AsioLoop::post(std::function<void()> callback) { asio::post(impl_->context, std::move(callback)); }

TimerHandle AsioLoop::after(Nanos delay, std::function<void()> callback) {
  struct State {
    State(asio::io_context& context, Nanos delay, std::function<void()> f) : timer(context, delay), callback(std::move(f)) {}
    asio::steady_timer timer;
    std::function<void()> callback;  // empty: cancelled or done
  };
  auto state = std::make_shared<State>(impl_->context, delay, std::move(callback));
  state->timer.async_wait([state](const boost::system::error_code&) {
    // An expired timer whose handler is queued cannot be cancelled any more; the emptied callback is what counts.
    if (auto f = std::exchange(state->callback, nullptr)) f();
  });
  return TimerHandle([weak = std::weak_ptr<State>(state)] {
    if (const auto kept = weak.lock()) {
      kept->callback = nullptr;
      kept->timer.cancel();
    }
  });
}

namespace {
// Waits for one descriptor again and again. The descriptor is the caller's: it is released, never closed.
struct Readable : std::enable_shared_from_this<Readable> {
  Readable(asio::io_context& context, int fd, std::function<void()> f)
      : descriptor(context, fd), callback(std::make_shared<std::function<void()>>(std::move(f))) {}
  ~Readable() {
    if (descriptor.is_open()) descriptor.release();
  }
  void wait() {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](const boost::system::error_code& ec) {
      if (ec || !self->callback) return;
      const std::shared_ptr<std::function<void()>> running = self->callback;
      (*running)();
      if (self->callback) self->wait();
    });
  }
  void cancel() {
    callback = nullptr;
    if (descriptor.is_open()) descriptor.release();
  }

  asio::posix::stream_descriptor descriptor;
  std::shared_ptr<std::function<void()>> callback;  // shared: it stays alive while it runs, even if it resets its own handle
};
}  // namespace

TimerHandle AsioLoop::whenReadable(int fd, std::function<void()> callback) {
  auto readable = std::make_shared<Readable>(impl_->context, fd, std::move(callback));
  readable->wait();
  return TimerHandle([weak = std::weak_ptr<Readable>(readable)] {
    if (const auto kept = weak.lock()) kept->cancel();
  });
}

}  // namespace coterie::http
