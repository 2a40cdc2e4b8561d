// /metrics, /healthz and /readyz, for a listener of their own.
//
// /metrics: what the caller may see. With a key (Authorization: Bearer, or X-API-Key) the series of the key's tenant, if its role may
// (tenancy/authorization.h, Metrics); without one all of them, or 401 where a key is asked for. Answers that are no page are
// {"error","reason"}. /healthz: 200 while the loop turns. /readyz: 200, or 503 with the reason; both for everybody. Thread rule: the loop's thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/server.h"
#include "identity/key_table.h"
#include "model/ids.h"

namespace coterie::admin {

enum class MetricsDoor : std::uint8_t {
  Open,  // who shows no key sees everything: for a listener that only this machine reaches
  Key,   // a key is asked for
};

class MetricsHandler final : public http::RequestHandler {
 public:
  // The page in Prometheus' text form: of all, or of one tenant.
  using Page = std::function<std::string(const std::optional<TenantName>& tenant)>;
  using Authenticate = std::function<Result<identity::Identity>(std::string_view key)>;

  // ready: ok, or why not. authenticate: empty: keys are not looked at.
  MetricsHandler(Page page, std::function<Status()> ready, Authenticate authenticate = {}, MetricsDoor door = MetricsDoor::Open)
      : page_(std::move(page)), ready_(std::move(ready)), authenticate_(std::move(authenticate)), door_(door) {}

  void onRequest(const std::shared_ptr<http::RequestContext>& request) override;

 private:
  // Whose series the caller sees; nobody's in particular: all.
  [[nodiscard]] Result<std::optional<TenantName>> whoLooks(const http::RequestHead& head) const;

  Page page_;
  std::function<Status()> ready_;
  Authenticate authenticate_;
  MetricsDoor door_;
};

}  // namespace coterie::admin
