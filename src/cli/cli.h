// The entry of the `coterie` command.
//
// Exit codes, for scripts (also in --help): see Exit. Errors go to standard error as "coterie: what is wrong (Reason)" and name the fix.
// The server is found by its state folder: --state DIR, else $COTERIE_STATE, else ${XDG_STATE_HOME:-~/.local/state}/coterie; its admin socket is
// admin.sock there. Thread rule: one thread.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace coterie::cli {

enum Exit : int { kOk = 0, kFailed = 1, kUsage = 2, kNotFound = 3, kConflict = 4, kUnreachable = 5 };

// Where a command reads and writes, and what it may assume about it.
struct Terminal {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool interactive{false};  // out is a terminal
  bool colors{false};       // interactive, no NO_COLOR, TERM is not dumb
  int width{80};
  std::function<std::optional<std::string>(std::string_view name)> environment;
};

inline constexpr std::string_view kAdminSocket = "admin.sock";
inline constexpr std::string_view kAgentSocket = "agent.sock";  // of `coterie agent`

// The process's own streams and environment. `more`: commands of other parts (serve, worker).
int cliMain(int argc, char** argv, std::vector<Command> more);
// The same on any terminal; arguments without the program's name.
int runCli(const std::vector<std::string>& arguments, const Terminal& terminal, std::vector<Command> more);
// The default of --state, for serve as well.
[[nodiscard]] std::string defaultStateFolder(const Terminal& terminal);

}  // namespace coterie::cli
