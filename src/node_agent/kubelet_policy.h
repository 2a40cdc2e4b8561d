// Is the kubelet of this node the owner of CPU sets? Its CPU manager writes its policy and what it gave into a state file; under "static" two owners
// would fight over cpusets, and the agent only observes. A file that is not there or says something else (e.g. "none") is no claim. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace coterie::node_agent {

// Of the text of cpu_manager_state (JSON with policyName).
[[nodiscard]] bool saysStatic(std::string_view state);
[[nodiscard]] bool kubeletIsStatic(const std::string& path);

}  // namespace coterie::node_agent
