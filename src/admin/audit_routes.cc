// The admin API and the audit log: what is written to it, who may read it. See admin_handler.h.
#include <optional>
#include <string>
#include <utility>

#include "admin/admin_handler.h"
#include "admin/answers.h"
#include "admin/reports.h"
#include "objects/quantity.h"

namespace coterie::admin {

namespace {
audit::Actor actorOf(const Caller& caller) {
  if (caller.key) return {audit::Actor::Kind::Key, caller.key->keyId, caller.key->tenant, caller.key->role};
  return {audit::Actor::Kind::User, std::to_string(caller.user), {}, Role::PlatformAdmin};
}
}  // namespace

Result<audit::Begun> AdminHandler::begin(const Caller& caller, audit::Entry change) {
  change.through = audit::Through::Admin;
  change.actor = actorOf(caller);
  return trail_.begin(std::move(change));
}

bool AdminHandler::allowed(const Request& request, const Caller& caller, tenancy::Verb verb, tenancy::Kind kind, std::string_view object) {
  const Status may = caller.may(verb, kind);
  if (!may.ok()) refuse(request, caller, may.error(), tenancy::verbName(verb), tenancy::kindName(kind), object);
  return may.ok();
}

void AdminHandler::refuse(const Request& request, const Caller& caller, const Error& error, std::string_view verb, std::string_view kind,
                          std::string_view object) {
  if (error.code == Code::Unauthenticated || error.code == Code::PermissionDenied) {
    const auto user = request->localUser();
    const audit::Actor who = caller.key ? actorOf(caller)
                             : user     ? audit::Actor{audit::Actor::Kind::User, std::to_string(*user), {}, {}}
                                        : audit::Actor{audit::Actor::Kind::Source, request->source(), {}, {}};
    refusals_.add(who.id, error.reason, [&] {
      audit::Entry entry;
      entry.actor = who;
      entry.verb = verb;
      entry.kind = kind;
      entry.object = object;
      entry.tenant = who.tenant;
      return entry;
    });
  }
  answer(*request, error);
}

// A tenant reads the lines that are its own; the platform all, as they are written, so that whoever has them can check the chain.
void AdminHandler::tellAudit(const Request& request, const Caller& caller) {
  const auto since = http::queryParameter(request->head().query, "since");
  const auto earliest = since ? objects::parseTime(*since) : std::optional<std::int64_t>(0);
  if (!earliest) {
    return answer(*request, Error{Code::InvalidArgument, "BadTime", "since: \"" + *since + "\" is no time such as 2026-01-31T23:59:59Z"});
  }
  std::function<bool(const audit::Line&)> wanted;
  if (since || caller.tenant()) {
    wanted = [earliest = *earliest, tenant = caller.tenant()](const audit::Line& line) {
      return line.entry.time.micros >= earliest && (!tenant || line.entry.tenant == *tenant);
    };
  }
  const auto page = trail_.read(numberParameter(*request, "from").value_or(0), wanted);
  return page.ok() ? answer(*request, encode(*page)) : answer(*request, page.error());
}

}  // namespace coterie::admin
