// All commands of the CLI. Each make... function declares one; the functions that run them sit beside, in cmd_*.cc.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "model/value.h"

namespace coterie::cli {

// cmd_apply.cc
[[nodiscard]] Command makeApply();
[[nodiscard]] Command makeDiff();
[[nodiscard]] Command makeDelete();
// cmd_get.cc, cmd_describe.cc
[[nodiscard]] Command makeGet();
[[nodiscard]] Command makeDescribe();
// cmd_change.cc
[[nodiscard]] Command makeScale();
[[nodiscard]] Command makeWait();
// cmd_tenant.cc
[[nodiscard]] Command makeTenant();
// cmd_access.cc
[[nodiscard]] Command makeWhoAmI();
[[nodiscard]] Command makeCanI();
// cmd_audit.cc
[[nodiscard]] Command makeAudit();
// cmd_insight.cc
[[nodiscard]] Command makeExplain();
[[nodiscard]] Command makeTop();
[[nodiscard]] Command makeEvents();
[[nodiscard]] Command makeLogs();
// cmd_limits.cc
[[nodiscard]] Command makeLimits();
// cmd_plan.cc
[[nodiscard]] Command makePlan();
// cmd_admin.cc
[[nodiscard]] Command makeKey();
[[nodiscard]] Command makeDrc();
[[nodiscard]] Command makeVersion();
// cmd_machine.cc
[[nodiscard]] Command makeMachine();
// cmd_replay.cc
[[nodiscard]] Command makeReplay();
// cmd_infer.cc
[[nodiscard]] Command makeInfer();
// completion.cc
[[nodiscard]] Command makeCompletion();
// What the shell's script calls as `coterie __complete WORD...`: prints the words that may stand for the last one.
int complete(Context& context, const std::vector<std::string>& typed);

[[nodiscard]] std::vector<Command> allCommands();

// A key whose secret could not be shown, so that nobody has it, is revoked. What to tell of that.
[[nodiscard]] Error endUnseenKey(Context& context, const Value& key);

// The forms of -o that a command offers.
[[nodiscard]] Option outputOption(std::string* value, std::vector<std::string> forms);
[[nodiscard]] Option namespaceOption(std::string* value);

}  // namespace coterie::cli
