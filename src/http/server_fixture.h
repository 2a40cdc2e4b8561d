// For tests: a server on a thread of its own whose handler is a function. Linux sockets on loopback, ports chosen by the kernel.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "http/client.h"
#include "http/server.h"

namespace coterie::http {

class FunctionHandler final : public RequestHandler {
 public:
  using Function = std::function<void(const std::shared_ptr<RequestContext>&)>;
  explicit FunctionHandler(Function function) : function_(std::move(function)) {}
  void onRequest(const std::shared_ptr<RequestContext>& request) override { function_(request); }

 private:
  Function function_;
};

class TestServer {
 public:
  TestServer(FunctionHandler::Function function, ServerOptions options) : handler_(std::move(function)) {
    auto server = Server::listenTcp(loop, "127.0.0.1", 0, options, handler_);
    if (server.ok()) server_ = std::move(*server);
    thread_ = std::thread([this] { loop.run(); });
  }
  explicit TestServer(FunctionHandler::Function function) : TestServer(std::move(function), ServerOptions{}) {}
  ~TestServer() {
    onLoop([this] { server_.reset(); });
    loop.stop();
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  // Runs f on the loop's thread and waits for it.
  void onLoop(const std::function<void()>& f) {
    std::promise<void> done;
    loop.post([&] {
      f();
      done.set_value();
    });
    done.get_future().wait();
  }
  [[nodiscard]] ServerStats stats() {
    ServerStats stats;
    onLoop([&] { stats = server_->stats(); });
    return stats;
  }
  [[nodiscard]] Server& server() { return *server_; }
  [[nodiscard]] Client client(Client::Timeouts timeouts) { return Client::tcp("127.0.0.1", server_->port(), timeouts); }
  [[nodiscard]] Client client() { return client(Client::Timeouts{Millis(5000), Millis(20000)}); }

  // On the loop only.
  void destroyServer() { server_.reset(); }

  AsioLoop loop;

 private:
  FunctionHandler handler_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

}  // namespace coterie::http
