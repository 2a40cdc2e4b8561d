// How connections end, by clients that leave and by servers that drain; and where a server listens. Timeouts are milliseconds here; nothing sleeps,
// the tests wait for what the server does.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/server.h"
#include "http/server_fixture.h"

namespace coterie::http {
namespace {

using Request = std::shared_ptr<RequestContext>;

void answer(const Request& request) { request->respond(Response{}); }

TEST(ServerGone, AClientThatLeavesWhileItWaitsIsReported) {
  std::promise<void> arrived;
  std::promise<void> left;
  Request kept;
  TestServer server([&](const Request& request) {
    kept = request;
    request->onClientGone([&] { left.set_value(); });
    arrived.set_value();
  });
  {
    auto client = server.client();
    ASSERT_TRUE(client.sendRaw("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").ok());
    arrived.get_future().wait();
  }
  left.get_future().wait();
  server.onLoop([&] {
    EXPECT_TRUE(kept->clientGone());
    EXPECT_EQ(kept->head().path, "/slow");  // still readable until answered
    std::optional<Status> done;
    kept->respond(Response{}, [&](const Status& status) { done = status; });
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->error().reason, "ClientGone");
    kept.reset();
  });
  EXPECT_EQ(server.stats().clientsGone, 1);
  EXPECT_EQ(server.stats().open, 0);
}

TEST(ServerGone, AClientThatLeavesInMidBodyEndsTheRead) {
  std::promise<Error> told;
  TestServer server(
      [&](const Request& request) { request->readAll(1000, [&, request](const Result<std::string>& body) { told.set_value(body.error()); }); });
  {
    auto client = server.client();
    ASSERT_TRUE(client.sendRaw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab").ok());
  }
  EXPECT_EQ(told.get_future().get().reason, "ClientGone");
}

TEST(ServerGone, AnAnswerBeforeTheBodyIsReadEndsTheReadAndTheConnection) {
  for (const bool chunked : {false, true}) {
    std::promise<Error> told;
    TestServer server([&](const Request& request) {
      if (chunked) {
        request->readAll(10, [&](const Result<std::string>& body) { told.set_value(body.error()); });
      } else {
        auto memory = std::make_shared<std::array<std::byte, 10>>();
        const std::span<std::byte> part(*memory);
        request->readInto(std::span(&part, 1), [&, memory](const Status& status) { told.set_value(status.error()); });
      }
      request->respond(errorResponse(504, "DeadlineExceeded", "too late"));
    });
    auto client = server.client();
    ASSERT_TRUE(client
                    .sendRaw(std::string("POST / HTTP/1.1\r\nHost: x\r\n") +
                             (chunked ? "Transfer-Encoding: chunked\r\n\r\n5\r\nab" : "Content-Length: 10\r\n\r\nab"))
                    .ok());
    const auto response = client.receive();
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->status, 504);
    EXPECT_EQ(response->header("Connection"), "close");
    EXPECT_EQ(told.get_future().get().reason, "Answered");
  }
}

TEST(ServerGone, AHandlerThatReadsAndAnswersLateAfterAResetIsSafe) {
  // The answer's write fails inside the body's callback; the connection must live until the read that called it returns.
  std::promise<void> arrived;
  std::promise<void> answered;
  Request kept;
  TestServer server([&](const Request& request) {
    kept = request;
    arrived.set_value();
  });
  {
    auto client = server.client();
    ASSERT_TRUE(client.sendRaw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab").ok());
    arrived.get_future().wait();
    client.resetOnClose();
  }
  server.onLoop([&] {
    const auto request = std::exchange(kept, nullptr);
    request->readAll(10, [&](const Result<std::string>&) { request->respond(Response{}, [&](const Status&) { answered.set_value(); }); });
  });
  answered.get_future().wait();
}

TEST(ServerDrain, FinishesWhatIsUnderWayAndClosesTheRest) {
  std::promise<void> arrived;
  std::promise<void> drained;
  Request kept;
  TestServer server([&](const Request& request) {
    if (request->head().path != "/slow") return answer(request);
    kept = request;
    arrived.set_value();
  });
  auto idle = server.client();
  ASSERT_TRUE(idle.request({}).ok());
  auto busy = server.client();
  ASSERT_TRUE(busy.sendRaw("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  arrived.get_future().wait();
  server.onLoop([&] { server.server().drain(Seconds(20), [&] { drained.set_value(); }); });
  EXPECT_TRUE(idle.closedByServer());
  auto late = server.client();
  EXPECT_EQ(late.request({}).error().reason, "Unreachable");
  server.onLoop([&] { std::exchange(kept, nullptr)->respond(Response{}); });
  const auto response = busy.receive();
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->header("Connection"), "close");
  drained.get_future().wait();
}

TEST(ServerDrain, CutsOffAfterTheGrace) {
  std::promise<void> arrived;
  std::promise<void> drained;
  std::promise<void> left;
  TestServer server([&](const Request& request) {
    request->onClientGone([&, request] { left.set_value(); });
    arrived.set_value();
  });
  auto busy = server.client();
  ASSERT_TRUE(busy.sendRaw("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  arrived.get_future().wait();
  server.onLoop([&] { server.server().drain(Millis(20), [&] { drained.set_value(); }); });
  drained.get_future().wait();
  left.get_future().wait();
  EXPECT_TRUE(busy.closedByServer());
}

TEST(ServerListen, KnowsWhatStaysOnTheMachine) {
  for (const char* own : {"127.0.0.1", "127.9.8.7", "::1"}) EXPECT_TRUE(isLoopback(own)) << own;
  for (const char* other : {"0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "localhost", ""}) EXPECT_FALSE(isLoopback(other)) << other;
}

TEST(ServerListen, RefusesClearTextOffTheMachineUnlessTold) {
  AsioLoop loop;
  FunctionHandler handler(answer);
  const auto open = Server::listenTcp(loop, "0.0.0.0", 0, {}, handler);
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().reason, "NotLoopback");
  EXPECT_EQ(Server::listenTcp(loop, "::", 0, {}, handler).error().reason, "NotLoopback");
  EXPECT_EQ(Server::listenTcp(loop, "localhost", 0, {}, handler).error().reason, "BadAddress");
  ServerOptions allowed;
  allowed.allowNonLoopback = true;
  EXPECT_TRUE(Server::listenTcp(loop, "0.0.0.0", 0, allowed, handler).ok());
  const auto first = Server::listenTcp(loop, "127.0.0.1", 0, {}, handler);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(Server::listenTcp(loop, "127.0.0.1", (*first)->port(), {}, handler).error().reason, "AddressInUse");
}

TEST(ServerListen, UnixSocketIsPrivateAndReplacesAStaleOneOnly) {
  const std::string path = testing::TempDir() + "coterie_http_" + std::to_string(::getpid()) + ".sock";
  FunctionHandler handler(answer);
  {
    AsioLoop loop;
    auto server = Server::listenUnix(loop, path, {}, handler);
    ASSERT_TRUE(server.ok()) << server.error().message;
    struct stat info{};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    EXPECT_EQ(Server::listenUnix(loop, path, {}, handler).error().reason, "AddressInUse");
    std::thread thread([&] { loop.run(); });
    auto client = Client::unixSocket(path);
    EXPECT_EQ(client.request({})->status, 200);
    loop.stop();
    thread.join();
    server->reset();
    EXPECT_NE(::stat(path.c_str(), &info), 0);
  }
  // A server that was killed leaves its file.
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), address.sun_path);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  AsioLoop loop;
  EXPECT_TRUE(Server::listenUnix(loop, path, {}, handler).ok());
  EXPECT_EQ(Server::listenUnix(loop, std::string(200, 'a'), {}, handler).error().reason, "BadAddress");
}

TEST(ServerListen, RequestsOutliveTheServer) {
  std::promise<void> arrived;
  Request kept;
  auto server = std::make_unique<TestServer>([&](const Request& request) {
    kept = request;
    arrived.set_value();
  });
  auto client = server->client();
  ASSERT_TRUE(client.sendRaw("GET /x HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  arrived.get_future().wait();
  server->onLoop([] {});
  // The fixture destroys server, loop thread and all; the request is still safe to use.
  std::optional<Status> done;
  auto* raw = server.get();
  raw->onLoop([&] { raw->destroyServer(); });
  EXPECT_TRUE(kept->clientGone());
  EXPECT_EQ(kept->head().path, "/x");
  kept->respond(Response{}, [&](const Status& status) { done = status; });
  EXPECT_FALSE(done->ok());
  kept.reset();
}

}  // namespace
}  // namespace coterie::http
