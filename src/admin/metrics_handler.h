// /metrics, /healthz and /readyz, for a listener of their own: no tenant's key opens them and no tenant's listener shows them.
//
// /healthz: 200 while the loop turns. /readyz: 200, or 503 with the reason. Thread rule: the loop's thread.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "http/server.h"

namespace coterie::admin {

class MetricsHandler final : public http::RequestHandler {
 public:
  // metrics: the page in Prometheus' text form. ready: ok, or why not.
  MetricsHandler(std::function<std::string()> metrics, std::function<Status()> ready) : metrics_(std::move(metrics)), ready_(std::move(ready)) {}

  void onRequest(const std::shared_ptr<http::RequestContext>& request) override;

 private:
  std::function<std::string()> metrics_;
  std::function<Status()> ready_;
};

}  // namespace coterie::admin
