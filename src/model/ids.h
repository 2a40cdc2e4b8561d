// Names and ids that several layers share.
#pragma once

#include <compare>
#include <functional>
#include <string>

#include "base/strong_id.h"

namespace coterie {

using TenantName = StrongName<struct TenantNameTag>;

// A service's full name; "namespace.service" on the request path, "namespace/service" for people.
struct ServiceName {
  std::string nameSpace;
  std::string name;
  [[nodiscard]] std::string path() const { return nameSpace + "/" + name; }
  friend auto operator<=>(const ServiceName&, const ServiceName&) = default;
};

using GroupId = StrongId<struct GroupIdTag>;        // a service on this node; stable while the service exists
using InstanceId = StrongId<struct InstanceIdTag>;  // one worker process; never reused in a run
using LaneId = StrongId<struct LaneIdTag>;          // index of a lane within its instance
using TenantId = StrongId<struct TenantIdTag>;      // dense index for the cores

}  // namespace coterie

template <>
struct std::hash<coterie::ServiceName> {
  std::size_t operator()(const coterie::ServiceName& name) const noexcept {
    return std::hash<std::string>{}(name.nameSpace) * 31 + std::hash<std::string>{}(name.name);
  }
};
