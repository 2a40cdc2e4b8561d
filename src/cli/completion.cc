// Completion: the script for the shell, and the words that it asks for.
#include <algorithm>
#include <memory>
#include <ostream>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/key_file.h"
#include "cli/references.h"

namespace coterie::cli {
namespace {

// Asks the program that is being typed ($1), which need not be on the PATH.
constexpr std::string_view kBash = R"(# bash completion for coterie: source <(coterie completion bash)
_coterie() {
  local IFS=$'\n'
  COMPREPLY=($("$1" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _coterie coterie
)";

std::vector<std::string> flagsOf(const Option& option) {
  std::vector<std::string> flags;
  for (std::size_t begin = 0; begin < option.flags.size();) {
    const std::size_t end = std::min(option.flags.find(',', begin), option.flags.size());
    flags.push_back(option.flags.substr(begin, end - begin));
    begin = end + 1;
  }
  return flags;
}

bool isPositional(const Option& option) { return option.flags[0] != '-'; }
bool takesValue(const Option& option) { return !std::holds_alternative<bool*>(option.value); }
bool repeats(const Option& option) { return std::holds_alternative<std::vector<std::string>*>(option.value); }

const Option* byFlag(const Command& command, std::string_view flag) {
  for (const Option& option : command.options) {
    const auto flags = flagsOf(option);
    if (!isPositional(option) && std::find(flags.begin(), flags.end(), flag) != flags.end()) return &option;
  }
  return nullptr;
}

void addNames(Context& context, std::string_view kind, std::vector<std::string>& words) {
  const auto list = context.server().get(collectionPath(kind, std::nullopt));
  if (!list.ok()) return;
  for (const Value& item : *list->find("items")->asList()) {
    const std::string nameSpace = metadataText(item, "namespace");
    words.push_back(metadataText(item, "name"));
    if (!nameSpace.empty()) words.push_back(nameSpace + "/" + words.back());
  }
}

std::vector<std::string> valuesOf(Context& context, const Option& option) {
  std::vector<std::string> words = option.choices;
  switch (option.names) {
    case Names::Types: words.insert(words.end(), {"tenants", "modelservices", "all"}); break;
    case Names::Tenants: addNames(context, kTenantKind, words); break;
    case Names::Services: addNames(context, kModelServiceKind, words); break;
    case Names::Keys: {
      const auto list = context.server().get("/admin/v1/keys");
      if (!list.ok()) break;
      for (const Value& item : *list->find("items")->asList()) words.push_back(admin::textAt(item, "id"));
      break;
    }
    case Names::None:
    case Names::Files: break;
  }
  return words;
}

std::vector<std::string> candidates(Context& context, const Command& command, const std::vector<std::string>& before, const std::string& current) {
  if (!before.empty()) {
    const Option* pending = byFlag(command, before.back());
    if (pending != nullptr && takesValue(*pending)) return valuesOf(context, *pending);
  }
  std::vector<std::string> words;
  if (current.starts_with("-")) {
    for (const Option& option : command.options) {
      if (!isPositional(option)) {
        for (auto& flag : flagsOf(option)) words.push_back(std::move(flag));
      }
    }
    words.insert(words.end(), {"--state", "--key-file", "--help"});
    return words;
  }
  std::size_t position = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!before[i].starts_with("-")) {
      ++position;
      continue;
    }
    const Option* option = byFlag(command, before[i]);
    if (option != nullptr && takesValue(*option)) ++i;
  }
  std::vector<const Option*> positionals;
  for (const Option& option : command.options) {
    if (isPositional(option)) positionals.push_back(&option);
  }
  if (positionals.empty() || (position >= positionals.size() && !repeats(*positionals.back()))) return {};
  const Option& option = *positionals[std::min(position, positionals.size() - 1)];
  // After "get tenants" come tenants.
  const bool tenants = option.names == Names::Services && !before.empty() && kindOf(before.front()).ok() && *kindOf(before.front()) == kTenantKind;
  if (!tenants) return valuesOf(context, option);
  addNames(context, kTenantKind, words);
  return words;
}

// Bash hands `--flag=value` over as three words: here they are two, as `--flag value` is.
std::vector<std::string> withoutEquals(std::vector<std::string> words) {
  if (!words.empty() && words.back() == "=") words.back().clear();
  std::erase(words, "=");
  return words;
}

// Takes `--state DIR` and `--key-file FILE` out of the words, wherever they stand; the word being typed stays. Names are completed as with that key.
std::vector<std::string> withoutCommonOptions(Context& context, const std::vector<std::string>& words) {
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--state" && i + 2 < words.size())
      context.stateFolder = words[++i];
    else if (words[i] == "--key-file" && i + 2 < words.size()) {
      if (const auto key = readKeyFile(words[++i]); key.ok()) context.key = *key;
    } else
      rest.push_back(words[i]);
  }
  return rest;
}

}  // namespace

int complete(Context& context, const std::vector<std::string>& typed) {
  const std::vector<std::string> words = withoutCommonOptions(context, withoutEquals(typed));
  if (words.size() >= 2 && (words[words.size() - 2] == "--state" || words[words.size() - 2] == "--key-file")) return kOk;  // the shell knows files
  const std::string current = words.empty() ? "" : words.back();
  const std::vector<Command>* level = context.commands;
  const Command* command = nullptr;
  std::size_t at = 0;
  while (at + 1 < words.size() && level != nullptr) {
    const auto found = std::find_if(level->begin(), level->end(), [&](const Command& each) { return each.name == words[at]; });
    if (found == level->end() && command != nullptr && command->run) {
      level = nullptr;  // its own options
      break;
    }
    if (found == level->end()) return kOk;
    command = &*found;
    level = command->children.empty() ? nullptr : &command->children;
    ++at;
  }
  std::vector<std::string> found;
  if (level != nullptr) {
    for (const Command& each : *level) {
      if (!each.group.empty()) found.push_back(each.name);
    }
    if (command != nullptr && command->run && current.starts_with("-"))
      found = candidates(context, *command, {}, current);
    else if (current.starts_with("-"))
      found.insert(found.end(), {"--state", "--key-file", "--help", "--version"});
  } else {
    const std::vector<std::string> before(words.begin() + static_cast<std::ptrdiff_t>(at), words.end() - 1);
    found = candidates(context, *command, before, current);
  }
  std::sort(found.begin(), found.end());
  for (const auto& word : found) {
    if (word.starts_with(current)) context.terminal.out << word << "\n";
  }
  return kOk;
}

Command makeCompletion() {
  const auto shell = std::make_shared<std::string>("bash");
  return {"completion",
          "Other",
          "Print the completion script of a shell",
          "source <(coterie completion bash)",
          {{"SHELL", "which shell", shell.get(), {"bash"}, Names::None, false}},
          {},
          [shell](Context& context) { return context.terminal.out << kBash, kOk; }};
}

}  // namespace coterie::cli
