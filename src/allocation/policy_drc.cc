// drc: Coterie's own policy. Placement (placement.h) -> loans (loans.h) -> steps (plan_steps.h). Where an isolated group cannot get to its place,
// because nobody could make room first without standing beside somebody, the plan is made again with that group where it is.
#include <algorithm>

#include "allocation/isolation.h"
#include "allocation/loans.h"
#include "allocation/placement.h"
#include "allocation/policy.h"

namespace coterie::allocation {

namespace {
void againBy(Plan& plan, Instant time) {
  if (!plan.decideAgainAt || time < *plan.decideAgainAt) plan.decideAgainAt = time;
}

void takeOver(const Problem& problem, const Placement& placement, Plan& plan) {
  const Instant now = problem.snapshot.now;
  plan.groups = placement.groups;
  plan.pool = placement.pool;
  plan.reasons = placement.reasons;
  plan.bucket = bucketNow(problem);
  plan.bucket.level -= placement.tokensUsed;
  plan.decideAgainAt.reset();
  for (const Deferral& deferral : placement.deferrals) {
    const Instant until = deferral.by == DeferredBy::Interval
                              ? *problem.groups[deferral.group]->lastOptionalMove + problem.config.optionalMoveInterval
                              : now + Nanos(Seconds(60)) / std::max(2, problem.layout.size() / 8);
    plan.reasons[deferral.reason].a = (until - now).count();
    againBy(plan, until);
  }
}

void lend(const Problem& problem, Plan& plan) {
  std::vector<LoanParty> parties;
  parties.reserve(plan.groups.size());
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    if (!plan.groups[g].pending) parties.push_back({problem.groups[g], &plan.groups[g]});
  }
  const auto placed = static_cast<std::ptrdiff_t>(plan.reasons.size());
  planLoans(problem.layout, parties, plan.pool, problem.snapshot, problem.config, plan.reasons, plan.decideAgainAt);
  std::inplace_merge(plan.reasons.begin(), plan.reasons.begin() + placed, plan.reasons.end(),
                     [](const Reason& a, const Reason& b) { return a.group < b.group; });
}
}  // namespace

void planDrc(const Problem& problem, KeptPlacement& kept, Plan& plan) {
  std::vector<bool> pinned(problem.groups.size(), false);
  const Placement* placement = &kept.of(problem);
  Placement around;  // those that stay where they are
  while (true) {
    takeOver(problem, *placement, plan);
    lend(problem, plan);
    const std::vector<bool> blocked = orderSteps(problem, plan);
    // What makes room now may let them pass with the next plan.
    if (placement == &around && !plan.steps.empty()) againBy(plan, problem.snapshot.now + Seconds(1));
    bool again = false;
    for (std::size_t g = 0; g < pinned.size(); ++g) {
      if (!blocked[g] || pinned[g] || !isolated(*problem.groups[g])) continue;
      pinned[g] = again = true;
    }
    if (!again) return;
    around = place(problem, pinned);
    placement = &around;
  }
}

}  // namespace coterie::allocation
