#include "http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "base/log.h"
#include "http/connection.h"
#include "http/server_core.h"

namespace coterie::http {
namespace {

constexpr int kBacklog = 4096;
constexpr int kAcceptsPerWake = 64;  // then other connections get their turn
constexpr Nanos kPauseWithoutDescriptors = Millis(100);

Error systemError(const std::string& what, int error) {
  const bool used = error == EADDRINUSE;
  return {used ? Code::Conflict : Code::Internal, used ? "AddressInUse" : "ListenFailed", what + ": " + std::strerror(error)};
}

struct TcpAddress {
  sockaddr_storage storage{};
  socklen_t length{0};
  bool loopback{false};
};

Result<TcpAddress> parseAddress(const std::string& text, std::uint16_t port) {
  TcpAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.length = sizeof(sockaddr_in);
    address.loopback = (ntohl(v4->sin_addr.s_addr) >> 24U) == 127;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.length = sizeof(sockaddr_in6);
    address.loopback = std::memcmp(&v6->sin6_addr, &in6addr_loopback, sizeof(in6_addr)) == 0;
  } else {
    return Error{Code::InvalidArgument, "BadAddress", "'" + text + "' is no IP address to listen on; use for example 127.0.0.1 or ::1"};
  }
  return address;
}

// True: a server listens at this Unix socket.
bool answers(const sockaddr_un& address) {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return true;  // nobody can tell, and a live server's socket is not to be replaced
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 || errno == EAGAIN;
}

Nanos tickOf(const Limits& limits) {
  const Nanos shortest = std::min({limits.headerTimeout, limits.bodyIdleTimeout, limits.keepAliveTimeout, limits.writeTimeout});
  return std::clamp<Nanos>(shortest / 4, Millis(5), Millis(500));
}

}  // namespace

bool isLoopback(const std::string& address) {
  const auto parsed = parseAddress(address, 0);
  return parsed.ok() && parsed->loopback;
}

Server::Core::Core(AsioLoop& l, const ServerOptions& o, RequestHandler& h) : loop(l), options(o), handler(h), tickLength(tickOf(o.limits)) {
  refreshTime();
}

Server::Core::~Core() = default;

void Server::Core::refreshTime() {
  coarseNow = loop.clock().now();
  const std::int64_t second = loop.clock().wall().micros / 1'000'000;
  if (second == dateSecond) return;
  dateSecond = second;
  std::tm utc{};
  const auto seconds = static_cast<std::time_t>(second);
  ::gmtime_r(&seconds, &utc);
  std::array<char, 64> text{};
  // The C locale's names of days and months, as the standard wants; nothing here calls setlocale.
  const std::size_t length = std::strftime(text.data(), text.size(), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
  date.assign(text.data(), length);
}

void Server::Core::armTick() {
  tickTimer = loop.after(tickLength, [this] { tick(); });
}

void Server::Core::tick() {
  const auto self = shared_from_this();
  refreshTime();
  std::vector<std::shared_ptr<Connection>> overdue;
  for (const auto& connection : connections) {
    if (connection->overdue(coarseNow)) overdue.push_back(connection);
  }
  for (const auto& connection : overdue) {
    if (connection->overdue(coarseNow)) connection->timeOut();
  }
  // Without connections nothing ticks.
  if (connections.empty())
    tickTimer.reset();
  else
    armTick();
}

void Server::Core::listen(UniqueFd fd) {
  listener = std::move(fd);
  acceptHandle = loop.whenReadable(listener.get(), [this] { acceptSome(); });
}

void Server::Core::acceptSome() {
  const auto self = shared_from_this();
  for (int i = 0; i < kAcceptsPerWake && listener; ++i) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    UniqueFd fd(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&address), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      if (static_cast<int>(connections.size()) >= options.limits.connections) {
        refuseConnection(std::move(fd));
        continue;
      }
      const Peer peer = local ? Peer::local(fd.get()) : Peer::of(address);
      add(std::move(fd), peer);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      log::warning("http", std::string("cannot accept connections: ") + std::strerror(errno) +
                               "; raise the limit of open files (ulimit -n). Trying again in 0.1 s");
      acceptHandle.reset();
      acceptPause = loop.after(kPauseWithoutDescriptors, [this] {
        if (listener) acceptHandle = loop.whenReadable(listener.get(), [this] { acceptSome(); });
      });
      return;
    }
    if (errno != ECONNABORTED && errno != EINTR) return;
  }
}

void Server::Core::add(UniqueFd fd, const Peer& peer) {
  if (closed || draining) return;
  closeIdleOf(peer);
  if (peer.kind != Peer::Kind::Local) {
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  if (connections.empty()) {
    refreshTime();
    armTick();
  }
  ++stats.accepted;
  ++stats.open;
  auto connection = std::make_shared<Connection>(shared_from_this(), std::move(fd), peer);
  connection->place = connections.insert(connections.end(), connection);
  connection->start();
}

// Makes room for one more of that peer. O(connections), and only while there are more than the limit.
void Server::Core::closeIdleOf(const Peer& peer) {
  const int most = peer.kind == Peer::Kind::Remote ? options.limits.idlePerPeer : options.limits.idlePerLoopback;
  if (most <= 0 || static_cast<int>(connections.size()) < most) return;
  int idle = 0;
  std::shared_ptr<Connection> longest;
  for (const auto& connection : connections) {
    if (!connection->idle() || connection->peer() != peer) continue;
    ++idle;
    if (longest == nullptr || connection->idleSince() < longest->idleSince()) longest = connection;
  }
  if (idle < most) return;
  ++stats.closedIdle;
  longest->close();
}

// Says why, as far as one write goes, and closes: whoever floods us with connections must not cost memory.
void Server::Core::refuseConnection(UniqueFd fd) {
  static constexpr std::string_view kRefusal =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 78\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
      "{\"error\":\"this server has too many connections\",\"reason\":\"TooManyConnections\"}";
  ++stats.refusedConnections;
  // What the client has sent already is taken first: unread bytes at close would turn the answer into a reset.
  std::array<char, 4096> unread{};
  (void)::recv(fd.get(), unread.data(), unread.size(), MSG_DONTWAIT);
  (void)::send(fd.get(), kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(fd.get(), SHUT_WR);
}

void Server::Core::remove(Connection& connection) {
  --stats.open;
  connections.erase(connection.place);
  if (connections.empty() && draining) {
    // Not from inside a connection's callbacks.
    loop.post([weak = weak_from_this()] {
      if (const auto core = weak.lock()) core->finishDrain();
    });
  }
}

void Server::Core::stopAccepting() {
  acceptHandle.reset();
  acceptPause.reset();
  listener.reset();
  if (!socketPath.empty()) ::unlink(std::exchange(socketPath, {}).c_str());
}

void Server::Core::closeAll() {
  const std::vector<std::shared_ptr<Connection>> all(connections.begin(), connections.end());
  for (const auto& connection : all) connection->close();
}

void Server::Core::drain(Nanos grace, std::function<void()> done) {
  draining = true;
  drained = std::move(done);
  stopAccepting();
  graceTimer = loop.after(grace, [this] {
    const auto self = shared_from_this();
    closeAll();
  });
  const std::vector<std::shared_ptr<Connection>> all(connections.begin(), connections.end());
  for (const auto& connection : all) connection->drain();
  if (all.empty()) {
    loop.post([weak = weak_from_this()] {
      if (const auto core = weak.lock()) core->finishDrain();
    });
  }
}

void Server::Core::finishDrain() {
  if (!connections.empty() || closed) return;
  graceTimer.reset();
  tickTimer.reset();
  if (const auto done = std::exchange(drained, nullptr)) done();
}

// --- Server

Server::Server(std::shared_ptr<Core> core) : core_(std::move(core)) {}

Server::~Server() {
  core_->closed = true;
  core_->drained = nullptr;
  core_->stopAccepting();
  core_->closeAll();
  core_->tickTimer.reset();
  core_->graceTimer.reset();
}

Result<std::unique_ptr<Server>> Server::listenTcp(AsioLoop& loop, const std::string& address, std::uint16_t port, const ServerOptions& options,
                                                  RequestHandler& handler) {
  auto parsed = parseAddress(address, port);
  if (!parsed.ok()) return parsed.error();
  if (!parsed->loopback && !options.allowNonLoopback) {
    return Error{Code::PermissionDenied, "NotLoopback",
                 "clear text is served on loopback only, not on " + address + "; --allow-non-loopback allows it where the network is trusted"};
  }
  UniqueFd fd(::socket(parsed->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const std::string where = "listening on " + address + " port " + std::to_string(port);
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&parsed->storage), parsed->length) != 0 || ::listen(fd.get(), kBacklog) != 0)
    return systemError(where, errno);
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) return systemError(where, errno);
  auto core = std::make_shared<Core>(loop, options, handler);
  core->port = ntohs(bound.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&bound)->sin_port
                                                : reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port);
  core->listen(std::move(fd));
  return std::unique_ptr<Server>(new Server(std::move(core)));
}

Result<std::unique_ptr<Server>> Server::listenUnix(AsioLoop& loop, const std::string& path, const ServerOptions& options, RequestHandler& handler) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Error{Code::InvalidArgument, "BadAddress", "the socket's path '" + path + "' must have 1 to 107 bytes; use a shorter state folder"};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const std::string where = "listening on " + path;
  // The file gets the descriptor's mode at bind, so that there is no moment in which others may connect.
  if (!fd || ::fchmod(fd.get(), 0600) != 0) return systemError(where, errno);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(fd.get(), generic, sizeof(address)) != 0) {
    if (errno != EADDRINUSE) return systemError(where, errno);
    if (answers(address)) return systemError(where, EADDRINUSE);
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return Error{Code::Conflict, "AddressInUse", path + " exists and is no socket"};
    ::unlink(path.c_str());
    if (::bind(fd.get(), generic, sizeof(address)) != 0) return systemError(where, errno);
  }
  if (::listen(fd.get(), kBacklog) != 0) return systemError(where, errno);
  auto core = std::make_shared<Core>(loop, options, handler);
  core->local = true;
  core->socketPath = path;
  core->listen(std::move(fd));
  return std::unique_ptr<Server>(new Server(std::move(core)));
}

std::unique_ptr<Server> Server::detached(AsioLoop& loop, const ServerOptions& options, RequestHandler& handler) {
  return std::unique_ptr<Server>(new Server(std::make_shared<Core>(loop, options, handler)));
}

std::uint16_t Server::port() const { return core_->port; }
const ServerStats& Server::stats() const { return core_->stats; }

void Server::adopt(UniqueFd connection) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getpeername(connection.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) address = {};
  const Peer peer = address.ss_family == AF_UNIX ? Peer::local(connection.get()) : Peer::of(address);
  core_->add(std::move(connection), peer);
}

void Server::drain(Nanos grace, std::function<void()> done) { core_->drain(grace, std::move(done)); }

}  // namespace coterie::http
