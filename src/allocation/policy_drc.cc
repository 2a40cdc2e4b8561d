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

void endLoans(std::vector<GroupTarget>& targets) {
  for (GroupTarget& target : targets) {
    for (ContainerTarget& container : target.containers) {
      if (container.awakeLoanLanes == 0) continue;
      container.loans.clear();
      container.awakeLoanLanes = 0;
    }
  }
}

// `there`: the plan's targets are the placement's already, with the last decision's loans.
void takeOver(const Problem& problem, const Placement& placement, bool there, Plan& plan) {
  const Instant now = problem.snapshot.now;
  if (there) {
    endLoans(plan.groups);
  } else {
    plan.groups = placement.groups;
    plan.pool = placement.pool;
  }
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
  payNarrowings(problem, placement.memory, plan);
}

// Both by group; of one group, `more` come last. From the end, so that each moves once.
void mergeByGroup(std::vector<Reason>& reasons, const std::vector<Reason>& more) {
  std::size_t from = reasons.size();
  reasons.resize(from + more.size());
  std::size_t to = reasons.size();
  for (auto next = more.rbegin(); next != more.rend(); ++next) {
    while (from > 0 && next->group < reasons[from - 1].group) reasons[--to] = reasons[--from];
    reasons[--to] = *next;
  }
}

void lend(const Problem& problem, HomeMap& homes, Plan& plan) {
  std::vector<LoanParty> parties;
  parties.reserve(plan.groups.size());
  for (std::size_t g = 0; g < plan.groups.size(); ++g) parties.push_back({problem.groups[g], &plan.groups[g]});
  std::vector<Reason> ofLoans;
  ofLoans.reserve(plan.groups.size());
  planLoans(problem.layout, homes, parties, problem.snapshot, problem.config, ofLoans, plan.decideAgainAt);
  mergeByGroup(plan.reasons, ofLoans);
}
}  // namespace

void planDrc(const Problem& problem, KeptPlacement& kept, Plan& plan) {
  std::vector<bool> pinned(problem.groups.size(), false);
  Placement* placement = &kept.of(problem);
  bool there = kept.taken();
  Placement around;  // those that stay where they are
  while (true) {
    takeOver(problem, *placement, there, plan);
    lend(problem, placement->homes, plan);
    const std::vector<bool> blocked = orderSteps(problem, plan, placement == &around ? nullptr : kept.homesAtRest());
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
    there = false;
    kept.leave();
  }
}

}  // namespace coterie::allocation
