#include "node_agent/agent_doors.h"

#include <utility>

#include "text/text.h"

namespace coterie::node_agent {

AgentDoors::AgentDoors(std::function<Value()> report, std::function<std::string()> metrics)
    : reporter_(std::move(report)), metrics_([page = std::move(metrics)](const auto&) { return page(); }, [] { return Status(); }) {}

Status AgentDoors::openMetrics(http::AsioLoop& loop, const std::string& address, std::uint16_t port) {
  auto server = http::Server::listenTcp(loop, address, port, {}, metrics_);
  if (!server && server.error().reason == "NotLoopback")
    return Error{server.error().code, server.error().reason,
                 "--metrics-address: metrics are served on loopback only, not on " + address +
                     ": leave the option out, and have whoever scrapes from elsewhere come through a proxy or a tunnel"};
  if (!server) return server.error();
  metricsServer_ = std::move(server).value();
  return {};
}

Status AgentDoors::openSocket(http::AsioLoop& loop, const std::string& path) {
  socketServer_.reset();
  auto server = http::Server::listenUnix(loop, path, {}, reporter_);
  if (!server) return server.error();
  socketServer_ = std::move(server).value();
  return {};
}

void AgentDoors::Reporter::onRequest(const std::shared_ptr<http::RequestContext>& request) {
  const auto& head = request->head();
  http::Response response;
  if (head.method != http::Method::Get) {
    response = http::errorResponse(405, "MethodNotAllowed", "only GET is served here");
    response.headers.add("Allow", "GET");
  } else if (head.path != "/node/v1/top") {
    response = http::errorResponse(404, "NoSuchPath", "/node/v1/top is served here");
  } else {
    response.contentType = "application/json";
    response.body = text::printJson(report_());
  }
  request->respond(std::move(response));
}

}  // namespace coterie::node_agent
