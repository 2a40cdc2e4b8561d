#include "http/server.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

#include "http/api_key.h"
#include "http/server_fixture.h"

namespace coterie::http {
namespace {

using Request = std::shared_ptr<RequestContext>;

Response text(std::string body) {
  Response response;
  response.contentType = "text/plain";
  response.body = std::move(body);
  return response;
}

// Answers with the method, the path and the body.
void echo(const Request& request) {
  request->readAll(1 << 20, [request](Result<std::string> body) {
    if (!body.ok()) return request->respond(errorResponse(body.error()));
    request->respond(text(std::string(request->head().methodName) + " " + std::string(request->head().path) + " " + *body));
  });
}

TEST(Server, AnswersWithLengthDateAndTheHandlersHeaders) {
  TestServer server([](const Request& request) {
    Response response = text("hello");
    response.status = 201;
    response.headers.add("X-A", "1").add("X-Evil", "a\r\nSet-Cookie: b");
    request->respond(std::move(response));
  });
  auto client = server.client();
  const auto response = client.request({"GET", "/a?b=c", {}, ""});
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(response->body, "hello");
  EXPECT_EQ(response->header("content-length"), "5");
  EXPECT_EQ(response->header("X-A"), "1");
  EXPECT_EQ(response->header("X-Evil"), "a  Set-Cookie: b");
  EXPECT_EQ(response->header("Set-Cookie"), "");
  EXPECT_EQ(response->header("Date").size(), 29U);
  EXPECT_EQ(response->header("Connection"), "");
}

TEST(Server, TheKernelSaysWhichUserIsAtAUnixSocket) {
  std::optional<std::uint32_t> user;
  std::string source;
  TestServer server(
      [&](const Request& request) {
        user = request->localUser();
        source = request->source();
        request->respond(text("x"));
      },
      TestServer::Over::Unix);
  ASSERT_TRUE(server.client().request({"GET", "/", {}, ""}).ok());
  EXPECT_EQ(user, ::geteuid());
  EXPECT_EQ(source, "user " + std::to_string(::geteuid()));
}

TEST(Server, ThePeerIsTheConnectionsWhateverHeadersSay) {
  std::vector<Peer> peers;
  const auto note = [&](const Request& request) {
    peers.push_back(request->peer());
    request->respond(text("x"));
  };
  TestServer tcp(note);
  const ClientRequest forged{"GET", "/", {{"X-Forwarded-For", "192.0.2.1"}, {"Forwarded", "for=192.0.2.1"}}, ""};
  ASSERT_TRUE(tcp.client().request(forged).ok());
  TestServer local(note, TestServer::Over::Unix);
  ASSERT_TRUE(local.client().request(forged).ok());
  ASSERT_EQ(peers.size(), 2U);
  EXPECT_EQ(peers[0], (Peer{Peer::Kind::Loopback, {}, false, {}}));
  EXPECT_EQ(peers[1], (Peer{Peer::Kind::Local, {}, false, ::geteuid()}));
}

TEST(ApiKey, IsReadFromEitherHeaderAndNeverOverlooked) {
  struct Case {
    std::vector<Header> headers;
    std::string_view key;
    bool shown;
    bool several;
  };
  for (const Case& one : std::vector<Case>{{{}, "", false, false},
                                           {{{"authorization", "bearer  k"}}, "k", true, false},
                                           {{{"X-API-Key", "k"}}, "k", true, false},
                                           {{{"Authorization", "Basic k"}}, "", true, false},
                                           {{{"Authorization", "Basic k"}, {"X-API-Key", "k"}}, "k", true, false},
                                           {{{"Authorization", "Bearer a"}, {"X-API-Key", "b"}}, "a", true, true},
                                           {{{"Authorization", "Bearer a"}, {"X-API-Key", "a"}}, "a", true, false},
                                           {{{"Authorization", ""}}, "", true, false},
                                           {{{"X-API-Key", "a"}, {"x-api-key", "b"}}, "a", true, true},
                                           {{{"Cookie", "k"}}, "", false, false}}) {
    RequestHead head;
    for (const Header& header : one.headers) head.headers.push_back(header);
    EXPECT_EQ(keyOf(head), one.key);
    EXPECT_EQ(showsKey(head), one.shown) << one.key;
    EXPECT_EQ(hasSeveralKeys(head), one.several) << one.key;
  }
}

TEST(Server, ShowsTheWholeHeadToTheHandler) {
  TestServer server([](const Request& request) {
    const RequestHead& head = request->head();
    const std::string_view* custom = head.find("x-CUSTOM");
    request->respond(text(std::string(head.path) + "|" + std::string(head.query) + "|" + std::string(custom == nullptr ? "-" : *custom) + "|" +
                          std::to_string(head.headers.size()) + "|" + std::to_string(head.contentLength) + "|" +
                          (request->localUser() ? "local" : "remote") + "|" + request->source()));
  });
  auto client = server.client();
  const auto response = client.request({"POST", "/a%20b?x=1&y=2", {{"X-Custom", "  v w "}}, "12345"});
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->body, "/a%20b|x=1&y=2|v w|3|5|remote|loopback");
}

TEST(Server, ReadsABodyStraightIntoScatteredMemory) {
  std::vector<std::byte> first(3);
  std::vector<std::byte> second(100'000);
  std::vector<std::byte> third(7);
  TestServer server([&](const Request& request) {
    const std::vector<std::span<std::byte>> parts{first, {}, second};
    request->readInto(parts, [&, request](const Status& status) {
      ASSERT_TRUE(status.ok());
      EXPECT_EQ(request->bodyRemaining(), 7U);
      const std::span<std::byte> rest(third);
      request->readInto(std::span(&rest, 1), [request](const Status& again) { request->respond(text(again.ok() ? "read" : "not")); });
    });
  });
  std::string body(100'010, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 31 + i / 256);
  auto client = server.client();
  const auto response = client.request({"POST", "/", {}, body});
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->body, "read");
  std::string got;
  for (const auto* part : {&first, &second, &third}) got.append(reinterpret_cast<const char*>(part->data()), part->size());
  EXPECT_EQ(got, body);
}

TEST(Server, RefusesAReadBeyondTheBody) {
  TestServer server([](const Request& request) {
    static std::array<std::byte, 10> memory;
    const std::span<std::byte> part(memory);
    request->readInto(std::span(&part, 1), [request](const Status& status) { request->respond(text(status.ok() ? "ok" : status.error().reason)); });
  });
  auto client = server.client();
  EXPECT_EQ(client.request({"POST", "/", {}, "12345"})->body, "BadBodyRead");
}

TEST(Server, TakesRequestsByteByByte) {
  TestServer server(echo);
  auto client = server.client();
  const std::string request = "\r\nPOST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;e=1\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n";
  for (int round = 0; round < 2; ++round) {
    for (const char c : request) ASSERT_TRUE(client.sendRaw(std::string_view(&c, 1)).ok());
    const auto response = client.receive();
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->body, "POST /a abcde");
  }
}

TEST(Server, SendsPartsInPlaceWithOneGatherWriteAndAFewThousandOfThemToo) {
  auto memory = std::make_shared<std::vector<std::byte>>(3'000'000);
  for (std::size_t i = 0; i < memory->size(); ++i) (*memory)[i] = static_cast<std::byte>(i / 1000 % 251);
  TestServer server([memory](const Request& request) {
    Response response = text("start:");
    for (std::size_t i = 0; i < 3000; ++i) response.parts.emplace_back(memory->data() + i * 1000, 1000);
    response.owner = memory;
    request->respond(std::move(response));
  });
  auto client = server.client();
  const auto response = client.request({});
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->body, "start:" + std::string(reinterpret_cast<const char*>(memory->data()), memory->size()));
}

TEST(Server, HeadHasNoBodyAndSpeaksOfItsLength) {
  TestServer server([](const Request& request) { request->respond(text("12345")); });
  auto client = server.client();
  for (int i = 0; i < 2; ++i) {
    const auto response = client.request({"HEAD", "/", {}, ""});
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->header("Content-Length"), "5");
    EXPECT_EQ(response->body, "");
  }
}

TEST(Server, KeepsOrClosesTheConnectionAsAsked) {
  struct Case {
    std::string_view head;
    bool closes;
  };
  const std::vector<Case> cases{
      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", false},
      {"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", true},
      {"GET / HTTP/1.0\r\n\r\n", true},
      {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false},
  };
  TestServer server(echo);
  for (const auto& [head, closes] : cases) {
    auto client = server.client({Millis(5000), Millis(closes ? 10'000 : 50)});
    ASSERT_TRUE(client.sendRaw(head).ok());
    const auto response = client.receive();
    ASSERT_TRUE(response.ok()) << head;
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->header("Connection") == "close", closes) << head;
    // receive() closed its side if told so; a kept connection serves again.
    if (!closes) {
      ASSERT_TRUE(client.sendRaw(head).ok());
      EXPECT_TRUE(client.receive().ok());
    }
  }
}

TEST(Server, TenThousandRequestsOnOneConnection) {
  TestServer server(echo);
  auto client = server.client();
  for (int i = 0; i < 10'000; ++i) {
    const auto response = client.request({"POST", "/x", {}, std::to_string(i)});
    ASSERT_TRUE(response.ok()) << i << response.error().message;
    ASSERT_EQ(response->body, "POST /x " + std::to_string(i));
  }
  const ServerStats stats = server.stats();
  EXPECT_EQ(stats.accepted, 1);
  EXPECT_EQ(stats.requests, 10'000);
}

TEST(Server, PipelinedRequestsAreAnsweredInOrder) {
  for (const bool later : {false, true}) {
    AsioLoop* loop = nullptr;
    TestServer server([&](const Request& request) {
      if (!later) return echo(request);
      loop->post([request] { echo(request); });
    });
    loop = &server.loop;
    auto client = server.client();
    std::string all;
    for (int i = 0; i < 2000; ++i) all += "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    all += "POST /chunked HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    ASSERT_TRUE(client.sendRaw(all).ok());
    for (int i = 0; i < 2000; ++i) {
      const auto response = client.receive();
      ASSERT_TRUE(response.ok()) << i << " " << response.error().message;
      ASSERT_EQ(response->body, "POST /" + std::to_string(i) + " abc");
    }
    EXPECT_EQ(client.receive()->body, "POST /chunked abc");
  }
}

TEST(Server, APipelinedRequestWhoseBodyComesLaterIsReadWhole) {
  // While the first request waits, the watch for the client's leaving takes the beginning of the second; what follows must still go to the second's
  // body.
  for (const bool chunked : {false, true}) {
    std::promise<void> arrived;
    Request kept;
    TestServer server([&](const Request& request) {
      if (request->head().path != "/held") return echo(request);
      kept = request;
      arrived.set_value();
    });
    auto client = server.client();
    ASSERT_TRUE(client.sendRaw("GET /held HTTP/1.1\r\nHost: x\r\n\r\n").ok());
    arrived.get_future().wait();
    const std::string body(60'000, 'b');
    const std::string coded = "ea60\r\n" + body + "\r\n0\r\n\r\n";
    const std::string sent = chunked ? coded : body;
    ASSERT_TRUE(client
                    .sendRaw(std::string("POST /next HTTP/1.1\r\nHost: x\r\n") + (chunked ? "Transfer-Encoding: chunked" : "Content-Length: 60000") +
                             "\r\n\r\n" + sent.substr(0, 100))
                    .ok());
    for (int turn = 0; turn < 20; ++turn) server.onLoop([] {});
    server.onLoop([&] { std::exchange(kept, nullptr)->respond(text("held")); });
    EXPECT_EQ(client.receive()->body, "held");
    ASSERT_TRUE(client.sendRaw(sent.substr(100)).ok());
    const auto response = client.receive();
    ASSERT_TRUE(response.ok()) << response.error().message;
    EXPECT_EQ(response->body, "POST /next " + body);
    EXPECT_EQ(client.request({"POST", "/again", {}, "c"})->body, "POST /again c");
  }
}

TEST(Server, KeptConnectionsWithLateAnswersOfEveryLength) {
  AsioLoop* loop = nullptr;
  TestServer server([&](const Request& request) { loop->post([request] { echo(request); }); });
  loop = &server.loop;
  auto client = server.client();
  for (int i = 0; i < 600; ++i) {
    const std::string body(static_cast<std::size_t>(i * 97 % 20'000), static_cast<char>('a' + i % 26));
    ASSERT_EQ(client.request({"POST", "/" + std::to_string(i), {}, body})->body, "POST /" + std::to_string(i) + " " + body);
  }
}

TEST(Server, PipelinedChunkedBodiesOfEveryLengthFindRoomInTheBuffer) {
  TestServer server(echo);
  auto client = server.client();
  std::string all;
  std::vector<std::string> wanted;
  for (int i = 0; i < 300; ++i) {
    const std::string body(static_cast<std::size_t>(i * 7), 'b');
    all += "PUT /" + std::string(static_cast<std::size_t>(i), 'p') + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    if (!body.empty()) {
      std::array<char, 20> size{};
      std::snprintf(size.data(), size.size(), "%zx\r\n", body.size());
      all += size.data() + body + "\r\n";
    }
    all += "0\r\n\r\n";
    wanted.push_back("PUT /" + std::string(static_cast<std::size_t>(i), 'p') + " " + body);
  }
  ASSERT_TRUE(client.sendRaw(all).ok());
  for (const auto& body : wanted) ASSERT_EQ(client.receive()->body, body);
}

TEST(Server, AnUnreadSmallBodyIsSkippedAndALargeOneClosesWithTheAnswerIntact) {
  TestServer server([](const Request& request) { request->respond(errorResponse({Code::Unauthenticated, "NoKey", "send a key"})); });
  auto client = server.client();
  for (int i = 0; i < 3; ++i) {
    // The body comes in a segment of its own, as httpx sends it.
    ASSERT_TRUE(client.sendRaw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n").ok());
    const auto response = client.receive();
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->status, 401);
    ASSERT_TRUE(client.sendRaw(std::string(100'000, 'x')).ok());
  }
  EXPECT_EQ(server.stats().accepted, 1);
  std::string large;
  large.resize(20'000'000, 'x');
  const auto refused = client.request({"POST", "/", {}, large});
  ASSERT_TRUE(refused.ok()) << refused.error().message;
  EXPECT_EQ(refused->status, 401);
  EXPECT_EQ(refused->header("Connection"), "close");
}

TEST(Server, Expect100ContinueInvitesTheBodyOnlyWhenItIsWanted) {
  TestServer server([](const Request& request) {
    if (request->head().path == "/no") return request->respond(errorResponse(403, "No", "no"));
    echo(request);
  });
  auto client = server.client();
  ASSERT_TRUE(client.sendRaw("POST /yes HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n").ok());
  auto raw = server.client();
  ASSERT_TRUE(raw.sendRaw("POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n").ok());
  const auto refused = raw.receive();
  EXPECT_EQ(refused->status, 403);
  EXPECT_EQ(refused->header("Connection"), "close");
  ASSERT_TRUE(client.sendRaw("ab").ok());
  EXPECT_EQ(client.receive()->body, "POST /yes ab");
}

TEST(Server, StreamsLinesAsTheyCome) {
  TestServer server([](const Request& request) {
    request->startStream(text(""));
    EXPECT_TRUE(request->write("one\ntw"));
    EXPECT_TRUE(request->write(""));
    EXPECT_TRUE(request->write("o\nthree\n"));
    request->endStream();
  });
  auto client = server.client();
  for (int i = 0; i < 3; ++i) {
    std::vector<std::string> lines;
    const auto response = client.stream({}, [&](std::string_view line) {
      lines.emplace_back(line);
      return Client::Next::Continue;
    });
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->header("Transfer-Encoding"), "chunked");
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three"}));
  }
  ASSERT_TRUE(client.sendRaw("GET / HTTP/1.0\r\n\r\n").ok());
  const auto old = client.receive();
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->body, "one\ntwo\nthree\n");
}

TEST(Server, AStreamSaysWhenItsReaderLeft) {
  std::promise<void> left;
  TestServer server([&](const Request& request) {
    request->startStream(text(""));
    request->onClientGone([&, request] {
      EXPECT_FALSE(request->write("more"));
      left.set_value();
    });
    EXPECT_TRUE(request->write("one\n"));
  });
  auto client = server.client();
  ASSERT_TRUE(client.stream({}, [](std::string_view) { return Client::Next::Stop; }).ok());
  left.get_future().wait();
}

TEST(Server, AStreamWithASlowReaderIsBounded) {
  ServerOptions options;
  options.limits.streamBacklog = Bytes(100'000);
  std::promise<int> written;
  TestServer server(
      [&](const Request& request) {
        request->startStream(text(""));
        int pieces = 0;
        while (request->write(std::string(10'000, 'x')) && pieces < 100'000) ++pieces;
        written.set_value(pieces);
        request->endStream();
      },
      options);
  auto client = server.client();
  ASSERT_TRUE(client.sendRaw("GET / HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  EXPECT_LT(written.get_future().get(), 10'000);  // the socket's buffers and the backlog, not the memory of the machine
}

// A server that is stopped (SIGSTOP) takes a request and says nothing: the person at the keyboard is told, once, before the minute is over.
TEST(Client, ASilentServerIsTold) {
  Request held;
  std::promise<void> arrived;
  TestServer server([&](const Request& request) {
    held = request;
    arrived.set_value();
  });
  auto client = server.client();
  int times = 0;
  client.whenSilent(Millis(1), [&] {
    ++times;
    arrived.get_future().wait();
    server.onLoop([&] { std::exchange(held, {})->respond(text("late")); });
  });
  EXPECT_EQ(client.request({})->body, "late");
  EXPECT_EQ(times, 1);
}

TEST(Server, TwoThousandConnectionsComeAndGo) {
  TestServer server(echo);
  for (int i = 0; i < 2000; ++i) {
    auto client = server.client();
    ASSERT_EQ(client.request({"POST", "/", {{"Connection", "close"}}, "a"})->body, "POST / a");
  }
  auto last = server.client();
  ASSERT_TRUE(last.request({}).ok());
  EXPECT_LE(server.stats().open, 3);
}

}  // namespace
}  // namespace coterie::http
