#include "node_agent/kubelet_policy.h"

#include "linux/files.h"
#include "text/text.h"

namespace coterie::node_agent {

bool saysStatic(std::string_view state) {
  const auto parsed = text::parseJson(state);
  const Value* policy = parsed ? parsed->find("policyName") : nullptr;
  return policy != nullptr && policy->asString() != nullptr && *policy->asString() == "static";
}

bool kubeletIsStatic(const std::string& path) {
  const auto state = linux::readText(path);
  return state && saysStatic(*state);
}

}  // namespace coterie::node_agent
