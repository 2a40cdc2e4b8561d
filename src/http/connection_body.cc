// How a connection reads request bodies.
#include <sys/socket.h>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "http/asio_loop_impl.h"
#include "http/connection.h"

namespace coterie::http {
namespace {
// A range of buffers that stays where it is; Asio copies this small thing instead of the vector.
struct BufferRange {
  using value_type = boost::asio::mutable_buffer;
  using const_iterator = const boost::asio::mutable_buffer*;
  const_iterator first;
  const_iterator last;
  [[nodiscard]] const_iterator begin() const { return first; }
  [[nodiscard]] const_iterator end() const { return last; }
};

constexpr std::size_t kLeastText = 16 * 1024;  // of a chunked body: what the first question asks for
}  // namespace

void Connection::readInto(std::span<const std::span<std::byte>> parts, Done done) {
  std::uint64_t total = 0;
  for (const auto& part : parts) total += part.size();
  if (state_ != State::Handling || bodyDone_ || chunksDoneCallback_ || total > bodyLeft_) {
    return done(Error{Code::Internal, "BadBodyRead", "a body read beyond the body's end, or two at once"});
  }
  parts_.clear();
  for (const auto& part : parts) {
    if (!part.empty()) parts_.emplace_back(part.data(), part.size());
  }
  part_ = 0;
  wanted_ = total;
  bodyDone_ = std::move(done);
  readStart_ = core_->coarseNow;
  readBytes_ = 0;
  takeBuffered();
  if (wanted_ > 0) {
    sendContinue();
    return readBody();
  }
  const auto finished = std::exchange(bodyDone_, nullptr);
  finished(Status());
  // When called from inside process(), that one arms the watch for the client's leaving.
  if (state_ == State::Handling && bodyComplete() && !processing_) fill();
}

// Copies what came together with the head.
void Connection::takeBuffered() {
  while (wanted_ > 0 && begin_ < end_) {
    boost::asio::mutable_buffer& part = parts_[part_];
    const std::size_t take = std::min(part.size(), end_ - begin_);
    std::memcpy(part.data(), buffer_.get() + begin_, take);
    part += take;
    if (part.size() == 0) ++part_;
    begin_ += take;
    wanted_ -= take;
    bodyLeft_ -= take;
  }
}

// The rest goes from the socket to its place.
void Connection::readBody() {
  if (ended_) return gone();
  bodyDeadline();
  reading_ = true;
  socket_.async_read_some(BufferRange{parts_.data() + part_, parts_.data() + parts_.size()},
                          [self = shared_from_this()](const boost::system::error_code& ec, std::size_t bytes) {
                            self->reading_ = false;
                            self->onBody(ec && ec != boost::asio::error::operation_aborted, bytes);
                          });
}

void Connection::onBody(bool ended, std::size_t bytes) {
  // The read may have been given up: the connection closed, the client was refused as too slow, or the handler answered early.
  if (state_ != State::Handling || !bodyDone_) {
    if (state_ != State::Closed) onFilled(ended, 0);
    return;
  }
  readBytes_ += bytes;
  wanted_ -= bytes;
  bodyLeft_ -= bytes;
  while (bytes > 0) {
    boost::asio::mutable_buffer& part = parts_[part_];
    const std::size_t take = std::min(part.size(), bytes);
    part += take;
    if (part.size() == 0) ++part_;
    bytes -= take;
  }
  if (ended) return gone();
  if (wanted_ > 0) return readBody();
  deadline_ = Instant::max();
  const auto finished = std::exchange(bodyDone_, nullptr);
  finished(Status());
  if (state_ == State::Handling && bodyComplete()) fill();
}

void Connection::readAll(std::size_t limit, const RequestContext::MayHold& mayHold, std::function<void(Result<std::string>)> done) {
  const Error tooLarge{Code::TooLarge, "BodyTooLarge", "the body is larger than " + std::to_string(limit) + " bytes"};
  if (!chunked_) {
    if (bodyLeft_ > limit) return done(tooLarge);
    if (const Status allowed = mayHold ? mayHold(bodyLeft_) : Status(); !allowed.ok()) return done(allowed.error());
    auto text = std::make_shared<std::string>(static_cast<std::size_t>(bodyLeft_), '\0');
    const std::span<std::byte> memory = std::as_writable_bytes(std::span(text->data(), text->size()));
    return readInto(std::span(&memory, 1), [text, done = std::move(done)](const Status& status) {
      if (!status.ok()) return done(status.error());
      done(std::move(*text));
    });
  }
  if (state_ != State::Handling || chunksDoneCallback_) return done(Error{Code::Internal, "BadBodyRead", "two body reads at once"});
  if (chunksDone_) return done(std::string());
  chunkText_.clear();
  chunkLimit_ = std::min(limit, static_cast<std::size_t>(core_->options.limits.bodyBytes.value));
  chunkMayHold_ = mayHold;
  chunkAllowed_ = 0;
  chunksDoneCallback_ = std::move(done);
  readStart_ = core_->coarseNow;
  readBytes_ = 0;
  decodeChunks();
}

// Before bytes are decoded that the text may not have room for.
Status Connection::allowChunks() {
  const std::size_t needed = std::min(chunkText_.size() + (end_ - begin_), chunkLimit_);
  if (!chunkMayHold_ || needed <= chunkAllowed_) return {};
  const std::size_t wanted = std::min(std::max({needed, 2 * chunkAllowed_, kLeastText}), chunkLimit_);
  if (const Status allowed = chunkMayHold_(wanted); !allowed.ok()) return allowed;
  chunkAllowed_ = wanted;
  chunkText_.reserve(wanted);
  return {};
}

void Connection::decodeChunks() {
  if (const Status allowed = allowChunks(); !allowed.ok()) {
    deadline_ = Instant::max();
    chunksBad_ = closeAfter_ = true;
    std::string().swap(chunkText_);
    return std::exchange(chunksDoneCallback_, nullptr)(allowed.error());
  }
  std::size_t consumed = 0;
  const auto outcome = decoder_.decode({buffer_.get() + begin_, end_ - begin_}, chunkText_, chunkLimit_, consumed);
  begin_ += consumed;
  readBytes_ += consumed;
  if (outcome == ChunkDecoder::State::More) {
    // All of the buffer is decoded; what follows may overwrite it, but not the head.
    begin_ = end_ = bodyFloor_;
    if (ended_) return gone();
    sendContinue();
    bodyDeadline();
    return fill();
  }
  deadline_ = Instant::max();
  const auto finished = std::exchange(chunksDoneCallback_, nullptr);
  if (outcome == ChunkDecoder::State::Done) {
    chunksDone_ = true;
    finished(std::exchange(chunkText_, {}));
  } else {
    chunksBad_ = closeAfter_ = true;
    ++core_->stats.badRequests;
    if (outcome == ChunkDecoder::State::Bad)
      finished(Error{Code::InvalidArgument, "BadChunk", "the body is not valid chunked coding"});
    else
      finished(Error{Code::TooLarge, "BodyTooLarge", "the body is larger than " + std::to_string(chunkLimit_) + " bytes"});
  }
  if (state_ == State::Handling && bodyComplete() && !processing_) fill();
}

// The client waits for this before it sends the body.
void Connection::sendContinue() {
  if (!std::exchange(continueWanted_, false)) return;
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  // Nothing else is in the socket's send buffer now, so it takes these few bytes whole; a failure shows in the read that follows.
  (void)::send(socket_.native_handle(), kContinue.data(), kContinue.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Idle time since the last byte, and an average rate after the first idle time: one byte now and then does not hold a body's memory for hours.
void Connection::bodyDeadline() {
  const Limits& limits = core_->options.limits;
  deadline_ = core_->in(limits.bodyIdleTimeout);
  if (limits.minBodyBytesPerSecond.value > 0) {
    const auto earned = Millis(static_cast<std::int64_t>(readBytes_) * 1000 / limits.minBodyBytesPerSecond.value);
    deadline_ = std::min(deadline_, readStart_ + limits.bodyIdleTimeout + earned + core_->tickLength);
  }
}

// Ends a read into the handler's memory before its time: nothing writes there after this.
Connection::Done Connection::abandonBodyRead() {
  if (!bodyDone_) return nullptr;
  boost::system::error_code ignored;
  (void)socket_.cancel(ignored);  // NOLINT(bugprone-unused-return-value): no harm if there is nothing to end
  closeAfter_ = true;
  return std::exchange(bodyDone_, nullptr);
}

// The client is too slow: the server answers, the handler only cleans up.
void Connection::failBody(const Error& error) {
  const auto self = shared_from_this();
  const auto exchange = detachExchange();
  const auto bodyDone = abandonBodyRead();
  const auto chunksDone = std::exchange(chunksDoneCallback_, nullptr);
  std::string().swap(chunkText_);  // assignment would keep the memory
  refuse(408, error.reason, error.message);
  if (bodyDone) bodyDone(error);
  if (chunksDone) chunksDone(error);
}

}  // namespace coterie::http
