#include "admin/metrics_handler.h"

#include <utility>

namespace coterie::admin {

void MetricsHandler::onRequest(const std::shared_ptr<http::RequestContext>& request) {
  const auto& head = request->head();
  http::Response response;
  response.contentType = "text/plain; charset=utf-8";
  if (head.method != http::Method::Get && head.method != http::Method::Head) {
    response = http::errorResponse(405, "MethodNotAllowed", "only GET is served here");
    response.headers.add("Allow", "GET, HEAD");
  } else if (head.path == "/metrics") {
    response.contentType = "text/plain; version=0.0.4; charset=utf-8";
    response.body = metrics_();
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
