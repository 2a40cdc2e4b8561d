// HTTP/1.1 server: bodies go from the socket straight into memory that the handler chooses, responses leave in one gather write.
//
// A handler gets each request when its header is complete, decides (refuse, read the body into its own memory, answer) and answers now or later, from
// the loop's thread. Requests of one connection are handled one after the other; pipelined ones wait. Handlers must not assume one request per
// connection: RequestContext is the seam at which HTTP/2 joins. Bad framing (Content-Length beside Transfer-Encoding, several lengths, bad chunks,
// obs-fold, no Host, a bare CR or LF), slow clients and excess are refused here with {"error","reason"} and never reach a handler, or end its body
// read with an error; Limits has the numbers. Cost per request: no allocation of the server's own in steady state, 2-3 system calls, no clock call
// (deadlines are kept to a coarse tick). Thread rule: everything on the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "http/asio_loop.h"
#include "http/message.h"
#include "http/peer.h"

namespace coterie::http {

// One request and the way to its answer. The handler keeps it as long as it needs it and calls respond() (or startStream()) exactly once, also when
// the client has gone (then it is a no-op whose `done` says Cancelled). Callbacks run at most once, on the loop's thread, possibly before the call
// returns.
class RequestContext {
 public:
  using Done = std::function<void(Status)>;

  virtual ~RequestContext() = default;

  // Valid until respond() or startStream() is called, also if the client goes meanwhile.
  [[nodiscard]] virtual const RequestHead& head() const = 0;

  // --- Body. Reads are sequential: one at a time, each continues where the last ended. A request answered with body unread is fine: the server skips
  // it. Bytes of a Content-Length body not yet given out; 0 for chunked bodies.
  [[nodiscard]] virtual std::uint64_t bodyRemaining() const = 0;
  // Reads exactly the bytes that fit into `parts` (filled in order); their sum must be <= bodyRemaining(), so not for chunked bodies. The memory must
  // stay valid until `done`, which is called even if this object was given up or the server is destroyed. An error (Cancelled/ClientGone,
  // Cancelled/ClientTooSlow): the server has dealt with the client, respond() is a no-op now.
  virtual void readInto(std::span<const std::span<std::byte>> parts, Done done) = 0;
  // The rest of the body as text, either framing. More than `limit` bytes: TooLarge/BodyTooLarge, and the handler answers. Bad chunks:
  // InvalidArgument/BadChunk, and the handler may answer; the connection closes after it. Else errors as above.
  virtual void readAll(std::size_t limit, std::function<void(Result<std::string>)> done) = 0;
  // The same for memory that somebody counts: `mayHold(total)` is asked before the text grows beyond the total last allowed. Its error ends the read
  // with that error, and the handler answers. Totals at least double from one question to the next.
  using MayHold = std::function<Status(std::uint64_t total)>;
  virtual void readCounted(std::size_t limit, MayHold mayHold, std::function<void(Result<std::string>)> done) = 0;

  // --- Client. Called once if the client closes while the request waits for its answer (body read completely); at once if it has gone already.
  // A half-closed client counts as gone. respond() remains allowed.
  virtual void onClientGone(std::function<void()> callback) = 0;
  [[nodiscard]] virtual bool clientGone() const = 0;
  // Who is at the other end of the connection: the nearest hop, whatever headers say.
  [[nodiscard]] virtual const Peer& peer() const = 0;
  // Came through a Unix socket: the user who connected, as the kernel says (SO_PEERCRED). Nothing over TCP.
  [[nodiscard]] std::optional<std::uint32_t> localUser() const { return peer().user; }
  // For logs: "192.0.2.7", "2001:db8:1:2::/64" (a customer has at least that), "loopback", "user 1000". Allocates.
  [[nodiscard]] std::string source() const { return peer().text(); }

  // --- Answer. done: the last byte was given to the kernel, or Cancelled/ClientGone. May be empty.
  virtual void respond(Response response, Done done = {}) = 0;
  // A response of unknown length (watches, logs): chunked, or until close for HTTP/1.0. body and parts of `head` are not used.
  virtual void startStream(Response head) = 0;
  // Queues a piece. False: the client has gone or reads too slowly (over Limits.streamBacklog); stop then.
  virtual bool write(std::string_view piece) = 0;
  virtual void endStream() = 0;
};

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  virtual void onRequest(const std::shared_ptr<RequestContext>& request) = 0;
};

struct Limits {
  std::size_t headerBytes{16 * 1024};    // request line and headers together; more: 431
  int headers{100};                      // number of headers; more: 431
  Bytes bodyBytes{256LL * 1024 * 1024};  // Content-Length above: 413 before the handler sees it
  int connections{1024};                 // open at once, per server; more: 503 and closed
  // Connections of one peer (an IPv4 address, an IPv6 /64) on which no request is under way; at one more its longest idle one is closed, as HTTP
  // allows at any time. 0: none. By default a quarter of `connections`; all clients on this machine are one peer, so they have three quarters.
  int idlePerPeer{256};
  int idlePerLoopback{768};                // also of Unix sockets
  Millis headerTimeout{10'000};            // from the first byte (or the accept) to the complete header; then 408
  Millis bodyIdleTimeout{30'000};          // without a byte of the body while a read waits; then 408
  Bytes minBodyBytesPerSecond{1024};       // average a body must keep after bodyIdleTimeout; 0: no minimum
  Millis keepAliveTimeout{75'000};         // between requests; then closed silently
  Millis writeTimeout{30'000};             // without progress of a response's write; then closed
  Bytes streamBacklog{4LL * 1024 * 1024};  // unsent bytes of one stream
};

struct ServerOptions {
  Limits limits;
  bool allowNonLoopback{false};  // clear text leaves the machine only if somebody said so
};

struct ServerStats {  // counters since the start; `open` is now
  std::int64_t open{0};
  std::int64_t accepted{0};
  std::int64_t requests{0};
  std::int64_t refusedConnections{0};  // over Limits.connections
  std::int64_t closedIdle{0};          // over Limits.idlePerPeer
  std::int64_t badRequests{0};         // refused by the server itself: 400, 413, 417, 431, 505
  std::int64_t timeouts{0};            // header, body and write timeouts
  std::int64_t clientsGone{0};         // in mid-request
};

// True for 127.0.0.0/8 and ::1; false for all else, also for what is no address.
[[nodiscard]] bool isLoopback(const std::string& address);

class Server {
 public:
  // address: an IP address ("127.0.0.1", "::1"); port 0: the kernel's choice, see port(). InvalidArgument/BadAddress, PermissionDenied/NotLoopback,
  // Conflict/AddressInUse, Internal/ListenFailed. loop and handler must outlive the server.
  [[nodiscard]] static Result<std::unique_ptr<Server>> listenTcp(AsioLoop& loop, const std::string& address, std::uint16_t port,
                                                                 const ServerOptions& options, RequestHandler& handler);
  // A socket file of mode 0600. A stale file of a dead server is replaced; a live one is Conflict/AddressInUse. Removed at the end.
  [[nodiscard]] static Result<std::unique_ptr<Server>> listenUnix(AsioLoop& loop, const std::string& path, const ServerOptions& options,
                                                                  RequestHandler& handler);
  // Without a listener: serves only adopted connections.
  [[nodiscard]] static std::unique_ptr<Server> detached(AsioLoop& loop, const ServerOptions& options, RequestHandler& handler);
  // Closes all connections; pending body reads and writes complete with Cancelled/ClientGone.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const;  // 0 for a Unix socket
  [[nodiscard]] const ServerStats& stats() const;
  // Serves an already connected stream socket.
  void adopt(UniqueFd connection);
  // Stops accepting, closes idle connections, lets requests under way finish (Connection: close), closes what remains after `grace`, then calls done.
  void drain(Nanos grace, std::function<void()> done);

  struct Core;  // server_core.h, for this folder's sources

 private:
  explicit Server(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace coterie::http
