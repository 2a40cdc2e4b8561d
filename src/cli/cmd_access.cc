// whoami, can-i.
#include <pwd.h>

#include <memory>
#include <ostream>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/references.h"
#include "cli/table.h"
#include "tenancy/authorization.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

int whoAmI(Context& context, const std::string& output) {
  const auto answer = context.server().get("/admin/v1/whoami");
  if (!answer.ok()) return context.fail(answer.error());
  std::ostream& out = context.terminal.out;
  if (output == "json") return out << text::printJson(*answer, text::JsonStyle::Indented) << "\n", kOk;
  const auto me = admin::decodeWhoAmI(*answer);
  const passwd* known = ::getpwuid(me.user);
  out << "user    " << (known != nullptr ? printable(known->pw_name) + " (" + std::to_string(me.user) + ")" : std::to_string(me.user)) << "\n";
  out << "role    " << roleName(me.role) << "\n";
  if (me.keyId.empty()) return kOk;
  out << "tenant  " << printable(me.tenant.value) << "\n";
  out << "key     " << me.keyId << (me.label.empty() ? "" : " (" + printable(me.label) + ")") << ", "
      << (me.expires ? "until " + clockText(me.expires->micros) + " UTC" : "does not expire") << "\n";
  return kOk;
}

struct CanIOptions {
  std::string verb;
  std::string kind;
  std::string name;
  std::string nameSpace;
  std::string tenant;
  std::string role;
  std::string output{"table"};
};

std::string queryOf(const Context& context, const CanIOptions& options) {
  std::string nameSpace = options.nameSpace;
  std::string name = options.name;
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) {
    nameSpace = name.substr(0, slash);
    name = name.substr(slash + 1);
  } else if (nameSpace.empty() && !name.empty() && tenancy::kindNamed(options.kind) != tenancy::Kind::Tenant &&
             tenancy::kindNamed(options.kind) != tenancy::Kind::Key && tenancy::kindNamed(options.kind) != tenancy::Kind::Limit) {
    nameSpace = namespaceOf(context, {}).value_or("");
  }
  std::string query;
  const auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) query += (query.empty() ? "?" : "&") + std::string(key) + "=" + percentEncode(value);
  };
  add("verb", options.verb);
  add("kind", options.kind);
  add("namespace", nameSpace);
  add("name", name);
  add("tenant", options.tenant);
  add("role", options.role);
  return query;
}

int canI(Context& context, const CanIOptions& options) {
  const auto answer = context.server().get("/admin/v1/can-i" + queryOf(context, options));
  if (!answer.ok()) return context.fail(answer.error());
  const auto verdict = admin::decodeVerdict(*answer);
  if (options.output == "json")
    context.terminal.out << text::printJson(*answer, text::JsonStyle::Indented) << "\n";
  else
    context.terminal.out << (verdict.allowed ? "yes: " : "no: ") << printable(verdict.message) << "\n";
  return verdict.allowed ? kOk : kFailed;
}

}  // namespace

Command makeWhoAmI() {
  const auto output = std::make_shared<std::string>("table");
  return {"whoami",
          "Tenants and keys",
          "Say who you are to the server, and in which role; with --key-file, whose key it is",
          "coterie --key-file audio.key whoami",
          {outputOption(output.get(), {"table", "json"})},
          {},
          [output](Context& context) { return whoAmI(context, *output); }};
}

Command makeCanI() {
  const auto options = std::make_shared<CanIOptions>();
  return {"can-i",
          "Tenants and keys",
          "Say whether you, or a key, may do something, and why; exit code 0: yes, 1: no",
          "coterie can-i delete tenant audio\n  coterie --key-file audio.key can-i update modelservice audio/speech\n"
          "  coterie can-i infer model audio/speech --tenant audio --role observe",
          {{"VERB", "get, list, watch, create, update, report, delete, infer, rotate or revoke", &options->verb, {}, Names::None, true},
           {"KIND",
            "of what: tenant, modelservice, key, model, statistics, instance, explanation, event, log, usage, audit, controller or version",
            &options->kind,
            {},
            Names::None,
            true},
           {"NAME", "which; NAMESPACE/NAME of what belongs to a service (default: its own)", &options->name, {}, Names::Services, false},
           {"--tenant", "of a key of this tenant instead, with --role", &options->tenant, {}, Names::Tenants, false},
           {"--role", "observe, infer or tenant-admin", &options->role, {"observe", "infer", "tenant-admin"}, Names::None, false},
           namespaceOption(&options->nameSpace),
           outputOption(&options->output, {"table", "json"})},
          {},
          [options](Context& context) { return canI(context, *options); }};
}

}  // namespace coterie::cli
