// A small synchronous HTTP/1.1 client over TCP or a Unix socket: for the CLI and for tests. Not for the request path.
//
// One connection, kept alive between requests and opened again when the server has closed it meanwhile (only for requests of which nothing was
// answered on a reused connection). Its response parser is its own, so tests of the server do not check Beast with Beast. Errors:
// Unavailable/Unreachable (no server there), Unavailable/ConnectionLost, DeadlineExceeded/Timeout, Internal/BadResponse. A response of any status is
// a value, not an error. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace coterie::http {

struct ClientRequest {
  std::string method{"GET"};
  std::string target{"/"};
  std::vector<std::pair<std::string, std::string>> headers;  // beside Host and Content-Length
  std::string body;                                          // Content-Length is sent if not empty or the method is not GET, HEAD or DELETE
};

struct ClientResponse {
  int status{0};
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // The first header of that name (any case), or "".
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

class Client {
 public:
  enum class Next : std::uint8_t { Continue, Stop };
  struct Timeouts {
    Millis connect{5'000};
    Millis idle{60'000};  // between two pieces from the server; 0: wait for ever
  };

  [[nodiscard]] static Client tcp(std::string address, std::uint16_t port, Timeouts timeouts);
  [[nodiscard]] static Client tcp(std::string address, std::uint16_t port) { return tcp(std::move(address), port, Timeouts{}); }
  [[nodiscard]] static Client unixSocket(std::string path, Timeouts timeouts);
  [[nodiscard]] static Client unixSocket(std::string path) { return unixSocket(std::move(path), Timeouts{}); }

  // tell is called once in each wait for an answer that lasts longer than `after`.
  void whenSilent(Millis after, std::function<void()> tell);

  [[nodiscard]] Result<ClientResponse> request(const ClientRequest& request);
  // Gives each complete line of a 2xx body to onLine as it arrives (the body of the result is then empty); other statuses as request(). Stop ends it
  // and closes the connection.
  [[nodiscard]] Result<ClientResponse> stream(const ClientRequest& request, const std::function<Next(std::string_view line)>& onLine);

  // For tests of the server: the bytes as they are, then the next response.
  [[nodiscard]] Status sendRaw(std::string_view bytes);
  [[nodiscard]] Result<ClientResponse> receive(std::string_view method = "GET");
  // True if the server closes within the idle timeout without sending anything more.
  [[nodiscard]] bool closedByServer();
  // The next close sends a reset instead of an orderly end.
  void resetOnClose();
  [[nodiscard]] Status connect();
  void close();

 private:
  Client() = default;
  using Sink = std::function<Next(std::string_view)>;
  Status fill();
  Status waitFor(short events, Millis limit);
  Status waitForAnswer();
  Result<std::string> takeLine();
  Result<ClientResponse> receiveWith(std::string_view method, const Sink& sink);
  Result<ClientResponse> exchange(const ClientRequest& request, const Sink& sink);
  Status readHead(ClientResponse& response);
  Status readBody(std::string_view method, ClientResponse& response, const Sink& sink);

  std::string address_;
  std::uint16_t port_{0};
  std::string path_;
  Timeouts timeouts_;
  Millis silentAfter_{0};
  std::function<void()> tellSilence_;
  UniqueFd fd_;
  std::string buffer_;  // received, not yet used
  bool stopped_{false};
};

}  // namespace coterie::http
