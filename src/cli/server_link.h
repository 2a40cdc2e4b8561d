// The CLI's connection to a server's admin API, or to an agent: JSON in, JSON out, refusals as errors.
//
// Errors: Unavailable/Unreachable (its message says how to start or find a server); DeadlineExceeded/Timeout (a minute of silence; after five seconds
// standard error says that it waits); a refusal comes back with the code of its status, its reason and message, and the faults of a refused object
// one per line in the message. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "http/client.h"
#include "model/value.h"

namespace coterie::cli {

class ServerLink {
 public:
  enum class To : std::uint8_t { Server, Agent };
  // key: act with that key's role; empty: as whoever runs this.
  explicit ServerLink(const std::string& stateFolder, To to = To::Server, const std::string& key = {});

  [[nodiscard]] Result<Value> get(const std::string& target) { return call("GET", target, std::nullopt); }
  [[nodiscard]] Result<Value> call(const std::string& method, const std::string& target, const std::optional<Value>& body);
  // Each line of the answer as a value, until onValue says Stop or the answer ends, which is an error (Unavailable/ServerEnded) of one that goes on
  // for ever. Its server says each few seconds that it is there: half a minute of silence is one, too.
  enum class Ends : std::uint8_t { Itself, Never };
  [[nodiscard]] Status stream(const std::string& target, Ends ends, const std::function<http::Client::Next(const Value&)>& onValue);

 private:
  [[nodiscard]] Error explain(const Error& error) const;

  std::string stateFolder_;
  To to_;
  std::string socket_;
  std::vector<std::pair<std::string, std::string>> headers_;  // of every request
  http::Client client_;
};

// The error that an answer of a status other than 2xx stands for.
[[nodiscard]] Error errorOf(const http::ClientResponse& response);
// Everything but letters, digits, '-', '_', '.' and '~' as %XX.
[[nodiscard]] std::string percentEncode(std::string_view text);

}  // namespace coterie::cli
