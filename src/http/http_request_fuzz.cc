// Feeds bytes to a server as one connection, cut into two writes, over a socket pair; the handler reads bodies in every way the interface has.
// The first byte chooses the cut and how the handler behaves; what must hold: the server neither crashes nor hangs nor reads beyond what is there,
// and each request it accepts ends.
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "http/server.h"

namespace {

using namespace coterie;
using namespace coterie::http;

class FuzzHandler final : public RequestHandler {
 public:
  std::uint8_t mode{0};
  AsioLoop* loop{nullptr};

  void onRequest(const std::shared_ptr<RequestContext>& request) override {
    if ((mode & 4U) == 0) return act(request);
    loop->post([this, request] { act(request); });
  }

 private:
  void act(const std::shared_ptr<RequestContext>& request) {
    const RequestHead& head = request->head();
    (void)percentDecode(head.path);
    (void)queryParameter(head.query, "watch");
    switch (mode & 3U) {
      case 0: return request->respond(Response{});
      case 1:
        return request->readAll(
            300, [request](const Result<std::string>& body) { request->respond(body.ok() ? Response{} : errorResponse(body.error())); });
      case 2: {
        if (head.chunked || request->bodyRemaining() > memory_.size()) return request->respond(errorResponse(413, "BodyTooLarge", ""));
        const std::size_t size = static_cast<std::size_t>(request->bodyRemaining());
        const std::array<std::span<std::byte>, 2> parts{std::span(memory_).first(size / 3), std::span(memory_).subspan(size / 3, size - size / 3)};
        return request->readInto(parts, [request](const Status&) { request->respond(Response{}); });
      }
      default:
        request->startStream(Response{});
        (void)request->write(head.target);
        return request->endStream();
    }
  }

  std::array<std::byte, 4096> memory_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 60'000) return 0;
  static AsioLoop loop;
  static FuzzHandler handler;
  static const std::unique_ptr<Server> server = [] {
    ServerOptions options;
    options.limits.headerBytes = 4096;
    return Server::detached(loop, options, handler);
  }();
  handler.mode = data[0] & 7U;
  handler.loop = &loop;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t cut = bytes.size() * (data[0] >> 3U) / 31;
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
  UniqueFd client(pair[0]);
  server->adopt(UniqueFd(pair[1]));
  std::array<char, 4096> answer;
  const auto turn = [&] {
    for (int i = 0; i < 50 && loop.poll() > 0; ++i) {
      while (::recv(client.get(), answer.data(), answer.size(), 0) > 0) {
      }
    }
  };
  (void)::send(client.get(), bytes.data(), cut, MSG_NOSIGNAL);
  turn();
  (void)::send(client.get(), bytes.data() + cut, bytes.size() - cut, MSG_NOSIGNAL);
  turn();
  client.reset();
  turn();
  if (server->stats().open != 0) std::abort();
  return 0;
}
