// Loans: CPUs of others that a group with a queue may use, in the kernel's idle class, while their owners sleep.
//
// A group whose demand exceeds its entitlement and whose queue exceeds its own lanes wakes min(ceil((d-e)/1000), its loan lanes) of them. Lanes are
// handed out one at a time, to the borrower that has least per weight; each goes to the CPU that the borrower already has on loan, else the least
// used (loans given, then its owner's demand per entitlement), else the nearest, else the lowest id. Owners with lend = never are left out. A group
// that no longer needs its loans keeps them until its demand has been at or below its entitlement for `loanParkDelay`. Loans never move a home.
// Owners of equal use make a lot; a lane looks for the first lot that has a CPU for its borrower, as sets of CPUs: O(g log g + lanes * (log lanes +
// lots passed * n/64)), and O(borrowers * g * n/64) more where anybody is isolated. Pure. Thread-compatible.
#pragma once

#include <optional>
#include <vector>

#include "allocation/decide.h"
#include "allocation/home_map.h"
#include "allocation/layout.h"

namespace coterie::allocation {

// What loans need to know of one group: `group` and its targets (homes are set; loans, of which there are none yet, are filled in).
struct LoanParty {
  const GroupState* group{nullptr};
  GroupTarget* target{nullptr};
};
// Fills loans and awakeLoanLanes of the targets, appends reasons in the order of the parties, and brings `again` forward where loans wait to be
// parked. Parties: all groups, as in `homes`.
void planLoans(const Layout& layout, HomeMap& homes, const std::vector<LoanParty>& parties, const Snapshot& snapshot, const Config& config,
               std::vector<Reason>& reasons, std::optional<Instant>& again);

}  // namespace coterie::allocation
