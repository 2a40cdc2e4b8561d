// Where a running agent is asked: Prometheus' page on a listener of its own, and what `coterie top --node` shows on a socket in the state folder.
//
// The listener is http://ADDRESS:PORT with /metrics, /healthz and /readyz (admin/metrics_handler.h), loopback only; the socket answers
// GET /node/v1/top with the report as JSON, to its owner alone. Errors: those of http::Server. Thread rule: control loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "admin/metrics_handler.h"
#include "http/server.h"
#include "model/value.h"

namespace coterie::node_agent {

class AgentDoors {
 public:
  AgentDoors(std::function<Value()> report, std::function<std::string()> metrics);
  // Port 0: the kernel's choice.
  [[nodiscard]] Status openMetrics(http::AsioLoop& loop, const std::string& address, std::uint16_t port);
  // Again: in place of the one before.
  [[nodiscard]] Status openSocket(http::AsioLoop& loop, const std::string& path);
  [[nodiscard]] std::uint16_t metricsPort() const { return metricsServer_ ? metricsServer_->port() : 0; }

 private:
  class Reporter final : public http::RequestHandler {
   public:
    explicit Reporter(std::function<Value()> report) : report_(std::move(report)) {}
    void onRequest(const std::shared_ptr<http::RequestContext>& request) override;

   private:
    std::function<Value()> report_;
  };
  Reporter reporter_;
  admin::MetricsHandler metrics_;
  std::unique_ptr<http::Server> metricsServer_, socketServer_;
};

}  // namespace coterie::node_agent
