// What workers write to standard error, kept for `coterie logs`: the last lines of each service, also of instances that have ended.
//
// Text comes in pieces; a line is kept when its end comes, or in parts of kMaxLine bytes. A worker that floods costs only its own service's older
// lines. O(1) per line. Thread rule: control loop.
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

  void append(const ServiceName& service, InstanceId instance, std::string_view text, WallTime now);
  void instanceEnded(InstanceId instance) { partial_.erase(instance); }
  void forget(const ServiceName& service) { lines_.erase(service); }
  [[nodiscard]] admin::LogPage read(const ServiceName& service, std::optional<std::uint64_t> after, std::size_t most) const;

 private:
  struct Line {
    std::uint64_t sequence;
    admin::LogLine line;
  };
  void keep(const ServiceName& service, InstanceId instance, std::string text, WallTime now);

  std::map<ServiceName, std::deque<Line>> lines_;
  std::map<InstanceId, std::string> partial_;
  std::uint64_t sequence_{0};
};

}  // namespace coterie::serve
