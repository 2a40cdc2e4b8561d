// Reasons of the in-node scheduler as sentences. Reasons are enums and numbers everywhere else; text is made here only. Pure.
#pragma once

#include <vector>

#include "admin/admin_backend.h"
#include "agent/drc.h"

namespace coterie::serve {

struct ReasonTexts {
  std::vector<admin::Because> whyThese;
  std::vector<admin::Because> whyThisMany;
  std::vector<admin::Because> whyNotMore;
};

[[nodiscard]] ReasonTexts explainReasons(const std::vector<allocation::Reason>& reasons, const TenantName& tenant);
[[nodiscard]] std::string cpusText(MilliCpu cpus);  // "1.25 CPUs", "1 CPU"

}  // namespace coterie::serve
