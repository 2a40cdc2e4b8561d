// What workers write to standard error, kept for `coterie logs`: the last lines of each service, also of instances that have ended.
//
// Text comes in pieces; a line is kept when its end comes, or in parts of kMaxLine bytes, and what an instance leaves unfinished when it ends is its
// last line. A worker that floods costs only its own service's older lines. An instance belongs to the service it was started for until it ends or
// the service is forgotten; text of others is dropped. O(log instances + log services) per piece, O(1) per line. Thread rule: control loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "admin/admin_backend.h"
#include "base/units.h"
#include "model/ids.h"

namespace coterie::serve {

class LogBook {
 public:
  static constexpr std::size_t kLinesPerService = 1000;
  static constexpr std::size_t kMaxLine = 4096;

  void started(InstanceId instance, const ServiceName& service) { writers_[instance] = {service, {}}; }
  void append(InstanceId instance, std::string_view text, WallTime now);
  void ended(InstanceId instance, WallTime now);
  // The service is deleted: its lines go, and what its last instances still write is nobody's.
  void forget(const ServiceName& service);
  [[nodiscard]] admin::LogPage read(const ServiceName& service, std::optional<std::uint64_t> after, std::size_t most) const;
  // Services with lines and instances that may write: what the book's memory grows with.
  [[nodiscard]] std::size_t entries() const { return lines_.size() + writers_.size(); }

 private:
  struct Line {
    std::uint64_t sequence;
    admin::LogLine line;
  };
  struct Writer {
    ServiceName service;
    std::string partial;  // of a line whose end has not come
  };
  void keep(const ServiceName& service, InstanceId instance, std::string text, WallTime now);

  std::map<ServiceName, std::deque<Line>> lines_;
  std::map<InstanceId, Writer> writers_;
  std::uint64_t sequence_{0};
};

}  // namespace coterie::serve
