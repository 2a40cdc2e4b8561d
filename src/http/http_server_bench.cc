// Requests and body bytes per CPU-second of the server's thread, with a trivial handler: what the HTTP layer itself costs.
// usage: http-server [SECONDS]. Load comes from threads of this process over loopback; only the loop thread's CPU time is counted.
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "http/server_fixture.h"

namespace {

using namespace coterie;
using namespace coterie::http;

double cpuSeconds(TestServer& server) {
  double seconds = 0;
  server.onLoop([&] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    seconds = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  });
  return seconds;
}

void measure(const char* name, const FunctionHandler::Function& handler, std::size_t bodyBytes, int connections, int seconds,
             AsioLoop** loop = nullptr) {
  TestServer server(handler);
  if (loop != nullptr) *loop = &server.loop;
  std::atomic<bool> stop{false};
  std::vector<std::thread> clients;
  const std::string request =
      "POST /v2/models/m/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ctk_0123456789_abcdefghijklmnopqrstuvwxyz\r\nUser-Agent: "
      "bench\r\nContent-Length: " +
      std::to_string(bodyBytes) + "\r\n\r\n" + std::string(bodyBytes, 'x');
  const double before = cpuSeconds(server);
  const ServerStats statsBefore = server.stats();
  for (int i = 0; i < connections; ++i) {
    clients.emplace_back([&] {
      auto client = server.client();
      while (!stop.load(std::memory_order_relaxed)) {
        if (!client.sendRaw(request).ok() || !client.receive().ok()) std::abort();
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  stop = true;
  for (auto& client : clients) client.join();
  const double cpu = cpuSeconds(server) - before;
  const auto requests = static_cast<double>(server.stats().requests - statsBefore.requests);
  std::printf("%-28s %3d connections  %9.0f requests/CPU-s  %7.3f GB/CPU-s\n", name, connections, requests / cpu,
              requests * static_cast<double>(bodyBytes) / cpu * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 3;
  const auto now = [](const std::shared_ptr<RequestContext>& request) {
    request->readAll(1 << 20, [request](const Result<std::string>&) {
      Response response;
      response.contentType = "application/json";
      response.body = "{}";
      request->respond(std::move(response));
    });
  };
  AsioLoop* loop = nullptr;
  const auto later = [&loop, now](const std::shared_ptr<RequestContext>& request) { loop->post([request, now] { now(request); }); };
  static std::vector<std::byte> cell(1 << 20);
  const auto inPlace = [](const std::shared_ptr<RequestContext>& request) {
    const std::span<std::byte> part(cell.data(), static_cast<std::size_t>(request->bodyRemaining()));
    request->readInto(std::span(&part, 1), [request](const Status&) { request->respond(Response{}); });
  };
  measure("answer at once", now, 0, 16, seconds);
  measure("small body", now, 200, 16, seconds);
  measure("small body, answer later", later, 200, 16, seconds, &loop);
  measure("600 KB body in place", inPlace, 602'112, 4, seconds);
  return 0;
}
