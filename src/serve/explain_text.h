// Reasons of the in-node scheduler as sentences. Reasons are enums and numbers everywhere else; text is made here only. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "admin/admin_backend.h"
#include "agent/drc.h"

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

[[nodiscard]] ReasonTexts explainReasons(const std::vector<allocation::Reason>& reasons, const TenantName& tenant);
// An answer for each question that neither the plan nor an obstacle has answered.
void leaveNothingOpen(admin::Explanation& explanation, const Situation& situation);
[[nodiscard]] std::string cpusText(MilliCpu cpus);  // "1.25 CPUs", "1 CPU"

}  // namespace coterie::serve
