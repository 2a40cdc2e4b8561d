// The one file that includes CLI11: it takes many seconds to compile. Turns declared commands into a parser.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <type_traits>
#include <utility>

#include "cli/commands.h"
#include "cli/context.h"
#include "cli/key_file.h"
#include "cli/table.h"
#include "objects/names.h"

namespace coterie::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 failed (or: differences found), 2 wrong usage, 3 not found, 4 conflict, 5 no server reachable.\n"
    "Environment: COTERIE_STATE (state folder), COTERIE_NAMESPACE, COTERIE_KEY (for infer), NO_COLOR.\n"
    "`coterie COMMAND --help` explains a command.";

void addOption(CLI::App& app, const Option& option) {
  CLI::Option* added = std::visit(
      [&](auto* value) -> CLI::Option* {
        if constexpr (std::is_same_v<decltype(value), bool*>) {
          return app.add_flag(option.flags, *value, option.help);
        } else {
          CLI::Option* typed = app.add_option(option.flags, *value, option.help);
          if constexpr (std::is_same_v<decltype(value), std::string*>) {
            if (!value->empty()) typed->capture_default_str();
          }
          if constexpr (std::is_same_v<decltype(value), std::int64_t*>) {
            if (*value > 0) typed->capture_default_str();
          }
          // One value per flag: "-f a b" would swallow a positional argument.
          if constexpr (std::is_same_v<decltype(value), std::vector<std::string>*>) {
            if (option.flags[0] == '-') typed->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
          }
          return typed;
        }
      },
      option.value);
  if (!option.choices.empty()) added->check(CLI::IsMember(option.choices));
  if (option.required) added->required();
}

void addCommand(CLI::App& parent, const Command& command, const Command*& chosen) {
  CLI::App* app = parent.add_subcommand(command.name, command.help);
  app->group(command.group);
  app->fallthrough();
  if (!command.example.empty()) app->footer("Examples:\n  " + command.example);
  for (const Option& option : command.options) addOption(*app, option);
  for (const Command& child : command.children) addCommand(*app, child, chosen);
  if (!command.children.empty()) app->require_subcommand(command.run ? 0 : 1, 1);
  // A child's is called first.
  if (command.run) {
    app->callback([&command, &chosen] {
      if (chosen == nullptr) chosen = &command;
    });
  }
}

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// What was meant as a command: the first word that is neither an option nor the value of one that all commands have.
const std::string* firstWord(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--state" || arguments[i] == "--key-file")
      ++i;
    else if (!arguments[i].starts_with("-"))
      return &arguments[i];
  }
  return nullptr;
}

int parseFailed(const CLI::ParseError& error, const CLI::App& app, const std::vector<std::string>& arguments, const Terminal& terminal,
                const std::vector<Command>& commands) {
  if (error.get_exit_code() == 0) {
    // Help or version were asked for.
    const bool version = dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr;
    terminal.out << (version ? std::string(error.what()) + "\n" : app.help());
    return kOk;
  }
  std::string message = error.what();
  const auto chosen = app.get_subcommands();
  const std::string* word = firstWord(arguments);
  if (chosen.empty() && word != nullptr) {
    std::vector<std::string_view> names;
    for (const Command& command : commands) {
      if (!command.group.empty()) names.push_back(command.name);
    }
    const auto near = objects::nearest(*word, names);
    message = "there is no command " + *word + (near ? "; did you mean " + *near + "?" : "; coterie --help lists them");
  } else {
    std::string path;
    for (const CLI::App* at = &app; at != nullptr;) {
      const auto below = at->get_subcommands();
      at = below.empty() ? nullptr : below.front();
      if (at != nullptr) path += at->get_name() + " ";
    }
    message += "; see coterie " + path + "--help";
  }
  std::replace(message.begin(), message.end(), '\n', ' ');
  terminal.err << "coterie: " << printable(message) << "\n";
  return kUsage;
}

}  // namespace

ServerLink& Context::server() {
  if (!link) link.emplace(stateFolder, ServerLink::To::Server, key);
  return *link;
}

int Context::fail(const Error& error) const {
  terminal.err << styled("coterie:", Style::Bad, terminal.colors) << " " << printable(error.message)
               << (error.reason.empty() ? "" : " (" + printable(error.reason) + ")") << "\n";
  return exitCode(error);
}

int Context::usage(const std::string& message) const {
  terminal.err << styled("coterie:", Style::Bad, terminal.colors) << " " << printable(message) << "\n";
  return kUsage;
}

std::int64_t Context::nowMicros() const { return std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch()).count(); }

int exitCode(const Error& error) {
  if (error.reason == "Unreachable" || error.reason == "ConnectionLost" || error.reason == "ServerEnded") return kUnreachable;
  if (error.code == Code::NotFound) return kNotFound;
  if (error.code == Code::Conflict) return kConflict;
  // What people typed, as far as the CLI itself judges it.
  if (error.reason == "UnknownType" || error.reason == "BadName" || error.reason == "AmbiguousName" || error.reason == "BadInput") return kUsage;
  return kFailed;
}

std::string defaultStateFolder(const Terminal& terminal) {
  const auto set = [&](std::string_view name) {
    auto value = terminal.environment(name);
    return value && !value->empty() ? value : std::nullopt;
  };
  if (const auto folder = set("COTERIE_STATE")) return *folder;
  if (const auto folder = set("XDG_STATE_HOME")) return *folder + "/coterie";
  return set("HOME").value_or("/root") + "/.local/state/coterie";
}

int runCli(const std::vector<std::string>& arguments, const Terminal& terminal, std::vector<Command> more) {
  std::vector<Command> commands = std::move(more);
  for (Command& command : allCommands()) commands.push_back(std::move(command));
  Context context{terminal, defaultStateFolder(terminal), &commands};
  if (!arguments.empty() && arguments[0] == "__complete") return complete(context, {arguments.begin() + 1, arguments.end()});

  CLI::App app("Coterie serves many teams' models on one machine and gives each service its part of it.", "coterie");
  app.footer(kFooter);
  app.require_subcommand(0, 1);  // so that a later word that names another command, as in `get tenant`, stays a word
  app.set_version_flag("--version", std::string("coterie ") + COTERIE_VERSION);
  app.add_option("--state", context.stateFolder, "state folder of the server")->capture_default_str();
  app.add_option("--key-file", context.keyFile, "file (mode 0600) of an API key to act with, in that key's role");
  const Command* chosen = nullptr;
  for (const Command& command : commands) addCommand(app, command, chosen);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return parseFailed(error, app, arguments, terminal, commands);
  }
  if (chosen == nullptr) {
    terminal.out << app.help();
    return kOk;
  }
  if (!context.keyFile.empty()) {
    auto key = readKeyFile(context.keyFile);
    if (!key.ok()) return context.fail(key.error());
    context.key = std::move(*key);
  }
  return chosen->run(context);
}

int cliMain(int argc, char** argv, std::vector<Command> more) {
  const bool interactive = ::isatty(STDOUT_FILENO) == 1;
  const auto noColor = environment("NO_COLOR");
  winsize size{};
  const bool sized = interactive && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const Terminal terminal{std::cin,
                          std::cout,
                          std::cerr,
                          interactive,
                          interactive && (!noColor || noColor->empty()) && environment("TERM").value_or("dumb") != "dumb",
                          sized ? size.ws_col : 80,
                          environment};
  const int code = runCli({argv + 1, argv + argc}, terminal, std::move(more));
  std::cout.flush();
  if (std::cout || code != kOk) return code;
  std::cerr << "coterie: not all of the answer could be written to standard output\n";
  return kFailed;
}

}  // namespace coterie::cli
