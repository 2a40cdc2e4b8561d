// The access log of `coterie serve --access-log FILE`: a JSON object a line for each answered inference request.
//
//   {"time":"2026-11-30T12:00:00.000000Z","requestId":"...","tenant":"audio","keyId":"...","service":"audio/speech","status":200,"reason":"",
//    "bytesIn":640,"bytesOut":412,"queueMs":0.125,"runMs":3.25,"source":"192.0.2.7"}
//
// Never a payload, a query or a key. Written by files::LineLog: inference never waits for the disk. Thread rule: tell() on the gateway's loop.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "files/line_log.h"
#include "gateway/access.h"

namespace coterie::serve {

[[nodiscard]] std::string accessLine(const gateway::Access& access, WallTime now);

class AccessLog {
 public:
  // Errors: LineLog's, with the option's name.
  [[nodiscard]] static Result<std::unique_ptr<AccessLog>> create(const std::string& path);
  void tell(const gateway::Access& access, WallTime now) { file_->append(accessLine(access, now)); }
  [[nodiscard]] std::int64_t dropped() const { return file_->dropped(); }  // any thread

 private:
  explicit AccessLog(std::unique_ptr<files::LineLog> file) : file_(std::move(file)) {}
  std::unique_ptr<files::LineLog> file_;
};

}  // namespace coterie::serve
