#include "serve/access_log.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "objects/quantity.h"
#include "oip/json_text.h"

namespace coterie::serve {

namespace {
// Milliseconds with three digits after the point.
std::string millis(Nanos time) {
  const std::int64_t micros = std::max<std::int64_t>(time.count(), 0) / 1000;
  return fmt::format("{}.{:03}", micros / 1000, micros % 1000);
}
}  // namespace

std::string accessLine(const gateway::Access& access, WallTime now) {
  std::string line = "{";
  const auto text = [&](std::string_view name, std::string_view value) {
    line.append(line.size() > 1 ? ",\"" : "\"").append(name).append("\":");
    oip::appendJsonString(line, value);
  };
  const auto number = [&](std::string_view name, std::string_view value) { line.append(",\"").append(name).append("\":").append(value); };
  text("time", objects::timeText(now.micros));
  text("requestId", access.requestId);
  text("tenant", access.tenant);
  text("keyId", access.keyId);
  text("service", access.service.empty() ? std::string() : fmt::format("{}/{}", access.nameSpace, access.service));
  number("status", std::to_string(access.status));
  text("reason", access.reason);
  number("bytesIn", std::to_string(access.bytesIn));
  number("bytesOut", std::to_string(access.bytesOut));
  number("queueMs", millis(access.queued));
  number("runMs", millis(access.run));
  text("source", access.peer.text());
  return line + "}";
}

Result<std::unique_ptr<AccessLog>> AccessLog::create(const std::string& path) {
  files::LineLog::Options options;
  options.said = [](const std::string& what) { log::warning("access-log", what); };
  auto file = files::LineLog::create(path, std::move(options));
  if (!file) return Error{file.error().code, file.error().reason, "--access-log: " + file.error().message};
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(file).value()));
}

}  // namespace coterie::serve
