// Is the kubelet of this node the owner of CPU sets? Its CPU manager writes its policy and what it gave into a state file; under "static" two owners
// would fight over cpusets, and the agent only observes. A file that is not there or says something else (e.g. "none") is no claim; one that is there
// and cannot be read says what it said last.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "node_agent/file_mark.h"

namespace coterie::node_agent {

// Of the text of cpu_manager_state (JSON with policyName). Pure.
[[nodiscard]] bool saysStatic(std::string_view state);

// Asked again and again, twice a second: what a file said at two looks, and that has not changed since, is not read again. A look at such a one costs
// one stat, whatever the kubelet writes into it. Thread-compatible.
class KubeletPolicy {
 public:
  [[nodiscard]] bool isStatic(const std::string& path);

 private:
  std::string path_;              // looked at last
  std::optional<FileMark> mark_;  // as it was then
  std::optional<std::string> text_;
  bool settled_{false};  // that text was there at two looks
  bool static_{false};
};

}  // namespace coterie::node_agent
