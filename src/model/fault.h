// One thing that is wrong with what somebody wrote: where (path and line) and what to do about it. Parsers and decoders return every fault they find.
#pragma once

#include <string>
#include <vector>

namespace coterie {

struct Fault {
  std::string path;     // "spec.objective.percentile"; empty: the document
  int line{0};          // 1-based; 0: unknown
  std::string message;  // "wanted 50 to 99.9, found 120"
  friend bool operator==(const Fault&, const Fault&) = default;
};
using Faults = std::vector<Fault>;

// "12: spec.weight: wanted 1 to 10000", without what is unknown; callers put "file:" before it.
[[nodiscard]] inline std::string faultText(const Fault& fault) {
  std::string text = fault.line > 0 ? std::to_string(fault.line) + ": " : "";
  if (!fault.path.empty()) text += fault.path + ": ";
  return text + fault.message;
}

}  // namespace coterie
