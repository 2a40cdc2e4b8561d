// What the admin API's tests share: the handler over a Unix socket, with a store, events and a backend that is told what to answer. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/admin_handler.h"
#include "admin/reports.h"
#include "admin/scripted_backend.h"
#include "http/server_fixture.h"
#include "memory/event_table.h"
#include "memory/memory_object_store.h"
#include "testing/fake_log_folder.h"
#include "text/text.h"

namespace coterie::admin {

inline constexpr std::string_view kApi = "/apis/coterie.dev/v1alpha1";

inline std::string tenantJson(const std::string& name, const std::string& namespaces, const std::string& more = "") {
  return R"({"apiVersion":"coterie.dev/v1alpha1","kind":"Tenant","metadata":{"name":")" + name + R"("},"spec":{"namespaces":[)" + namespaces + "]" +
         more + "}}";
}
inline std::string serviceJson(const std::string& nameSpace, const std::string& name, const std::string& more = "",
                               const std::string& metadata = "") {
  return R"({"apiVersion":"coterie.dev/v1alpha1","kind":"ModelService","metadata":{"name":")" + name + R"(","namespace":")" + nameSpace + "\"" +
         metadata + R"(},"spec":{"model":{"uri":"file:a.onnx"})" + more + "}}";
}

class Admin : public ::testing::Test {
 protected:
  Admin() : server_([this](const std::shared_ptr<http::RequestContext>& request) { handler_->onRequest(request); }, http::TestServer::Over::Unix) {
    server_.onLoop([this] {
      store_.emplace(server_.loop);
      events_.emplace(server_.loop.clock());
      trail_.emplace(auditFolder_, server_.loop.clock());
      handler_.emplace(server_.loop, *store_, *events_, backend_, *trail_, ::geteuid());
    });
  }
  ~Admin() override {
    server_.onLoop([this] {
      server_.destroyServer();
      handler_.reset();
    });
  }

  using Headers = std::vector<std::pair<std::string, std::string>>;
  http::ClientResponse call(const std::string& method, const std::string& target, const std::string& body = "", const Headers& headers = {}) {
    auto client = server_.client();
    auto response = client.request({method, target, headers, body});
    EXPECT_TRUE(response.ok()) << method << " " << target;
    return response.ok() ? *response : http::ClientResponse{};
  }
  Value json(const http::ClientResponse& response) {
    auto value = text::parseJson(response.body);
    EXPECT_TRUE(value.ok()) << response.body;
    return value.ok() ? *value : Value();
  }
  std::string reason(const http::ClientResponse& response) { return textAt(json(response), "reason"); }
  std::string api(const std::string& path) { return std::string(kApi) + path; }
  void makeAudio() { ASSERT_EQ(call("POST", api("/tenants"), tenantJson("audio", R"("audio")", R"(,"quota":{"services":2})")).status, 201); }

  ScriptedBackend backend_;
  std::optional<memory::MemoryObjectStore> store_;
  std::optional<memory::MemoryEventLog> events_;
  coterie::testing::FakeLogFolder auditFolder_;
  std::optional<audit::Trail> trail_;
  std::optional<AdminHandler> handler_;
  http::TestServer server_;
};

}  // namespace coterie::admin
