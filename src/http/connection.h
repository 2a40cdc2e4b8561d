// One HTTP/1 connection of a server: a state machine driven by its socket, its handler and the server's tick.
//
// States: Head (idle or reading a request's head) -> Handling (the handler has it; reads its body) -> Writing -> (Skipping an unread body) -> Head,
// or Streaming, or Lingering (our side is shut; what the client still sends is thrown away, so that no reset destroys the answer) -> Closed. The
// head's bytes stay where they were received until the request is answered; body bytes that came with them are copied, the rest is read in place. For
// the .cc files of this folder only. Loop's thread.
#pragma once

#include <sys/uio.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/chunk_decoder.h"
#include "http/http1_parser.h"
#include "http/server_core.h"

namespace coterie::http {

class Exchange;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Server::Core> core, UniqueFd fd, const Peer& peer);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  [[nodiscard]] bool idle() const { return state_ == State::Head; }  // no request, or one whose head has not come completely
  [[nodiscard]] Instant idleSince() const { return idleSince_; }
  [[nodiscard]] const Peer& peer() const { return peer_; }
  [[nodiscard]] bool overdue(Instant now) const { return now >= deadline_; }
  void timeOut();  // acts on the passed deadline
  void drain();    // closes now if idle, else after the request under way
  void close();    // at once; pending callbacks get Cancelled

  std::list<std::shared_ptr<Connection>>::iterator place;  // in Core::connections

 private:
  friend class Exchange;
  using Done = RequestContext::Done;
  enum class State : std::uint8_t { Head, Handling, Writing, Streaming, Skipping, Lingering, Closed };
  enum class KeepOpen : std::uint8_t { Yes, No };

  // Reading (connection.cc)
  void fill();
  void onFilled(bool ended, std::size_t bytes);
  void process();
  bool processOne();
  void startFresh();
  void beginRequest(std::size_t headBytes);
  void refuse(int status, std::string_view reason, std::string_view message);
  void gone();
  std::shared_ptr<Exchange> detachExchange();
  void skipBody();
  void linger();
  void nextRequest();

  // Body (connection_body.cc)
  void readInto(std::span<const std::span<std::byte>> parts, Done done);
  void readAll(std::size_t limit, const RequestContext::MayHold& mayHold, std::function<void(Result<std::string>)> done);
  [[nodiscard]] Status allowChunks();
  void takeBuffered();
  void readBody();
  void onBody(bool ended, std::size_t bytes);
  void decodeChunks();
  void sendContinue();
  void bodyDeadline();
  void failBody(const Error& error);
  Done abandonBodyRead();
  [[nodiscard]] bool bodyComplete() const { return chunked_ ? chunksDone_ : bodyLeft_ == 0; }

  // Writing (connection_write.cc)
  void respond(Response response, Done done);
  void writeHead(const Response& response, std::string_view framing, KeepOpen keepOpen);
  void send();
  void onSent();
  void finishResponse();
  void startStream(Response head);
  bool writeStream(std::string_view piece);
  void endStream();
  void flushStream();

  std::shared_ptr<Server::Core> core_;
  boost::asio::generic::stream_protocol::socket socket_;
  Peer peer_;
  State state_{State::Head};
  Instant deadline_;
  Instant idleSince_;       // while in State::Head
  bool reading_{false};     // a read of either kind is under way
  bool ended_{false};       // the client sent its FIN, or the connection failed
  bool processing_{false};  // process() is on the stack
  bool fresh_{true};        // no byte of the next head was parsed yet
  bool headTimed_{true};    // the header timeout runs (the first one from the accept)
  bool closeAfter_{false};  // no request after this one

  // buffer_: [0, begin_) dealt with (the head of the request under way ends at bodyFloor_), [begin_, end_) received and not looked at.
  std::size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_{0};
  std::size_t end_{0};
  std::size_t bodyFloor_{0};
  Http1Parser parser_;
  std::shared_ptr<Exchange> exchange_;  // of the request under way; kept for the next one if nobody else holds it

  bool chunked_{false};
  bool chunksDone_{false};
  bool chunksBad_{false};
  bool continueWanted_{false};
  std::uint64_t bodyLeft_{0};
  std::uint64_t wanted_{0};  // of the read under way
  std::vector<boost::asio::mutable_buffer> parts_;
  std::size_t part_{0};
  Done bodyDone_;
  Instant readStart_;
  std::uint64_t readBytes_{0};
  ChunkDecoder decoder_;
  std::string chunkText_;
  std::size_t chunkLimit_{0};
  std::size_t chunkAllowed_{0};  // by chunkMayHold_
  RequestContext::MayHold chunkMayHold_;
  std::function<void(Result<std::string>)> chunksDoneCallback_;

  bool sending_{false};  // waits for the socket to take more
  Response response_;
  std::string outHead_;
  std::vector<iovec> out_;
  std::size_t outAt_{0};
  Done writeDone_;
  bool streamChunked_{false};
  bool streamEnding_{false};
  std::string streamQueue_;  // not yet given to send()
  std::string streamOut_;    // what out_ points to
};

// The handler's side of one request. Forwards to the connection while it is the request under way.
class Exchange final : public RequestContext {
 public:
  ~Exchange() override;
  [[nodiscard]] const RequestHead& head() const override { return head_; }
  [[nodiscard]] std::uint64_t bodyRemaining() const override;
  void readInto(std::span<const std::span<std::byte>> parts, Done done) override;
  void readAll(std::size_t limit, std::function<void(Result<std::string>)> done) override { readCounted(limit, nullptr, std::move(done)); }
  void readCounted(std::size_t limit, MayHold mayHold, std::function<void(Result<std::string>)> done) override;
  void onClientGone(std::function<void()> callback) override;
  [[nodiscard]] bool clientGone() const override { return gone_; }
  [[nodiscard]] const Peer& peer() const override { return peer_; }
  void respond(Response response, Done done) override;
  void startStream(Response head) override;
  bool write(std::string_view piece) override;
  void endStream() override;

 private:
  friend class Connection;
  [[nodiscard]] bool live() const { return connection_ != nullptr && !gone_; }

  std::shared_ptr<Connection> connection_;  // until answered; keeps the head's bytes
  RequestHead head_;
  std::function<void()> onGone_;
  bool gone_{false};
  Peer peer_;
};

inline Error clientGoneError() { return {Code::Cancelled, "ClientGone", "the client closed the connection"}; }

}  // namespace coterie::http
