#include "admin/metrics_handler.h"

#include <utility>

#include "http/api_key.h"
#include "tenancy/authorization.h"

namespace coterie::admin {

Result<std::optional<TenantName>> MetricsHandler::whoLooks(const http::RequestHead& head) const {
  if (!authenticate_) return std::optional<TenantName>();
  const std::string_view key = http::keyOf(head);
  if (!http::showsKey(head) && door_ == MetricsDoor::Open) return std::optional<TenantName>();
  if (http::hasSeveralKeys(head)) return Error{Code::InvalidArgument, "SeveralKeys", "send one Authorization or X-API-Key header, not several"};
  if (key.empty()) {
    return Error{
        Code::Unauthenticated, "NoKey",
        "send a key of role observe: Authorization: Bearer ctk_... (`coterie key create TENANT --role observe` makes one); its tenant's series "
        "are shown. All tenants' are at the admin socket, /admin/v1/metrics"};
  }
  const auto caller = authenticate_(key);
  if (!caller.ok()) return caller.error();
  if (const Status may = tenancy::permits(caller->role, tenancy::Verb::Get, tenancy::Kind::Metrics); !may.ok()) return may.error();
  return std::optional(caller->tenant);
}

void MetricsHandler::onRequest(const std::shared_ptr<http::RequestContext>& request) {
  const auto& head = request->head();
  http::Response response;
  response.contentType = "text/plain; charset=utf-8";
  if (head.method != http::Method::Get && head.method != http::Method::Head) {
    response = http::errorResponse(405, "MethodNotAllowed", "only GET is served here");
    response.headers.add("Allow", "GET, HEAD");
  } else if (head.path == "/metrics") {
    const auto who = whoLooks(head);
    if (who.ok()) {
      response.contentType = "text/plain; version=0.0.4; charset=utf-8";
      response.body = page_(*who);
    } else {
      response = http::errorResponse(who.error());
      if (response.status == 401) response.headers.add("WWW-Authenticate", "Bearer realm=\"coterie\"");
    }
  } else if (head.path == "/healthz") {
    response.body = "ok\n";
  } else if (head.path == "/readyz") {
    const Status ready = ready_();
    if (ready.ok())
      response.body = "ok\n";
    else
      response = http::errorResponse(503, ready.error().reason, ready.error().message);
  } else {
    response = http::errorResponse(404, "NoSuchPath", "/metrics, /healthz and /readyz are served here");
  }
  request->respond(std::move(response));
}

}  // namespace coterie::admin
