// What a running command has at hand: terminal, state folder, connection to the server; and how commands end. Internal to the CLI and to commands
// handed to it.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/server_link.h"

namespace coterie::cli {

struct Context {
  const Terminal& terminal;
  std::string stateFolder;
  const std::vector<Command>* commands{nullptr};  // all, for completion

  // Connects on first use of the link's calls.
  [[nodiscard]] ServerLink& server();
  // Prints the error to standard error and returns the exit code that belongs to it.
  int fail(const Error& error) const;
  // A mistake on the command line.
  int usage(const std::string& message) const;
  [[nodiscard]] std::int64_t nowMicros() const;

  std::string keyFile{};  // --key-file
  std::string key{};      // what it holds; empty: none was given
  std::optional<ServerLink> link{};
};

[[nodiscard]] int exitCode(const Error& error);

}  // namespace coterie::cli
