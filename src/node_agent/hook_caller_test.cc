// Hooks on a real HTTP server.
#include "node_agent/hook_caller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/asio_loop.h"
#include "http/server.h"

namespace coterie::node_agent {
namespace {

using namespace std::chrono_literals;

TEST(HookUrl, Forms) {
  const auto shown = [](std::string_view url) {
    const auto parsed = parseHookUrl(url);
    return parsed ? parsed->address + " " + std::to_string(parsed->port) + " " + parsed->target : std::string("none");
  };
  struct Case {
    const char* url;
    const char* means;
  };
  for (const Case& one : {Case{"http://127.0.0.1:9000/threads?a=b", "127.0.0.1 9000 /threads?a=b"},
                          {"http://127.0.0.1/", "127.0.0.1 80 /"},
                          {"http://10.0.0.1", "10.0.0.1 80 /"},
                          {"http://[::1]:80/x", "::1 80 /x"},
                          {"http://[::1/x", "none"},
                          {"https://127.0.0.1/", "none"},
                          {"http://server/x", "none"},
                          {"http://127.0.0.1:0/", "none"},
                          {"http://127.0.0.1:x/", "none"},
                          {"http://127.0.0.1:70000/", "none"},
                          {"http:///x", "none"},
                          {"http://127.0.0.1/a b", "none"},
                          {"", "none"}})
    EXPECT_EQ(shown(one.url), one.means) << one.url;
}

// Answers the statuses in turn, the last for ever, and keeps the bodies.
class Hook final : public http::RequestHandler {
 public:
  explicit Hook(std::vector<int> statuses) : statuses_(std::move(statuses)) {
    auto server = http::Server::listenTcp(loop_, "127.0.0.1", 0, {}, *this);
    EXPECT_TRUE(server.ok());
    server_ = std::move(server).value();
  }
  void onRequest(const std::shared_ptr<http::RequestContext>& request) override {
    const std::size_t turn = std::min(bodies.size(), statuses_.size() - 1);
    request->readAll(1000, [this, request, turn](const Result<std::string>& body) {
      bodies.push_back(body ? *body : "");
      http::Response response;
      response.status = statuses_[turn];
      request->respond(std::move(response), [this](const Status&) { ++answered_; });
    });
  }
  [[nodiscard]] HookUrl url() const { return {"127.0.0.1", server_->port(), "/threads"}; }
  bool await(std::size_t calls) {
    return loop_.runUntil([&] { return answered_ >= calls; }, 20s);
  }
  std::vector<std::string> bodies;

 private:
  http::AsioLoop loop_;
  std::vector<int> statuses_;
  std::size_t answered_{0};
  std::unique_ptr<http::Server> server_;
};

TEST(HookCallerTest, IsHeardAndSentAgainUntilItIs) {
  Hook hook({500, 503, 204});
  HookCaller caller(1ms);
  caller.call({"a", hook.url(), "{\"threads\":2}"});
  ASSERT_TRUE(hook.await(3));
  EXPECT_EQ(hook.bodies, (std::vector<std::string>(3, "{\"threads\":2}")));
}

TEST(HookCallerTest, WhatWaitsIsSentBeforeTheEnd) {
  Hook hook({204});
  std::thread end;
  {
    auto caller = std::make_unique<HookCaller>(1ms);
    caller->call({"a", hook.url(), "1"});
    caller->call({"b", hook.url(), "2"});
    end = std::thread([caller = std::move(caller)]() mutable { caller.reset(); });
  }
  EXPECT_TRUE(hook.await(2));
  end.join();
}

TEST(HookCallerTest, NobodyThereHoldsNobodyUp) {
  HookCaller caller(1ms);
  caller.call({"a", {"127.0.0.1", 1, "/"}, "1"});
}

}  // namespace
}  // namespace coterie::node_agent
