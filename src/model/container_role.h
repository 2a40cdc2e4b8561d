// What a container does in its group: serve (app), prepare and end before the apps run (init), run beside them for as long as they do (sidecar), or
// hold a pod's namespaces and do nothing (pause). The words are the ones that people write. O(1). Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace coterie {

enum class ContainerRole : std::uint8_t { App, Init, Sidecar, Pause };

[[nodiscard]] constexpr std::string_view containerRoleName(ContainerRole role) {
  switch (role) {
    case ContainerRole::Init: return "init";
    case ContainerRole::Sidecar: return "sidecar";
    case ContainerRole::Pause: return "pause";
    case ContainerRole::App: break;
  }
  return "app";
}

}  // namespace coterie
