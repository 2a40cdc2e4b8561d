// What `coterie explain` answers, from a plan's reasons (their sentences: allocation/reason_text.h) and from what they leave open. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "admin/admin_backend.h"
#include "allocation/decide.h"
#include "controller/instance_reconciler.h"

namespace coterie::serve {

struct ReasonTexts {
  std::vector<admin::Because> whyThese;
  std::vector<admin::Because> whyThisMany;
  std::vector<admin::Because> whyNotMore;
};

// What an explanation is about, beyond the plan's reasons.
struct Situation {
  MilliCpu capacity;        // of the machine
  std::size_t services{1};  // that share it, this one included
  bool stopped{false};      // spec.instances is 0
};

// The name of a group that a reason names; empty: it is not known. Without a function none is.
using GroupNames = std::function<std::string(GroupId)>;
[[nodiscard]] ReasonTexts explainReasons(const std::vector<allocation::Reason>& reasons, const TenantName& tenant, const GroupNames& names = {});
// By how many threads a request is run, and why.
[[nodiscard]] admin::WidthInfo explainWidth(const controller::ServiceSummary& summary);
// An answer for each question that neither the plan nor an obstacle has answered.
void leaveNothingOpen(admin::Explanation& explanation, const Situation& situation);

}  // namespace coterie::serve
