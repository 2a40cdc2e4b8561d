#include "ports/container_runtime.h"

namespace coterie {

std::string_view endReasonName(EndReason reason) {
  switch (reason) {
    case EndReason::Stopped: return "Stopped";
    case EndReason::LoadFailed: return "LoadFailed";
    case EndReason::Crashed: return "Crashed";
    case EndReason::OutOfMemory: return "OutOfMemory";
    case EndReason::ProtocolViolation: return "ProtocolViolation";
    case EndReason::StartTimedOut: return "StartTimedOut";
    case EndReason::RunTimedOut: return "RunTimedOut";
    case EndReason::SpawnFailed: return "SpawnFailed";
    case EndReason::Unresponsive: return "Unresponsive";
  }
  return "Unknown";
}

}  // namespace coterie
