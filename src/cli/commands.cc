#include "cli/commands.h"

#include <utility>

namespace coterie::cli {

std::vector<Command> allCommands() {
  std::vector<Command> commands;
  for (auto* make : {makeApply,  makeGet,     makeDescribe, makeDiff,   makeDelete, makeScale, makeWait,    makeExplain,
                     makePlan,   makeMachine, makeTop,      makeLimits, makeEvents, makeLogs,  makeInfer,   makeReplay,
                     makeTenant, makeKey,     makeWhoAmI,   makeCanI,   makeAudit,  makeDrc,   makeVersion, makeCompletion}) {
    commands.push_back(make());
  }
  return commands;
}

Option outputOption(std::string* value, std::vector<std::string> forms) {
  return {"-o,--output", "form of the output", value, std::move(forms), Names::None, false};
}

Option namespaceOption(std::string* value) {
  return {"-n,--namespace", "namespace of the service (default: $COTERIE_NAMESPACE, else all are searched)", value, {}, Names::None, false};
}

}  // namespace coterie::cli
