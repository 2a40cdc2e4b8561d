// What the gateway's tests share: a request without a socket, and a gateway with two tenants on a loop that the test turns. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/gateway.h"
#include "testing/fake_backend.h"
#include "testing/manual_loop.h"

namespace coterie::gateway {

using testing::FakeBackend;
using testing::ManualLoop;

// A request without a socket: its body is there at once, or when the test says so.
class FakeContext final : public http::RequestContext {
 public:
  FakeContext(http::Method method, std::string target, std::vector<std::pair<std::string, std::string>> lines, std::string body)
      : target_(std::move(target)), headers_(std::move(lines)), body_(std::move(body)) {
    head_.method = method;
    head_.target = target_;
    head_.path = std::string_view(target_).substr(0, target_.find('?'));
    head_.contentLength = body_.size();
    for (const auto& [name, value] : headers_) head_.headers.push_back({name, value});
  }
  const http::RequestHead& head() const override { return head_; }
  std::uint64_t bodyRemaining() const override { return body_.size() - at_; }
  void readInto(std::span<const std::span<std::byte>> parts, Done done) override {
    if (broken) return done(Error{Code::Cancelled, "ClientGone", "gone"});
    for (const auto& part : parts) {
      std::memcpy(part.data(), body_.data() + at_, part.size());
      at_ += part.size();
    }
    done({});
  }
  void readAll(std::size_t limit, std::function<void(Result<std::string>)> done) override {
    if (body_.size() > limit) return done(Error{Code::TooLarge, "BodyTooLarge", "too large"});
    done(body_);
  }
  // In pieces, as a chunked body comes.
  void readCounted(std::size_t limit, MayHold mayHold, std::function<void(Result<std::string>)> done) override {
    for (std::size_t total = 64; total < body_.size(); total *= 2) {
      if (const Status allowed = mayHold(total); !allowed.ok()) return done(allowed.error());
    }
    if (const Status allowed = mayHold(body_.size()); !allowed.ok()) return done(allowed.error());
    readAll(limit, std::move(done));
  }
  void onClientGone(std::function<void()> callback) override { gone_ = std::move(callback); }
  bool clientGone() const override { return left_; }
  const http::Peer& peer() const override { return from; }
  void respond(http::Response answer, Done done) override {
    ++answers;
    if (left_) return done ? done(Error{Code::Cancelled, "ClientGone", "gone"}) : void();
    owner_ = std::move(answer.owner);
    read_ = std::move(done);
    status = answer.status;
    headers = answer.headers.text();
    text = std::move(answer.body);
    for (const auto& part : answer.parts) text.append(reinterpret_cast<const char*>(part.data()), part.size());
    if (reads) read();
  }
  void startStream(http::Response) override {}
  bool write(std::string_view) override { return false; }
  void endStream() override {}

  // The client has read all of its answer.
  void read() {
    owner_.reset();
    if (const auto done = std::exchange(read_, nullptr)) done({});
  }
  void leave() {
    left_ = true;
    if (const auto gone = std::exchange(gone_, nullptr)) gone();
  }

  http::Peer from{http::Peer::Kind::Remote, {192, 0, 2, 7}, false, {}};
  bool broken{false};
  bool reads{true};  // false: an answer stays with the server until read()
  int answers{0};
  int status{0};
  std::string headers;
  std::string text;

 private:
  http::RequestHead head_;
  std::string target_;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::string body_;
  std::size_t at_{0};
  bool left_{false};
  std::function<void()> gone_;
  std::shared_ptr<const void> owner_;
  Done read_;
};
using Sent = std::shared_ptr<FakeContext>;

inline ModelSignature identity() { return {{{"x", ElementType::Fp32, {kDynamic}, false}}, {{"y", ElementType::Fp32, {kDynamic}, false}}}; }
inline const std::string kBody = R"({"id":"7","inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1.5,-2]}]})";

class GatewayTest : public ::testing::Test {
 protected:
  explicit GatewayTest(const GatewayOptions& options = {})
      : gateway(loop, options, [](std::string_view key) -> Result<Caller> {
          if (key == "key-a") return Caller{TenantName("a"), Role::Infer};
          if (key == "key-a-observe") return Caller{TenantName("a"), Role::Observe, "id-a-observe"};
          if (key == "key-a-admin") return Caller{TenantName("a"), Role::TenantAdmin};
          if (key == "key-b") return Caller{TenantName("b"), Role::Infer};
          if (key == "key-gone") return Caller{TenantName("gone"), Role::Infer};
          return Error{Code::Unauthenticated, "InvalidKey", "unknown key"};
        }) {
    gateway.setTenant(TenantName("a"), {{"na", "na2"}, 100, {}});
    gateway.setTenant(TenantName("b"), {{"nb"}, 100, {}});
  }
  FakeBackend& publish(const ServiceName& name, FakeBackend::Mode mode, ServiceSettings settings = {}, int lanes = 1) {
    if (settings.tenant.empty()) settings.tenant = TenantName(name.nameSpace == "nb" ? "b" : "a");
    backends.push_back(std::make_unique<FakeBackend>(loop, identity(), mode));
    FakeBackend& backend = *backends.back();
    loads[name] = gateway.publishService(name, settings, &backend);
    gateway.setLanes(name, InstanceId(1), {lanes, 0});
    for (int lane = 0; lane < lanes; ++lane) backend.addLane(1, lane);
    return backend;
  }
  Sent send(http::Method method, const std::string& target,
            std::vector<std::pair<std::string, std::string>> headers = {{"Authorization", "Bearer key-a"}}, const std::string& body = "") {
    headers.emplace_back("X-Request-Id", "r");
    auto context = std::make_shared<FakeContext>(method, target, std::move(headers), body);
    gateway.onRequest(context);
    return context;
  }
  Sent infer(const std::string& model = "m", const std::string& body = kBody, std::vector<std::pair<std::string, std::string>> more = {}) {
    more.emplace_back("authorization", "bearer key-a");
    return send(http::Method::Post, "/v2/models/" + model + "/infer", std::move(more), body);
  }
  Sent get(const std::string& target, const std::string& key = "key-a") { return send(http::Method::Get, target, {{"X-API-Key", key}}); }
  ServiceSnapshot figures(const ServiceName& name = {"na", "m"}) {
    for (auto& row : gateway.snapshot().services) {
      if (row.name == name) return row;
    }
    return {};
  }

  ManualLoop loop;
  std::vector<std::unique_ptr<FakeBackend>> backends;
  Gateway gateway;
  std::map<ServiceName, std::shared_ptr<const ServiceLoad>> loads;
};

inline bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace coterie::gateway
