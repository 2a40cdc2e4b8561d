// What a server's connections share. For the .cc files of this folder only. Loop's thread.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "http/peer.h"
#include "http/server.h"

namespace coterie::http {

class Connection;

struct Server::Core : std::enable_shared_from_this<Server::Core> {
  Core(AsioLoop& l, const ServerOptions& o, RequestHandler& h);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void listen(UniqueFd fd);
  void acceptSome();
  void add(UniqueFd fd, const Peer& peer);
  void closeIdleOf(const Peer& peer);
  void refuseConnection(UniqueFd fd);
  void remove(Connection& connection);
  void tick();
  void stopAccepting();
  void closeAll();
  void drain(Nanos grace, std::function<void()> done);
  // A deadline that is never early and at most two ticks late.
  [[nodiscard]] Instant in(Nanos delay) const { return coarseNow + delay + tickLength; }
  [[nodiscard]] const std::string& dateLine() const { return date; }

  AsioLoop& loop;
  ServerOptions options;
  RequestHandler& handler;
  ServerStats stats;
  std::uint16_t port{0};
  std::string socketPath;  // of a Unix socket that this server made
  bool local{false};       // listens on a Unix socket

  UniqueFd listener;
  TimerHandle acceptHandle;
  TimerHandle acceptPause;
  std::list<std::shared_ptr<Connection>> connections;
  Instant coarseNow{};
  Nanos tickLength{};
  TimerHandle tickTimer;
  std::string date;  // "Date: ...\r\n", renewed each second
  std::int64_t dateSecond{-1};
  bool draining{false};
  bool closed{false};
  TimerHandle graceTimer;
  std::function<void()> drained;

 private:
  void refreshTime();
  void armTick();
  void finishDrain();
};

}  // namespace coterie::http
