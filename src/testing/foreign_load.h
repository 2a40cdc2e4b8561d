// How many CPUs others used on this machine meanwhile: all CPU time of the machine less that of this process and the given ones. What they use is in
// a bench's figures, so it is said beside them. Resolution: a clock tick (10 ms). Thread-compatible. Source: proc(5), stat.
#pragma once

#include <vector>

#include "base/units.h"

namespace coterie::testing {

class ForeignLoad {
 public:
  explicit ForeignLoad(std::vector<int> ownProcesses);
  // CPUs in use by others, on average since construction.
  [[nodiscard]] double cpus() const;

 private:
  [[nodiscard]] double foreignSeconds() const;

  std::vector<int> own_;
  double began_{0};
  double foreign_{0};
};

}  // namespace coterie::testing
