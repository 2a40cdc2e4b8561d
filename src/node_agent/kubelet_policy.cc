#include "node_agent/kubelet_policy.h"

#include <utility>

#include "linux/files.h"
#include "text/text.h"

namespace coterie::node_agent {

bool saysStatic(std::string_view state) {
  const auto parsed = text::parseJson(state);
  const Value* policy = parsed ? parsed->find("policyName") : nullptr;
  return policy != nullptr && policy->asString() != nullptr && *policy->asString() == "static";
}

bool KubeletPolicy::isStatic(const std::string& path) {
  const std::optional<FileMark> now = fileMark(path);
  if (!now || path != path_) *this = {};
  path_ = path;
  if (!now || (settled_ && mark_ == now)) return static_;
  auto text = linux::readText(path);
  if (!text) return static_;
  settled_ = mark_ == now && text_ == text;
  mark_ = now;
  if (text_ != text) static_ = saysStatic(*text);
  text_ = std::move(text);
  return static_;
}

}  // namespace coterie::node_agent
