#include "http/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

#include "http/chunk_decoder.h"
#include "http/message.h"

namespace coterie::http {
namespace {

constexpr std::size_t kMaxLine = 64 * 1024;
constexpr std::size_t kMaxHeaders = 200;

Error lost(const std::string& why) { return {Code::Unavailable, "ConnectionLost", "the connection to the server was lost: " + why}; }
Error badResponse(const std::string& why) { return {Code::Internal, "BadResponse", "the server's answer is not valid HTTP: " + why}; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string_view ClientResponse::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equalsIgnoreCase(key, name)) return value;
  }
  return {};
}

Client Client::tcp(std::string address, std::uint16_t port, Timeouts timeouts) {
  Client client;
  client.address_ = std::move(address);
  client.port_ = port;
  client.timeouts_ = timeouts;
  return client;
}

Client Client::unixSocket(std::string path, Timeouts timeouts) {
  Client client;
  client.path_ = std::move(path);
  client.timeouts_ = timeouts;
  return client;
}

void Client::whenSilent(Millis after, std::function<void()> tell) {
  silentAfter_ = after;
  tellSilence_ = std::move(tell);
}

void Client::close() {
  fd_.reset();
  buffer_.clear();
}

void Client::resetOnClose() {
  const linger hard{1, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

Status Client::waitFor(short events, Millis limit) {
  pollfd poll{fd_.get(), events, 0};
  for (;;) {
    const int ready =
        ::poll(&poll, 1, limit.count() == 0 ? -1 : static_cast<int>(std::min<std::int64_t>(limit.count(), std::numeric_limits<int>::max())));
    if (ready > 0) return {};
    if (ready == 0) return Error{Code::DeadlineExceeded, "Timeout", "the server did not answer within " + std::to_string(limit.count()) + " ms"};
    if (errno != EINTR) return lost(std::strerror(errno));
  }
}

Status Client::connect() {
  close();
  sockaddr_storage storage{};
  socklen_t length = 0;
  const std::string where = path_.empty() ? address_ + ":" + std::to_string(port_) : path_;
  const auto unreachable = [&](const std::string& why) {
    close();
    return Error{Code::Unavailable, "Unreachable", "no server answers at " + where + " (" + why + ")"};
  };
  if (!path_.empty()) {
    auto* address = reinterpret_cast<sockaddr_un*>(&storage);
    if (path_.size() >= sizeof(address->sun_path)) return unreachable("the path is too long for a socket");
    address->sun_family = AF_UNIX;
    std::memcpy(address->sun_path, path_.data(), path_.size());
    length = sizeof(sockaddr_un);
  } else if (auto* v4 = reinterpret_cast<sockaddr_in*>(&storage); ::inet_pton(AF_INET, address_.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port_);
    length = sizeof(sockaddr_in);
  } else if (auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage); ::inet_pton(AF_INET6, address_.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port_);
    length = sizeof(sockaddr_in6);
  } else {
    return unreachable("not an IP address");
  }
  fd_.reset(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_) return unreachable(std::strerror(errno));
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0) {
    if (errno != EINPROGRESS) return unreachable(std::strerror(errno));
    if (auto status = waitFor(POLLOUT, timeouts_.connect); !status.ok()) return unreachable("timeout");
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return unreachable(std::strerror(error));
  }
  if (path_.empty()) {
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return {};
}

Status Client::sendRaw(std::string_view bytes) {
  if (!fd_) {
    if (auto status = connect(); !status.ok()) return status;
  }
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (auto status = waitFor(POLLOUT, timeouts_.idle); !status.ok()) return status;
    } else if (errno != EINTR) {
      return lost(std::strerror(errno));
    }
  }
  return {};
}

// Adds what the server sends next to the buffer. Its end: Unavailable/ConnectionLost.
Status Client::fill() {
  if (!fd_) return lost("it is closed");
  std::array<char, 64 * 1024> piece;
  for (;;) {
    const ssize_t got = ::recv(fd_.get(), piece.data(), piece.size(), 0);
    if (got > 0) return buffer_.append(piece.data(), static_cast<std::size_t>(got)), Status();
    if (got == 0) return lost("the server closed it");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return lost(std::strerror(errno));
    if (auto status = waitForAnswer(); !status.ok()) return status;
  }
}

Status Client::waitForAnswer() {
  if (!tellSilence_) return waitFor(POLLIN, timeouts_.idle);
  if (waitFor(POLLIN, silentAfter_).ok()) return {};
  tellSilence_();
  return waitFor(POLLIN, timeouts_.idle);
}

bool Client::closedByServer() {
  if (!buffer_.empty()) return false;
  const Status status = fill();
  return !status.ok() && status.error().reason == "ConnectionLost";
}

Result<std::string> Client::takeLine() {
  for (;;) {
    const std::size_t end = buffer_.find("\r\n");
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 2);
      return line;
    }
    if (buffer_.size() > kMaxLine) return badResponse("a line of the header is too long");
    if (auto status = fill(); !status.ok()) return status.error();
  }
}

Status Client::readHead(ClientResponse& response) {
  auto line = takeLine();
  if (!line.ok()) return line.error();
  // "HTTP/1.1 200 OK"
  if (line->size() < 12 || line->compare(0, 7, "HTTP/1.") != 0 || (*line)[8] != ' ') return badResponse("status line '" + *line + "'");
  const char* digits = line->data() + 9;
  if (std::from_chars(digits, digits + 3, response.status).ptr != digits + 3) return badResponse("status line '" + *line + "'");
  for (;;) {
    line = takeLine();
    if (!line.ok()) return line.error();
    if (line->empty()) return {};
    const std::size_t colon = line->find(':');
    if (colon == std::string::npos || colon == 0 || response.headers.size() >= kMaxHeaders) return badResponse("header line '" + *line + "'");
    response.headers.emplace_back(line->substr(0, colon), trim(std::string_view(*line).substr(colon + 1)));
  }
}

Status Client::readBody(std::string_view method, ClientResponse& response, const Sink& sink) {
  if (method == "HEAD" || response.status == 204 || response.status == 304) return {};
  const auto give = [&](std::string_view piece) {
    if (!sink) return response.body.append(piece), true;
    if (sink(piece) == Next::Continue) return true;
    stopped_ = true;
    return false;
  };
  if (equalsIgnoreCase(response.header("Transfer-Encoding"), "chunked")) {
    ChunkDecoder decoder;
    for (;;) {
      std::string piece;
      std::size_t consumed = 0;
      const auto state = decoder.decode(buffer_, piece, std::numeric_limits<std::size_t>::max(), consumed);
      buffer_.erase(0, consumed);
      if (!piece.empty() && !give(piece)) return {};
      if (state == ChunkDecoder::State::Done) return {};
      if (state != ChunkDecoder::State::More) return badResponse("a chunk");
      if (auto status = fill(); !status.ok()) return status;
    }
  }
  const std::string_view lengthText = response.header("Content-Length");
  std::uint64_t left = std::numeric_limits<std::uint64_t>::max();
  const bool known = !lengthText.empty();
  if (known && std::from_chars(lengthText.data(), lengthText.data() + lengthText.size(), left).ptr != lengthText.data() + lengthText.size())
    return badResponse("Content-Length");
  while (left > 0) {
    if (buffer_.empty()) {
      const auto status = fill();
      if (!status.ok() && !known && status.error().reason == "ConnectionLost") break;
      if (!status.ok()) return status;
    }
    const std::size_t take = static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer_.size()));
    const std::string piece = buffer_.substr(0, take);
    buffer_.erase(0, take);
    left -= take;
    if (!give(piece)) return {};
  }
  if (!known) close();
  return {};
}

Result<ClientResponse> Client::receive(std::string_view method) { return receiveWith(method, {}); }

Result<ClientResponse> Client::receiveWith(std::string_view method, const Sink& sink) {
  ClientResponse response;
  do {  // interim responses (100) are not the answer
    response = {};
    if (auto status = readHead(response); !status.ok()) return status.error();
  } while (response.status / 100 == 1);
  const bool streamed = sink && response.status / 100 == 2;
  if (auto status = readBody(method, response, streamed ? sink : Sink{}); !status.ok()) return status.error();
  if (equalsIgnoreCase(response.header("Connection"), "close")) close();
  return response;
}

Result<ClientResponse> Client::exchange(const ClientRequest& request, const Sink& sink) {
  std::string head = request.method + " " + request.target + " HTTP/1.1\r\nHost: " + (path_.empty() ? address_ : std::string("localhost")) + "\r\n";
  for (const auto& [name, value] : request.headers) head += name + ": " + value + "\r\n";
  if (!request.body.empty() || (request.method != "GET" && request.method != "HEAD" && request.method != "DELETE")) {
    head += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  }
  head += "\r\n";
  head += request.body;
  const bool reused = fd_.valid();
  // A server that refuses early closes while we still send; its answer counts more than the failed send.
  const Status sent = sendRaw(head);
  if (!sent.ok() && (!fd_ || sent.error().reason == "Timeout")) return sent.error();
  auto response = receiveWith(request.method, sink);
  if (!response.ok() && reused && buffer_.empty() && response.error().reason == "ConnectionLost") {
    if (auto status = connect(); !status.ok()) return status.error();
    if (auto status = sendRaw(head); !status.ok()) return status.error();
    response = receiveWith(request.method, sink);
  }
  if (!response.ok()) close();
  return response;
}

Result<ClientResponse> Client::request(const ClientRequest& request) { return exchange(request, {}); }

Result<ClientResponse> Client::stream(const ClientRequest& request, const std::function<Next(std::string_view)>& onLine) {
  std::string partial;
  stopped_ = false;
  auto response = exchange(request, [&](std::string_view piece) {
    partial.append(piece);
    std::size_t start = 0;
    for (std::size_t end = partial.find('\n'); end != std::string::npos; end = partial.find('\n', start)) {
      if (onLine(std::string_view(partial).substr(start, end - start)) == Next::Stop) return Next::Stop;
      start = end + 1;
    }
    partial.erase(0, start);
    return Next::Continue;
  });
  if (stopped_) close();
  if (response.ok() && !stopped_ && !partial.empty()) (void)onLine(partial);
  return response;
}

}  // namespace coterie::http
