#include "node_agent/hook_caller.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "http/client.h"

namespace coterie::node_agent {

namespace {
constexpr int kMostTries = 10;
constexpr Seconds kGrace{3};
}  // namespace

std::optional<HookUrl> parseHookUrl(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return std::nullopt;
  url.remove_prefix(kScheme.size());
  const std::size_t slash = std::min(url.find('/'), url.size());
  std::string_view host = url.substr(0, slash);
  HookUrl parsed;
  parsed.target = slash < url.size() ? std::string(url.substr(slash)) : "/";
  const bool bracketed = host.starts_with('[');
  const std::size_t close = bracketed ? host.find(']') : 0;
  if (close == std::string_view::npos) return std::nullopt;
  const std::size_t colon = host.find(':', close);
  if (colon != std::string_view::npos) {
    const std::string_view digits = host.substr(colon + 1);
    const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed.port);
    if (ec != std::errc{} || end != digits.data() + digits.size() || parsed.port == 0) return std::nullopt;
    host = host.substr(0, colon);
  }
  parsed.address = std::string(bracketed ? host.substr(1, close - 1) : host);
  const auto ofAddress = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '.' || c == ':'; };
  const bool sound = std::all_of(parsed.address.begin(), parsed.address.end(), ofAddress) && parsed.address.find_first_of(".:") != std::string::npos;
  const bool printable = std::all_of(parsed.target.begin(), parsed.target.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return sound && printable ? std::optional(parsed) : std::nullopt;
}

HookCaller::HookCaller(Millis pause) : pause_(pause), thread_([this] { run(); }) {}

HookCaller::~HookCaller() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void HookCaller::call(Call call) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const Waiting& one) { return one.call.key == call.key; });
    waiting_.push_back({std::move(call), 0});
  }
  wake_.notify_all();
}

bool HookCaller::send(const Call& call, std::string& why) {
  http::Client client = http::Client::tcp(call.url.address, call.url.port, {Millis(1000), Millis(2000)});
  http::ClientRequest request;
  request.method = "POST";
  request.target = call.url.target;
  request.headers.emplace_back("Content-Type", "application/json");
  request.body = call.body;
  const auto answer = client.request(request);
  why = answer ? "it answered " + std::to_string(answer->status) : answer.error().message;
  return answer && answer->status / 100 == 2;
}

void HookCaller::run() {
  std::unique_lock lock(mutex_);
  std::optional<std::chrono::steady_clock::time_point> end;  // of the grace
  for (;;) {
    wake_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_ && !end) end = std::chrono::steady_clock::now() + kGrace;
    if (waiting_.empty() || (end && std::chrono::steady_clock::now() >= *end)) return;
    Waiting one = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::string why;
    const bool sent = send(one.call, why);
    lock.lock();
    if (sent) continue;
    if (++one.tries >= kMostTries || ending_) {
      log::warning("agent", "a server's hook at " + one.call.url.address + ":" + std::to_string(one.call.url.port) + one.call.url.target +
                                " did not take its thread count: " + why);
      continue;
    }
    const bool newer = std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& other) { return other.call.key == one.call.key; });
    if (!newer) waiting_.push_back(std::move(one));
    wake_.wait_for(lock, pause_, [this] { return ending_; });
  }
}

}  // namespace coterie::node_agent
