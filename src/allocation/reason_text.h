// Reasons as sentences, and the question each answers: the one text for `coterie explain`, `coterie plan node` and whoever shows a plan. Everywhere
// else a reason is an enum with numbers. A sentence speaks of one group as "it" and has no full stop. O(length). Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "allocation/decide.h"

namespace coterie::allocation {

enum class Question : std::uint8_t { WhyThese, WhyThisMany, WhyNotMore };

struct ReasonText {
  Question question{Question::WhyThese};
  std::string sentence;
};

// tenant: the name of the group's tenant. other: of the group that the reason names (Reason::other); empty: not known, or not to be told. Of
// DeviceUnknown the name of the device.
[[nodiscard]] ReasonText reasonText(const Reason& reason, std::string_view tenant, std::string_view other = {});
[[nodiscard]] std::string_view levelText(DomainLevel level);  // "NUMA node"
[[nodiscard]] std::string cpusText(MilliCpu cpus);            // "1.25 CPUs", "1 CPU"
[[nodiscard]] std::string isolationSuffix(Isolation level);   // " (isolation node)"; nothing for none

}  // namespace coterie::allocation
