#include "cli/server_link.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "admin/reports.h"
#include "admin/streams.h"
#include "cli/cli.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

constexpr Seconds kSilence{5};
constexpr Seconds kBeat = std::chrono::duration_cast<Seconds>(admin::Streams::kBeatInterval);
constexpr Seconds kMissedBeat = kBeat + Seconds(3);
constexpr Millis kConnects{5000}, kStreamSilence = 6 * kBeat;

Code codeOf(int status) {
  static constexpr std::array<Code, 12> kCodes{Code::InvalidArgument, Code::Unauthenticated, Code::PermissionDenied,  Code::NotFound,
                                               Code::Conflict,        Code::TooLarge,        Code::ResourceExhausted, Code::Cancelled,
                                               Code::Internal,        Code::Unimplemented,   Code::Unavailable,       Code::DeadlineExceeded};
  for (const Code code : kCodes) {
    if (httpStatus(code) == status) return code;
  }
  return status / 100 == 4 ? Code::InvalidArgument : Code::Internal;
}

void tellSilence(Seconds time) {
  std::fprintf(stderr, "coterie: the server has not answered for %lld s; waiting for it\n", static_cast<long long>(time.count()));
}

}  // namespace

Error errorOf(const http::ClientResponse& response) {
  const auto value = text::parseJson(response.body);
  if (!value.ok() || value->asMap() == nullptr)
    return {codeOf(response.status), "Status" + std::to_string(response.status),
            "the server answered with status " + std::to_string(response.status)};
  Error error{codeOf(response.status), admin::textAt(*value, "reason"), admin::textAt(*value, "error")};
  const Value* faults = value->find("faults");
  if (faults != nullptr && faults->asList() != nullptr) {
    error.message = "the object is not valid:";
    for (const Value& fault : *faults->asList()) error.message += "\n  " + admin::textAt(fault, "path") + ": " + admin::textAt(fault, "message");
  }
  return error;
}

std::string percentEncode(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain)
      out.push_back(c);
    else
      out.append({'%', kHex[byte >> 4U], kHex[byte & 15U]});
  }
  return out;
}

ServerLink::ServerLink(const std::string& stateFolder, To to, const std::string& key)
    : stateFolder_(stateFolder),
      to_(to),
      socket_(stateFolder + "/" + std::string(to == To::Server ? kAdminSocket : kAgentSocket)),
      client_(http::Client::unixSocket(socket_)) {
  client_.whenSilent(kSilence, [] { tellSilence(kSilence); });
  if (!key.empty()) headers_.emplace_back("Authorization", "Bearer " + key);
}

Error ServerLink::explain(const Error& error) const {
  if (error.reason == "Timeout") {
    return {Code::DeadlineExceeded, "Timeout",
            error.message + ": it is stopped, or the machine has no time for it; whether the order was carried out is not known" +
                "\n  see whether it runs:  ps -o pid,stat,args -C coterie   (stat T: stopped; kill -CONT PID)\n  then look again:      coterie get"};
  }
  if (error.reason != "Unreachable") return error;
  struct stat folder{};
  if (::access(stateFolder_.c_str(), X_OK) != 0 && errno == EACCES) {
    const bool known = ::stat(stateFolder_.c_str(), &folder) == 0;
    const passwd* owner = known ? ::getpwuid(folder.st_uid) : nullptr;
    return {Code::PermissionDenied, "NotYours",
            "the server's state folder " + stateFolder_ + " is not yours" +
                (owner != nullptr ? std::string(": it belongs to ") + owner->pw_name : "") +
                "\n  act as its owner, or name another's:  --state DIR, or COTERIE_STATE=DIR"};
  }
  if (to_ == To::Agent)
    return {Code::Unavailable, "Unreachable",
            error.message + "\n  start an agent:     coterie agent --config FILE --state " + stateFolder_ +
                "\n  or name another's:  --state DIR, or COTERIE_STATE=DIR"};
  return {
      Code::Unavailable, "Unreachable",
      error.message + "\n  start a server:     coterie serve --state " + stateFolder_ + "\n  or name another's:  --state DIR, or COTERIE_STATE=DIR"};
}

Result<Value> ServerLink::call(const std::string& method, const std::string& target, const std::optional<Value>& body) {
  http::ClientRequest request{method, target, headers_, {}};
  if (body) {
    request.headers.emplace_back("Content-Type", "application/json");
    request.body = text::printJson(*body);
  }
  const auto response = client_.request(request);
  if (!response.ok()) return explain(response.error());
  if (response->status / 100 != 2) return errorOf(*response);
  return text::parseJson(response->body.empty() ? std::string_view("{}") : std::string_view(response->body));
}

Status ServerLink::stream(const std::string& target, Ends ends, const std::function<http::Client::Next(const Value&)>& onValue) {
  const Seconds patience = ends == Ends::Never ? kMissedBeat : kSilence;
  http::Client client = http::Client::unixSocket(socket_, {kConnects, kStreamSilence - Millis(patience)});
  client.whenSilent(patience, [patience] { tellSilence(patience); });
  bool stopped = false;
  const auto response = client.stream({"GET", target, headers_, {}}, [&](std::string_view line) {
    const auto value = text::parseJson(line);
    if (!value.ok()) return http::Client::Next::Continue;
    const http::Client::Next next = onValue(*value);
    stopped = next == http::Client::Next::Stop;
    return next;
  });
  const bool cut = !response.ok() && response.error().reason == "ConnectionLost";
  if (ends == Ends::Never && !stopped && (cut || (response.ok() && response->status / 100 == 2))) {
    const std::string again = to_ == To::Server ? "serve" : "agent --config FILE";
    return Error{Code::Unavailable, "ServerEnded",
                 "the server at " + socket_ +
                     " has ended, or cut this off\n  see whether it is there:  coterie version\n  start it again:           coterie " + again +
                     " --state " + stateFolder_};
  }
  if (!response.ok()) return explain(response.error());
  if (response->status / 100 != 2) return errorOf(*response);
  return {};
}

}  // namespace coterie::cli
