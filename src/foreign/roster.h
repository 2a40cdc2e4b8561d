// Who is there from scan to scan: gives containers their instance ids, and says who came, who went and who has other processes than before.
//
// A key keeps its id as long as it is found in every scan; an id is never given twice. O(n log n) per scan. Pure. Thread-compatible.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "foreign/discover.h"
#include "model/ids.h"

namespace coterie::foreign {

class Roster {
 public:
  struct Change {
    std::vector<InstanceId> joined;             // ascending
    std::map<InstanceId, FoundContainer> left;  // as they were last
    std::vector<InstanceId> changed;            // other processes than before
    std::vector<InstanceId> recast;             // another role, or another floor of it
    [[nodiscard]] bool any() const { return !joined.empty() || !left.empty(); }
  };

  Change update(std::vector<FoundContainer> found);
  [[nodiscard]] const std::map<InstanceId, FoundContainer>& members() const { return members_; }
  [[nodiscard]] std::vector<int> processesOf(InstanceId id) const;  // empty: it has gone

 private:
  std::map<InstanceId, FoundContainer> members_;
  std::map<std::string, InstanceId> ids_;
  std::int32_t next_{1};
};

}  // namespace coterie::foreign
