// For tests: a server on a thread of its own whose handler is a function. Sockets on loopback with ports chosen by the kernel, or a Unix socket in a
// folder of its own.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
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
  enum class Over : std::uint8_t { Unix };
  TestServer(FunctionHandler::Function function, Over) : handler_(std::move(function)) {
    std::string pattern = (std::filesystem::temp_directory_path() / "coterie-http-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    auto server = Server::listenUnix(loop, socketPath(), {}, handler_);
    if (server.ok()) server_ = std::move(*server);
    thread_ = std::thread([this] { loop.run(); });
  }
  ~TestServer() {
    onLoop([this] { server_.reset(); });
    loop.stop();
    thread_.join();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
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
  [[nodiscard]] std::string socketPath() const { return folder_ + "/server.sock"; }
  [[nodiscard]] Client client(Client::Timeouts timeouts) {
    return folder_.empty() ? Client::tcp("127.0.0.1", server_->port(), timeouts) : Client::unixSocket(socketPath(), timeouts);
  }
  [[nodiscard]] Client client() { return client(Client::Timeouts{Millis(5000), Millis(20000)}); }

  // On the loop only.
  void destroyServer() { server_.reset(); }

  AsioLoop loop;

 private:
  FunctionHandler handler_;
  std::string folder_;  // of the Unix socket; empty: TCP
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

}  // namespace coterie::http
