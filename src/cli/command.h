// A command declared as data: its options, and the function that runs it once they are filled in. command_line.cc turns the declarations into a
// parser, help and completion. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace coterie::cli {

struct Context;

// What a word on the command line names; completion asks the server for such names.
enum class Names : std::uint8_t { None, Files, Types, Tenants, Services, Keys };

struct Option {
  std::string flags;  // "-n,--namespace"; without a dash: a positional argument, "NAME"
  std::string help;
  std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::string>*> value;  // a default there is shown in the help
  std::vector<std::string> choices{};                                                          // empty: any
  Names names{Names::None};
  bool required{false};
};

struct Command {
  std::string name;
  std::string group;    // heading in the help: "Objects", "Insight", ...; empty: hidden
  std::string help;     // one line
  std::string example;  // shown below the options; may be empty
  std::vector<Option> options;
  std::vector<Command> children;     // one of them is named; where there is a run as well, none need be
  std::function<int(Context&)> run;  // returns the exit code
};

}  // namespace coterie::cli
