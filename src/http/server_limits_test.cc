// Limits, refusals, clients that dawdle. Timeouts are milliseconds here; nothing sleeps, the tests wait for what the server does. How connections and
// servers end is in server_ends_test.cc.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "http/peer.h"
#include "http/server.h"
#include "http/server_fixture.h"

namespace coterie::http {
namespace {

using Request = std::shared_ptr<RequestContext>;

void answer(const Request& request) { request->respond(Response{}); }

struct Refusal {
  std::string name;
  std::string bytes;
  int status;
  std::string reason;
  friend void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }
};

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, ByTheServerBeforeTheHandlerSeesIt) {
  ServerOptions options;
  options.limits.bodyBytes = Bytes(1000);
  options.limits.headers = 10;
  options.limits.headerBytes = 2000;
  TestServer server([](const Request&) { FAIL() << "the handler must not see this"; }, options);
  auto client = server.client();
  ASSERT_TRUE(client.sendRaw(GetParam().bytes).ok());
  const auto response = client.receive();
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->status, GetParam().status);
  EXPECT_NE(response->body.find("\"reason\":\"" + GetParam().reason + "\""), std::string::npos) << response->body;
  EXPECT_NE(response->body.find("\"error\":\""), std::string::npos);
  EXPECT_EQ(response->header("Connection"), "close");
  EXPECT_EQ(server.stats().badRequests, 1);
}

std::string manyHeaders(int count) {
  std::string head = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < count; ++i) head += "a" + std::to_string(i) + ": b\r\n";
  return head + "\r\n";
}

const std::string kPost = "POST / HTTP/1.1\r\nHost: x\r\n";

INSTANTIATE_TEST_SUITE_P(
    Smuggling, Refused,
    testing::Values(Refusal{"LengthAndChunked", kPost + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
                            "BadTransferEncoding"},
                    Refusal{"ChunkedAndLength", kPost + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400, "BadContentLength"},
                    Refusal{"TwoLengths", kPost + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", 400, "BadContentLength"},
                    Refusal{"TheSameLengthTwice", kPost + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde", 400, "RepeatedContentLength"},
                    Refusal{"AListOfLengths", kPost + "Content-Length: 5, 6\r\n\r\nabcde", 400, "BadContentLength"},
                    Refusal{"NegativeLength", kPost + "Content-Length: -5\r\n\r\n", 400, "BadContentLength"},
                    Refusal{"HexLength", kPost + "Content-Length: 0x5\r\n\r\n", 400, "BadContentLength"},
                    Refusal{"LengthBeyond64Bits", kPost + "Content-Length: 99999999999999999999999\r\n\r\n", 400, "BadContentLength"},
                    Refusal{"GzipThenChunked", kPost + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501, "UnknownTransferEncoding"},
                    Refusal{"ChunkedTwice", kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "BadTransferEncoding"},
                    Refusal{"Identity", kPost + "Transfer-Encoding: identity\r\n\r\n", 501, "UnknownTransferEncoding"},
                    Refusal{"ChunkedWithAVerticalTab",
                            kPost + "Transfer-Encoding: \x0b"
                                    "chunked\r\n\r\n",
                            400, "BadRequest"},
                    Refusal{"BlankBeforeColon", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\nabcde", 400, "BadRequest"},
                    Refusal{"FoldedHeader", kPost + "X: a\r\n b\r\n\r\n", 400, "FoldedHeader"},
                    Refusal{"BareLineFeed", "GET / HTTP/1.1\nHost: x\n\n                                    ", 505, "UnknownVersion"},
                    Refusal{"BareCarriageReturn", "GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", 400, "BadRequest"},
                    Refusal{"ChunkedInHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "ChunkedInHttp10"},
                    Refusal{"TwoHosts", kPost + "Host: y\r\n\r\n", 400, "RepeatedHost"}),
    [](const auto& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Form, Refused,
    testing::Values(Refusal{"NoHost", "GET / HTTP/1.1\r\n\r\n", 400, "NoHost"},
                    Refusal{"NotHttp", "\x16\x03\x01\x02\x01 TLS hello\r\n\r\n", 400, "BadRequest"},
                    Refusal{"AbsoluteTarget", "GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, "BadTarget"},
                    Refusal{"Connect", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "BadTarget"},
                    Refusal{"Http2Preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "UnknownVersion"},
                    Refusal{"ZeroByteInHeader", "GET / HTTP/1.1\r\nHost: x\r\nA: b" + std::string(1, '\0') + "c\r\n\r\n", 400, "BadRequest"},
                    Refusal{"UnknownExpectation", kPost + "Content-Length: 1\r\nExpect: wonders\r\n\r\na", 417, "UnknownExpectation"}),
    [](const auto& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(Limits, Refused,
                         testing::Values(Refusal{"HeaderBytes", "GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(3000, 'a') + "\r\n\r\n", 431,
                                                 "HeadersTooLarge"},
                                         Refusal{"Target", "GET /" + std::string(3000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, "HeadersTooLarge"},
                                         Refusal{"NumberOfHeaders", manyHeaders(10), 431, "TooManyHeaders"},
                                         Refusal{"Body", kPost + "Content-Length: 1001\r\n\r\n", 413, "BodyTooLarge"}),
                         [](const auto& each) { return each.param.name; });

TEST(ServerLimits, AtTheLimitIsServed) {
  ServerOptions options;
  options.limits.headers = 10;
  options.limits.bodyBytes = Bytes(1000);
  TestServer server(
      [](const Request& request) {
        request->readAll(1000,
                         [request](const Result<std::string>& body) { request->respond(body.ok() ? Response{} : errorResponse(body.error())); });
      },
      options);
  auto client = server.client();
  ASSERT_TRUE(client.sendRaw(manyHeaders(9)).ok());
  EXPECT_EQ(client.receive()->status, 200);
  EXPECT_EQ(client.request({"POST", "/", {}, std::string(1000, 'x')})->status, 200);
}

TEST(ServerLimits, ChunkedBodiesBeyondTheReadersLimitAreAnsweredByTheHandler) {
  TestServer server([](const Request& request) {
    request->readAll(10, [request](const Result<std::string>& body) { request->respond(body.ok() ? Response{} : errorResponse(body.error())); });
  });
  struct Case {
    std::string body;
    int status;
  };
  const std::vector<Case> cases{{"a\r\n0123456789\r\n0\r\n\r\n", 200},
                                {"b\r\n01234567890\r\n0\r\n\r\n", 413},
                                {"5\r\n01234\r\n6\r\n012345\r\n0\r\n\r\n", 413},
                                {"ffffffffffffffff\r\n", 400},
                                {"x\r\n", 400},
                                {"5\r\n012345\r\n0\r\n\r\n", 400},
                                {"-1\r\n\r\n0\r\n\r\n", 400},
                                {"5 \r\n01234\r\n0\r\n\r\n", 400},
                                {"5\n01234\n0\n\n", 400}};
  for (const auto& [body, status] : cases) {
    auto client = server.client();
    ASSERT_TRUE(client.sendRaw("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body).ok());
    const auto response = client.receive();
    ASSERT_TRUE(response.ok()) << body;
    EXPECT_EQ(response->status, status) << body;
    if (status != 200) {
      EXPECT_EQ(response->header("Connection"), "close") << body;
    }
  }
}

TEST(ServerLimits, ConnectionsBeyondTheLimitGetACleanRefusal) {
  ServerOptions options;
  options.limits.connections = 2;
  TestServer server(answer, options);
  std::optional<Client> a = server.client();
  auto b = server.client();
  ASSERT_TRUE(a->request({}).ok());
  ASSERT_TRUE(b.request({}).ok());
  auto c = server.client();
  ASSERT_TRUE(c.connect().ok());
  const auto refused = c.receive();
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->status, 503);
  EXPECT_NE(refused->body.find("TooManyConnections"), std::string::npos);
  EXPECT_EQ(refused->header("Retry-After"), "1");
  a.reset();
  // The place is free once the server has seen the end of a.
  while (server.stats().open == 2) {
  }
  auto d = server.client();
  EXPECT_EQ(d.request({})->status, 200);
  EXPECT_EQ(server.stats().refusedConnections, 1);
}

// A client's forgotten connections took the places of all others.
TEST(ServerLimits, APeerLosesItsLongestIdleConnectionAndNeverABusyOne) {
  std::vector<std::shared_ptr<RequestContext>> held;
  ServerOptions options;
  options.limits.idlePerLoopback = 3;
  TestServer server(
      [&](const std::shared_ptr<RequestContext>& request) {
        if (request->head().path == "/held") return held.push_back(request);
        request->respond({});
      },
      options);
  auto busy = server.client();
  ASSERT_TRUE(busy.sendRaw("GET /held HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  while (server.stats().requests == 0) {
  }
  auto trickling = server.client();
  ASSERT_TRUE(trickling.sendRaw("GET / HTTP").ok());
  std::vector<Client> idle;
  for (std::int64_t open = 2; open <= 3; ++open) {
    while (server.stats().open < open) {
    }
    ASSERT_TRUE(idle.emplace_back(server.client()).connect().ok());
  }
  while (server.stats().open < 4) {
  }
  EXPECT_EQ(server.stats().closedIdle, 0);
  auto next = server.client();
  EXPECT_EQ(next.request({})->status, 200);
  EXPECT_TRUE(trickling.closedByServer());  // it came first
  EXPECT_EQ(server.stats().closedIdle, 1);
  for (Client& client : idle) EXPECT_EQ(client.request({})->status, 200);
  server.onLoop([&] { held.at(0)->respond({}); });
  EXPECT_EQ(busy.receive()->status, 200);
}

TEST(ServerLimits, PeersAreAddressesNetworksAndThisMachine) {
  const auto v4 = [](const char* text) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    EXPECT_EQ(::inet_pton(AF_INET, text, &address.sin_addr), 1);
    sockaddr_storage storage{};
    std::memcpy(&storage, &address, sizeof(address));
    return Peer::of(storage);
  };
  const auto v6 = [](const char* text) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    EXPECT_EQ(::inet_pton(AF_INET6, text, &address.sin6_addr), 1);
    sockaddr_storage storage{};
    std::memcpy(&storage, &address, sizeof(address));
    return Peer::of(storage);
  };
  EXPECT_EQ(v4("127.0.0.1"), v4("127.1.2.3"));
  EXPECT_EQ(v4("127.0.0.1"), v6("::1"));
  EXPECT_EQ(v4("127.0.0.1").kind, Peer::Kind::Loopback);
  EXPECT_NE(v4("192.0.2.1"), v4("192.0.2.2"));
  EXPECT_EQ(v4("192.0.2.1"), v6("::ffff:192.0.2.1"));
  EXPECT_EQ(v6("2001:db8::1"), v6("2001:db8::ffff:1"));
  EXPECT_NE(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
  EXPECT_NE(v4("32.1.13.184"), v6("2001:db8::1"));                   // the same bytes
  EXPECT_EQ(Peer::of(sockaddr_storage{}).kind, Peer::Kind::Remote);  // never trusted by mistake
  EXPECT_EQ(v4("127.0.0.1").text(), "loopback");
  EXPECT_EQ(v4("192.0.2.1").text(), "192.0.2.1");
  EXPECT_EQ(v6("::ffff:192.0.2.1").text(), "192.0.2.1");
  EXPECT_EQ(v6("2001:db8:1:2:3::4").text(), "2001:db8:1:2::/64");
  EXPECT_NE(v6("c000:201::"), v4("192.0.2.1")) << "the same bytes, and yet another";
}

TEST(ServerLimits, ASlowHeadIsRefusedAlsoIfItDripsByteByByte) {
  ServerOptions options;
  options.limits.headerTimeout = Millis(60);
  TestServer server(answer, options);
  auto client = server.client();
  ASSERT_TRUE(client.sendRaw("GET / HT").ok());
  const auto response = client.receive();
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->status, 408);
  auto dripping = server.client({Millis(5000), Millis(1)});
  ASSERT_TRUE(dripping.sendRaw("GET / HTTP/1.1\r\nA: ").ok());
  std::optional<Result<ClientResponse>> refused;
  do {
    ASSERT_TRUE(dripping.sendRaw("b").ok());
    refused = dripping.receive();
  } while (!refused->ok() && refused->error().reason == "Timeout");
  ASSERT_TRUE(refused->ok()) << refused->error().message;
  EXPECT_EQ((*refused)->status, 408);
  EXPECT_EQ(server.stats().timeouts, 2);
}

TEST(ServerLimits, AConnectionWithoutARequestIsClosedSilently) {
  ServerOptions options;
  options.limits.headerTimeout = Millis(20);
  options.limits.keepAliveTimeout = Millis(20);
  TestServer server(answer, options);
  auto never = server.client();
  ASSERT_TRUE(never.connect().ok());
  EXPECT_TRUE(never.closedByServer());
  auto once = server.client();
  ASSERT_TRUE(once.request({}).ok());
  EXPECT_TRUE(once.closedByServer());
}

TEST(ServerLimits, ASlowBodyIsRefusedAndItsMemoryIsLeftAlone) {
  ServerOptions options;
  options.limits.bodyIdleTimeout = Millis(40);
  for (const bool chunked : {false, true}) {
    std::promise<Error> told;
    TestServer server(
        [&](const Request& request) {
          request->readAll(1000, [&, request](const Result<std::string>& body) {
            ASSERT_FALSE(body.ok());
            told.set_value(body.error());
            request->respond(Response{});  // harmless
          });
        },
        options);
    auto client = server.client();
    ASSERT_TRUE(client
                    .sendRaw(chunked ? "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
                                     : "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab")
                    .ok());
    const auto response = client.receive();
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->status, 408);
    EXPECT_EQ(told.get_future().get().reason, "ClientTooSlow");
    EXPECT_EQ(server.stats().timeouts, 1);
  }
}

TEST(ServerLimits, ABodyThatDripsBelowTheLeastRateIsRefused) {
  ServerOptions options;
  options.limits.bodyIdleTimeout = Millis(40);
  TestServer server(
      [](const Request& request) { request->readAll(100'000, [request](const Result<std::string>&) { request->respond(Response{}); }); }, options);
  auto client = server.client({Millis(5000), Millis(5)});
  ASSERT_TRUE(client.sendRaw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n").ok());
  // A byte every 5 ms never lets the idle timeout pass, but it is 200 bytes a second.
  std::optional<Result<ClientResponse>> refused;
  do {
    ASSERT_TRUE(client.sendRaw("b").ok());
    refused = client.receive();
  } while (!refused->ok() && refused->error().reason == "Timeout");
  ASSERT_TRUE(refused->ok()) << refused->error().message;
  EXPECT_EQ((*refused)->status, 408);
}

TEST(ServerLimits, AReaderThatStopsReadingIsCutOff) {
  ServerOptions options;
  options.limits.writeTimeout = Millis(40);
  std::promise<Status> sent;
  auto memory = std::make_shared<std::vector<std::byte>>(50'000'000);
  TestServer server(
      [&](const Request& request) {
        Response response;
        response.parts.emplace_back(*memory);
        response.owner = memory;
        request->respond(std::move(response), [&](const Status& status) { sent.set_value(status); });
      },
      options);
  auto client = server.client();
  ASSERT_TRUE(client.sendRaw("GET / HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  EXPECT_EQ(sent.get_future().get().error().code, Code::Cancelled);
  EXPECT_EQ(server.stats().timeouts, 1);
}

}  // namespace
}  // namespace coterie::http
