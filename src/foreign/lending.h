// Which idle CPUs of one group another may use for a while, where both are other people's servers.
//
// Such servers have no threads in the kernel's idle class, so a loan is a CPU set that grows: given late and taken back soon. A group lends whole
// CPUs that it would not use by its demand (use_meter.h), counted over the window and since the last look, whichever is more; it borrows when its
// demand was above what it owns for a second, as many whole CPUs as it lacks, up to its ceiling. A loan ends at the look at which its owner would use
// the CPU, or its borrower has needed none for the window. One CPU at a time goes to the borrower with the fewest (then the lower group), from the
// lender with most left (then the lower one), its highest id first; of the borrower's containers the one with fewest gets it. Between tenants only
// where neither is isolated. Members of the pool do neither. O(loans * groups) per look. Pure: time is an argument. Thread-compatible. Source: the
// design note, "Loans", foreign containers.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "base/cpu_set.h"
#include "base/units.h"
#include "foreign/use_meter.h"
#include "model/ids.h"
#include "model/isolation.h"

namespace coterie::foreign {

struct LendingContainer {
  InstanceId id;
  CpuSet home;
};

struct LendingGroup {
  TenantId tenant;
  Isolation isolation{Isolation::None};
  bool apart{false};  // a member of the pool, or one that waits: it neither lends nor borrows
  bool lends{true};
  MilliCpu ceiling;  // 0: none
  Use window, last;
  std::vector<LendingContainer> containers;
};

class Lending {
 public:
  // The loans from now on, of containers that have some. groups: by their number in the configuration; the same number is the same group.
  const std::map<InstanceId, CpuSet>& look(Instant now, const std::map<std::size_t, LendingGroup>& groups);
  [[nodiscard]] const std::map<InstanceId, CpuSet>& loans() const { return loans_; }
  void clear();  // all loans end

 private:
  struct Loan {
    int cpu;
    std::size_t owner, borrower;
    InstanceId container;
  };
  struct Account {
    int spare{0};  // CPUs that it could lend
    int lacks{0};  // CPUs that it could borrow
    int lent{0};
    int borrowed{0};
  };
  [[nodiscard]] Account accountOf(std::size_t number, const LendingGroup& group, Instant now);
  [[nodiscard]] int borrowedBy(std::size_t number) const;

  std::vector<Loan> current_;
  std::map<std::size_t, Instant> hungrySince_;
  std::map<InstanceId, CpuSet> loans_;
};

}  // namespace coterie::foreign
