#include "testing/http_load.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace coterie::testing {

namespace {

struct TaskHeader {
  std::uint16_t port{0};
  int connections{0};
  std::int64_t nanos{0};
  double rate{0};
  std::uint64_t bytes{0};
  bool poisson{false};
  std::int64_t deadline{0};
};

std::int64_t nowNanos() { return std::chrono::duration_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool readAll(int fd, void* to, std::size_t size) {
  for (auto* at = static_cast<char*>(to); size > 0;) {
    const ssize_t got = ::read(fd, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool writeAll(int fd, const void* from, std::size_t size) {
  for (const auto* at = static_cast<const char*>(from); size > 0;) {
    const ssize_t put = ::write(fd, at, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

class Connection {
 public:
  Connection(std::uint16_t port, const std::string& request, std::int64_t deadline, HttpLoadResult& result)
      : port_(port), request_(request), head_(request.find("\r\n\r\n") + 4), deadline_(deadline), result_(result), buffer_(256 * 1024) {}

  bool connect(int epoll) {
    fd_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = this;
    return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd_.get(), &event) == 0;
  }

  void begin(int epoll, std::int64_t due) {
    ++result_.sent;
    started_ = due;
    begun_ = nowNanos();
    headSent_ = 0;
    sent_ = 0;
    filled_ = 0;
    wanted_ = 0;
    write(epoll);
  }

  void write(int epoll) {
    while (sent_ < request_.size()) {
      const ssize_t put = ::send(fd_.get(), request_.data() + sent_, request_.size() - sent_, MSG_NOSIGNAL);
      if (put < 0) break;
      sent_ += static_cast<std::size_t>(put);
      if (headSent_ == 0 && sent_ >= head_) headSent_ = nowNanos();
    }
    const bool more = sent_ < request_.size();
    if (more == waitsToWrite_) return;
    waitsToWrite_ = more;
    epoll_event event{};
    event.events = EPOLLIN | (more ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
    event.data.ptr = this;
    ::epoll_ctl(epoll, EPOLL_CTL_MOD, fd_.get(), &event);
  }

  // True if the answer is complete (or lost) and the next request may go out.
  bool read(int epoll) {
    const ssize_t got = ::recv(fd_.get(), buffer_.data() + (wanted_ == 0 ? filled_ : 0), buffer_.size() - (wanted_ == 0 ? filled_ : 0), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) return lost(epoll);
    filled_ += static_cast<std::size_t>(got);
    if (wanted_ == 0 && !parseHead()) return filled_ == buffer_.size() ? lost(epoll) : false;
    if (filled_ < wanted_) return false;
    const std::int64_t now = nowNanos();
    if (ok_) result_.latency.record(now - started_);
    if (ok_ && now - begun_ <= deadline_) ++result_.inTime;
    if (!ok_) result_.refusals.record(now - headSent_);
    ++(ok_ ? result_.requests : result_.errors);
    if (sent_ == request_.size()) return true;
    waitsToWrite_ = false;  // answered before the body was there: the rest is not sent
    return connect(epoll);
  }

 private:
  bool lost(int epoll) {
    ++result_.errors;
    waitsToWrite_ = false;
    return connect(epoll);
  }
  bool parseHead() {
    const std::string_view text(buffer_.data(), filled_);
    const std::size_t end = text.find("\r\n\r\n");
    if (end == std::string_view::npos) return false;
    ok_ = text.substr(8, 5) == " 200 ";
    constexpr std::string_view kLength = "Content-Length: ";
    std::size_t length = 0;
    if (const std::size_t at = text.find(kLength); at < end) std::from_chars(text.data() + at + kLength.size(), text.data() + end, length);
    wanted_ = end + 4 + length;
    return true;
  }

  std::uint16_t port_;
  const std::string& request_;
  std::size_t head_;
  std::int64_t deadline_;
  HttpLoadResult& result_;
  std::vector<char> buffer_;
  UniqueFd fd_;
  std::size_t sent_{0};
  std::size_t filled_{0};
  std::size_t wanted_{0};
  std::int64_t started_{0};  // when it was due
  std::int64_t begun_{0};
  std::int64_t headSent_{0};
  bool ok_{false};
  bool waitsToWrite_{false};
};

// Which connection sends when.
class Schedule {
 public:
  Schedule(const TaskHeader& task, std::int64_t start)
      : interval_(task.rate > 0 ? 1e9 / task.rate : 0), poisson_(task.poisson), nextDue_(static_cast<double>(start)) {}

  // The connection is free: it sends at once, or when the next request is due.
  void free(Connection& connection, int epoll) {
    if (interval_ == 0) return connection.begin(epoll, nowNanos());
    idle_.push_back(&connection);
  }
  void sendDue(int epoll) {
    while (interval_ > 0 && !idle_.empty() && nextDue() <= nowNanos()) {
      Connection* const connection = idle_.back();
      idle_.pop_back();
      connection->begin(epoll, nextDue());
      const double part = static_cast<double>(rng_.between(1, 1'000'000'000)) / 1e9;
      nextDue_ += poisson_ ? -std::log(part) * interval_ : interval_;
    }
  }
  // How long to wait for events: until something is due.
  [[nodiscard]] std::int64_t patience() const {
    constexpr std::int64_t kLong = 100'000'000;
    if (interval_ == 0 || idle_.empty()) return kLong;
    return std::clamp<std::int64_t>(nextDue() - nowNanos(), 0, kLong);
  }

 private:
  [[nodiscard]] std::int64_t nextDue() const { return static_cast<std::int64_t>(nextDue_); }
  double interval_;
  bool poisson_;
  double nextDue_;
  Rng rng_{1};
  std::vector<Connection*> idle_;
};

void work(const TaskHeader& task, const std::string& request, HttpLoadResult& result) {
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  std::vector<std::unique_ptr<Connection>> connections;
  const std::int64_t start = nowNanos();
  Schedule schedule(task, start);
  for (int i = 0; i < task.connections; ++i) {
    connections.push_back(std::make_unique<Connection>(task.port, request, task.deadline, result));
    if (connections.back()->connect(epoll.get()))
      schedule.free(*connections.back(), epoll.get());
    else
      ++result.errors;
  }
  std::array<epoll_event, 64> events{};
  while (nowNanos() < start + task.nanos) {
    schedule.sendDue(epoll.get());
    const std::int64_t patience = schedule.patience();
    const timespec timeout{0, patience};
    const int count = ::epoll_pwait2(epoll.get(), events.data(), static_cast<int>(events.size()), &timeout, nullptr);
    for (int i = 0; i < count; ++i) {
      auto* const connection = static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr);
      if ((events[static_cast<std::size_t>(i)].events & EPOLLOUT) != 0) connection->write(epoll.get());
      if ((events[static_cast<std::size_t>(i)].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && connection->read(epoll.get()))
        schedule.free(*connection, epoll.get());
    }
  }
  result.wall = Nanos(nowNanos() - start);
}

[[noreturn]] void serve(int tasks, int results) {
  TaskHeader task;
  while (readAll(tasks, &task, sizeof task)) {
    std::string request(task.bytes, '\0');
    if (!readAll(tasks, request.data(), request.size())) break;
    HttpLoadResult result;
    work(task, request, result);
    if (!writeAll(results, &result, sizeof result)) break;
  }
  ::_exit(0);
}

}  // namespace

static_assert(std::is_trivially_copyable_v<HttpLoadResult>, "sent through a pipe as it is");

Result<std::unique_ptr<HttpLoad>> HttpLoad::start() {
  std::array<int, 2> tasks{};
  std::array<int, 2> results{};
  if (::pipe2(tasks.data(), O_CLOEXEC) != 0 || ::pipe2(results.data(), O_CLOEXEC) != 0)
    return Error{Code::Unavailable, "NoPipe", "cannot make a pipe for the load generator"};
  const pid_t child = ::fork();
  if (child < 0) return Error{Code::Unavailable, "NoProcess", "cannot start the load generator"};
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(tasks[1]);
    ::close(results[0]);
    serve(tasks[0], results[1]);
  }
  ::close(tasks[0]);
  ::close(results[1]);
  return std::unique_ptr<HttpLoad>(new HttpLoad(child, UniqueFd(tasks[1]), UniqueFd(results[0])));
}

HttpLoad::~HttpLoad() {
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

Status HttpLoad::begin(const HttpLoadTask& task) {
  const TaskHeader header{task.port,           task.connections, task.duration.count(), task.ratePerSecond,
                          task.request.size(), task.poisson,     task.deadline.count()};
  if (writeAll(tasks_.get(), &header, sizeof header) && writeAll(tasks_.get(), task.request.data(), task.request.size())) return {};
  return Error{Code::Unavailable, "LoadEnded", "the load generator has ended"};
}

Result<HttpLoadResult> HttpLoad::finish() {
  HttpLoadResult result;
  if (!readAll(results_.get(), &result, sizeof result)) return Error{Code::Unavailable, "LoadEnded", "the load generator has ended"};
  return result;
}

}  // namespace coterie::testing
