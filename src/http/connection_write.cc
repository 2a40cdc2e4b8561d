// How a connection writes responses: one gather write straight away, the rest when the socket takes more.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <utility>

#include "http/asio_loop_impl.h"
#include "http/connection.h"

namespace coterie::http {
namespace {

constexpr std::uint64_t kSkippable = 256 * 1024;  // an unread body up to this is read and dropped instead of closing the connection

void appendNumber(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

iovec vectorOf(const void* data, std::size_t size) { return {const_cast<void*>(data), size}; }

bool bodyless(int status) { return status == 204 || status == 304; }

}  // namespace

void Connection::writeHead(const Response& response, std::string_view framing, KeepOpen keepOpen) {
  outHead_.clear();
  outHead_.append("HTTP/1.1 ");
  appendNumber(outHead_, static_cast<std::uint64_t>(response.status));
  outHead_.append(" ").append(statusPhrase(response.status)).append("\r\n");
  if (!response.contentType.empty()) outHead_.append("Content-Type: ").append(response.contentType).append("\r\n");
  outHead_.append(framing).append(core_->dateLine()).append(response.headers.text());
  if (keepOpen == KeepOpen::No)
    outHead_.append("Connection: close\r\n");
  else if (exchange_->head_.minorVersion == 0)
    outHead_.append("Connection: keep-alive\r\n");
  outHead_.append("\r\n");
}

void Connection::respond(Response response, Done done) {
  // A handler may answer while its body read is still under way (its deadline passed).
  const Error answered{Code::Cancelled, "Answered", "the request was answered before its body had arrived"};
  if (const auto unfinished = abandonBodyRead()) unfinished(answered);
  if (const auto unfinished = std::exchange(chunksDoneCallback_, nullptr)) unfinished(answered);
  if (state_ == State::Closed) return;
  response_ = std::move(response);
  writeDone_ = std::move(done);
  const std::uint64_t unseen = bodyLeft_ - std::min<std::uint64_t>(bodyLeft_, end_ - begin_);
  const bool bodyReadable = chunked_ ? chunksDone_ && !chunksBad_ : unseen <= kSkippable && !(continueWanted_ && unseen > 0);
  if (!bodyReadable || core_->draining || ended_) closeAfter_ = true;

  std::uint64_t length = response_.body.size();
  for (const auto& part : response_.parts) length += part.size();
  std::string framing;
  if (!bodyless(response_.status)) {
    framing.append("Content-Length: ");
    appendNumber(framing, length);
    framing.append("\r\n");
  }
  writeHead(response_, framing, closeAfter_ ? KeepOpen::No : KeepOpen::Yes);
  out_.clear();
  outAt_ = 0;
  out_.push_back(vectorOf(outHead_.data(), outHead_.size()));
  if (exchange_->head_.method != Method::Head && !bodyless(response_.status)) {
    if (!response_.body.empty()) out_.push_back(vectorOf(response_.body.data(), response_.body.size()));
    for (const auto& part : response_.parts) {
      if (!part.empty()) out_.push_back(vectorOf(part.data(), part.size()));
    }
  }
  state_ = State::Writing;
  deadline_ = Instant::max();
  send();
}

void Connection::send() {
  while (outAt_ < out_.size()) {
    msghdr message{};
    message.msg_iov = out_.data() + outAt_;
    message.msg_iovlen = std::min<std::size_t>(out_.size() - outAt_, IOV_MAX);
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return gone();
      sending_ = true;
      deadline_ = core_->in(core_->options.limits.writeTimeout);
      socket_.async_wait(boost::asio::socket_base::wait_write, [self = shared_from_this()](const boost::system::error_code& ec) {
        self->sending_ = false;
        if (self->state_ == State::Closed) return;
        if (ec) return self->gone();
        self->send();
      });
      return;
    }
    auto left = static_cast<std::size_t>(sent);
    while (left > 0) {
      iovec& piece = out_[outAt_];
      const std::size_t take = std::min(left, piece.iov_len);
      piece.iov_base = static_cast<char*>(piece.iov_base) + take;
      piece.iov_len -= take;
      left -= take;
      if (piece.iov_len == 0) ++outAt_;
    }
  }
  deadline_ = Instant::max();
  onSent();
}

void Connection::onSent() {
  if (state_ == State::Streaming) {
    if (!streamQueue_.empty()) return flushStream();
    if (!streamEnding_) return;
  }
  finishResponse();
}

void Connection::finishResponse() {
  const auto self = shared_from_this();
  response_ = {};
  if (const auto done = std::exchange(writeDone_, nullptr)) done(Status());
  if (state_ == State::Closed) return;
  if (closeAfter_) {
    // Unread bytes at close would make the kernel send a reset, which can destroy the answer on its way.
    const bool unread = bodyLeft_ > 0 || begin_ < end_ || (chunked_ && !chunksDone_);
    exchange_->connection_ = nullptr;
    return unread && !ended_ ? linger() : close();
  }
  if (bodyLeft_ > 0) {
    state_ = State::Skipping;
    deadline_ = core_->in(core_->options.limits.bodyIdleTimeout);
    return skipBody();
  }
  nextRequest();
}

void Connection::startStream(Response head) {
  if (state_ != State::Handling) return;
  streamChunked_ = exchange_->head_.minorVersion == 1;
  streamEnding_ = false;
  if (!streamChunked_ || !bodyComplete()) closeAfter_ = true;
  writeHead(head, streamChunked_ ? "Transfer-Encoding: chunked\r\n" : "", closeAfter_ ? KeepOpen::No : KeepOpen::Yes);
  state_ = State::Streaming;
  streamQueue_ = outHead_;
  flushStream();
}

bool Connection::writeStream(std::string_view piece) {
  if (state_ != State::Streaming || streamEnding_) return false;
  if (static_cast<std::int64_t>(streamQueue_.size() + piece.size()) > core_->options.limits.streamBacklog.value) return false;
  if (piece.empty() || exchange_->head_.method == Method::Head) return true;
  if (streamChunked_) {
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), piece.size(), 16).ptr;
    streamQueue_.append(digits.data(), end).append("\r\n").append(piece).append("\r\n");
  } else {
    streamQueue_.append(piece);
  }
  flushStream();
  return state_ == State::Streaming;
}

void Connection::endStream() {
  if (state_ != State::Streaming) return;
  streamEnding_ = true;
  if (streamChunked_ && exchange_->head_.method != Method::Head) streamQueue_.append("0\r\n\r\n");
  flushStream();
}

void Connection::flushStream() {
  if (sending_) return;
  streamOut_.swap(streamQueue_);
  streamQueue_.clear();
  out_.clear();
  outAt_ = 0;
  if (!streamOut_.empty()) out_.push_back(vectorOf(streamOut_.data(), streamOut_.size()));
  send();
}

}  // namespace coterie::http
