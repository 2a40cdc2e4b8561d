#include "http/connection.h"

#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/socket_base.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "http/asio_loop_impl.h"

namespace coterie::http {
namespace {
constexpr std::size_t kBufferBeyondHead = 16 * 1024;  // for body bytes that come with the head, and pipelined requests
constexpr Instant kNever = Instant::max();
constexpr Nanos kLingerTime = Seconds(2);
}  // namespace

Connection::Connection(std::shared_ptr<Server::Core> core, UniqueFd fd, const Peer& peer)
    : core_(std::move(core)),
      socket_(core_->loop.impl().context, boost::asio::generic::stream_protocol(peer.kind == Peer::Kind::Local ? AF_UNIX : AF_INET, 0), fd.release()),
      peer_(peer),
      deadline_(core_->in(core_->options.limits.headerTimeout)),
      idleSince_(core_->coarseNow),
      capacity_(core_->options.limits.headerBytes + kBufferBeyondHead),
      buffer_(new char[capacity_]),
      parser_(core_->options.limits.headerBytes, core_->options.limits.headers),
      exchange_(std::make_shared<Exchange>()) {}

Connection::~Connection() = default;

void Connection::start() { fill(); }

// One read into the buffer, unless one is under way or there is no room (then the client waits: back-pressure).
void Connection::fill() {
  if (reading_ || ended_ || state_ == State::Closed || end_ == capacity_) return;
  reading_ = true;
  socket_.async_read_some(boost::asio::buffer(buffer_.get() + end_, capacity_ - end_),
                          [self = shared_from_this()](const boost::system::error_code& ec, std::size_t bytes) {
                            self->reading_ = false;
                            self->onFilled(ec && ec != boost::asio::error::operation_aborted, bytes);
                          });
}

void Connection::onFilled(bool ended, std::size_t bytes) {
  if (state_ == State::Closed) return;
  end_ += bytes;
  ended_ = ended_ || ended;
  switch (state_) {
    case State::Head:
      if (ended) return close();
      return process();
    case State::Handling:
      if (ended) return gone();
      if (chunksDoneCallback_) return decodeChunks();
      return fill();  // pipelined bytes; keep listening for the end
    case State::Streaming:
      if (ended) return gone();
      return fill();
    case State::Writing: return;  // goes on when written
    case State::Skipping:
      if (ended) return close();
      return skipBody();
    case State::Lingering:
      if (ended) return close();
      begin_ = end_ = 0;
      return fill();
    case State::Closed: return;
  }
}

// Handles the requests in the buffer one after the other. A handler that answers at once brings us back to State::Head without recursion.
void Connection::process() {
  if (processing_) return;
  if (reading_) {
    // The watch for the client's leaving, armed during the last request, is still out. Without bytes here it is the read for the next head; else it
    // ends first, as it must neither write where we move things nor take what a body read waits for. onFilled() comes back here.
    if (begin_ < end_) {
      boost::system::error_code ignored;
      socket_.cancel(ignored);
    }
    return;
  }
  processing_ = true;
  while (state_ == State::Head && processOne()) {
  }
  processing_ = false;
  // Wait for the rest of the head, for the next request, or (while a request waits for its answer) for the client to leave.
  if (state_ == State::Head || ((state_ == State::Handling || state_ == State::Streaming) && bodyComplete())) {
    if (ended_ && state_ == State::Head) return close();
    fill();
  }
}

// False: needs more bytes, or the connection is no longer in State::Head.
bool Connection::processOne() {
  // Empty lines before a request are skipped, as RFC 9112 section 2.2 asks.
  while (end_ - begin_ >= 2 && buffer_[begin_] == '\r' && buffer_[begin_ + 1] == '\n') begin_ += 2;
  if (begin_ == end_ || (end_ - begin_ == 1 && buffer_[begin_] == '\r')) return false;
  if (fresh_) startFresh();
  const auto outcome = parser_.parse({buffer_.get() + begin_, end_ - begin_}, exchange_->head_);
  switch (outcome.kind) {
    case Http1Parser::Outcome::Kind::NeedMore: return false;
    case Http1Parser::Outcome::Kind::Refused: refuse(outcome.status, outcome.reason, outcome.message); return false;
    case Http1Parser::Outcome::Kind::HeadDone: beginRequest(outcome.headBytes); return true;
  }
  return false;
}

// Before the first byte of a head is parsed: makes room for all of it and for body bytes behind it, and finds an Exchange that nobody holds any more.
void Connection::startFresh() {
  fresh_ = false;
  if (!std::exchange(headTimed_, true)) deadline_ = core_->in(core_->options.limits.headerTimeout);
  if (begin_ > kBufferBeyondHead / 2) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  auto headers = std::move(exchange_->head_.headers);
  headers.clear();
  if (exchange_.use_count() > 1) exchange_ = std::make_shared<Exchange>();
  exchange_->head_ = {};
  exchange_->head_.headers = std::move(headers);
  exchange_->onGone_ = nullptr;
}

void Connection::beginRequest(std::size_t headBytes) {
  ++core_->stats.requests;
  begin_ += headBytes;
  bodyFloor_ = begin_;
  const RequestHead& head = exchange_->head_;
  chunked_ = head.chunked;
  chunksDone_ = chunksBad_ = false;
  bodyLeft_ = head.contentLength;
  continueWanted_ = head.expectContinue && head.hasBody();
  closeAfter_ = !head.keepAlive || core_->draining;
  state_ = State::Handling;
  deadline_ = kNever;
  decoder_ = {};
  if (bodyLeft_ > static_cast<std::uint64_t>(core_->options.limits.bodyBytes.value)) {
    return refuse(413, "BodyTooLarge",
                  "the body of " + std::to_string(bodyLeft_) + " bytes is larger than this server's limit of " +
                      std::to_string(core_->options.limits.bodyBytes.value));
  }
  exchange_->connection_ = shared_from_this();
  exchange_->gone_ = false;
  exchange_->peer_ = peer_;
  const auto kept = exchange_;
  core_->handler.onRequest(kept);
}

// The server's own answer; the connection ends after it.
void Connection::refuse(int status, std::string_view reason, std::string_view message) {
  if (status == 408)
    ++core_->stats.timeouts;
  else
    ++core_->stats.badRequests;
  closeAfter_ = true;
  respond(errorResponse(status, reason, message), {});
}

// Parts the connection from the request under way; what the handler still calls on it has no effect.
std::shared_ptr<Exchange> Connection::detachExchange() {
  auto exchange = std::exchange(exchange_, std::make_shared<Exchange>());
  exchange->gone_ = true;
  return exchange;
}

void Connection::gone() {
  ++core_->stats.clientsGone;
  close();
}

void Connection::close() {
  if (state_ == State::Closed) return;
  const auto self = shared_from_this();
  const bool handling = exchange_->connection_ != nullptr;
  state_ = State::Closed;
  boost::system::error_code ignored;
  socket_.close(ignored);
  core_->remove(*this);
  auto exchange = detachExchange();
  if (!handling) exchange = nullptr;
  // All callbacks leave the members first: they may do anything, also destroy the server.
  const auto bodyDone = std::exchange(bodyDone_, nullptr);
  const auto chunksDone = std::exchange(chunksDoneCallback_, nullptr);
  const auto writeDone = std::exchange(writeDone_, nullptr);
  response_ = {};
  if (bodyDone)
    bodyDone(clientGoneError());
  else if (chunksDone)
    chunksDone(clientGoneError());
  if (writeDone) writeDone(clientGoneError());
  if (exchange) {
    if (const auto callback = std::exchange(exchange->onGone_, nullptr)) callback();
  }
}

void Connection::timeOut() {
  deadline_ = kNever;
  switch (state_) {
    case State::Head:
      if (begin_ == end_) return close();
      return refuse(408, "HeaderTimeout", "the request's head did not arrive in time");
    case State::Handling: return failBody({Code::Cancelled, "ClientTooSlow", "the body did not arrive in time"});
    case State::Writing:
    case State::Streaming: ++core_->stats.timeouts; return close();
    case State::Skipping:
    case State::Lingering: return close();
    case State::Closed: return;
  }
}

void Connection::drain() {
  closeAfter_ = true;
  const bool idle = state_ == State::Head && begin_ == end_;
  // A stream has no natural end; its client comes back elsewhere.
  if (idle || state_ == State::Streaming || state_ == State::Skipping) close();
}

// Throws away the rest of an answered request's body (small: respond() saw to that).
void Connection::skipBody() {
  const std::uint64_t here = std::min<std::uint64_t>(bodyLeft_, end_ - begin_);
  begin_ += static_cast<std::size_t>(here);
  bodyLeft_ -= here;
  if (bodyLeft_ == 0) return nextRequest();
  begin_ = end_ = 0;
  if (ended_) return close();
  fill();
}

void Connection::nextRequest() {
  if (begin_ == end_ && !reading_) begin_ = end_ = 0;  // a read under way writes at the old end_
  parser_.reset();
  fresh_ = true;
  headTimed_ = false;
  state_ = State::Head;
  deadline_ = core_->in(core_->options.limits.keepAliveTimeout);
  idleSince_ = core_->coarseNow;
  process();
}

void Connection::linger() {
  state_ = State::Lingering;
  deadline_ = core_->in(kLingerTime);
  ::shutdown(socket_.native_handle(), SHUT_WR);
  begin_ = end_ = 0;
  if (ended_) return close();
  fill();
}

// --- Exchange

Exchange::~Exchange() = default;

std::uint64_t Exchange::bodyRemaining() const { return live() ? connection_->bodyLeft_ : 0; }

void Exchange::readInto(std::span<const std::span<std::byte>> parts, Done done) {
  // A copy: the callback may answer, and that gives up our own reference.
  const auto connection = live() ? connection_ : nullptr;
  if (!connection) return done(clientGoneError());
  connection->readInto(parts, std::move(done));
}

void Exchange::readCounted(std::size_t limit, MayHold mayHold, std::function<void(Result<std::string>)> done) {
  const auto connection = live() ? connection_ : nullptr;
  if (!connection) return done(clientGoneError());
  connection->readAll(limit, mayHold, std::move(done));
}

void Exchange::onClientGone(std::function<void()> callback) {
  if (gone_) return callback();
  onGone_ = std::move(callback);
}

void Exchange::respond(Response response, Done done) {
  const auto connection = std::exchange(connection_, nullptr);
  onGone_ = nullptr;
  if (!connection || gone_) {
    if (done) done(clientGoneError());
    return;
  }
  connection->respond(std::move(response), std::move(done));
}

void Exchange::startStream(Response head) {
  const auto connection = live() ? connection_ : nullptr;
  if (connection) connection->startStream(std::move(head));
}

bool Exchange::write(std::string_view piece) {
  const auto connection = live() ? connection_ : nullptr;
  return connection && connection->writeStream(piece);
}

void Exchange::endStream() {
  const auto connection = std::exchange(connection_, nullptr);
  onGone_ = nullptr;
  if (connection && !gone_) connection->endStream();
}

}  // namespace coterie::http
