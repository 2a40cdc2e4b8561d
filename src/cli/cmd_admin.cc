// key, drc, version.
#include <memory>
#include <ostream>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/duration.h"
#include "cli/table.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

struct KeyOptions {
  std::string tenant;
  std::string role{"infer"};
  std::string label;
  std::string expires;
  std::string id;
  std::string overlap{"0s"};
  std::string output{"table"};
  std::string listOutput{"table"};
  bool all{false};
};

// The key alone goes to standard output, so that KEY=$(coterie key create audio) works. What nobody saw nobody can use: false.
bool showNew(Context& context, const Value& value, const std::string& output) {
  const auto key = admin::decodeNewKey(value);
  if (output == "json") return (context.terminal.out << text::printJson(value, text::JsonStyle::Indented) << "\n").flush().good();
  context.terminal.err << "Key " << key.info.id << " of tenant " << printable(key.info.tenant.value) << ", role " << roleName(key.info.role)
                       << (key.info.expires ? ", until " + clockText(key.info.expires->micros) + " UTC" : "")
                       << ". It is shown this once; keep it secret.\n";
  return (context.terminal.out << key.key << "\n").flush().good();
}

Error notShown(const std::string& id, const std::string& next) {
  return {Code::Unavailable, "NotShown", "the secret of key " + id + " could not be written to standard output, so nobody has it: " + next};
}

int createKey(Context& context, const KeyOptions& options) {
  Value body = Value::emptyMap();
  body.set("tenant", options.tenant);
  body.set("role", options.role);
  body.set("label", options.label);
  if (!options.expires.empty()) {
    const auto lifetime = parseDuration(options.expires);
    if (!lifetime || *lifetime < Seconds(1)) return context.usage("--expires must be a duration such as 12h or 90d");
    body.set("lifetimeSeconds", std::int64_t{lifetime->count() / 1000});
  }
  const auto created = context.server().call("POST", "/admin/v1/keys", body);
  if (!created.ok()) return context.fail(created.error());
  if (showNew(context, *created, options.output)) return kOk;
  return context.fail(endUnseenKey(context, *created));
}

Cell stateOf(const identity::KeyInfo& key, std::int64_t now) {
  if (key.revoked) return {"revoked", Style::Bad};
  if (key.expires && key.expires->micros <= now) return {"expired", Style::Doubtful};
  if (key.formerUntil && key.formerUntil->micros > now)
    return {"valid, and its former secret for " + ageText(key.formerUntil->micros - now) + " more", Style::Good};
  return {"valid", Style::Good};
}

int listKeys(Context& context, const KeyOptions& options) {
  const auto listed = context.server().get("/admin/v1/keys" + (options.tenant.empty() ? std::string() : "?tenant=" + percentEncode(options.tenant)));
  if (!listed.ok()) return context.fail(listed.error());
  if (options.listOutput == "json") return context.terminal.out << text::printJson(*listed, text::JsonStyle::Indented) << "\n", kOk;
  const std::int64_t now = context.nowMicros();
  int hidden = 0;
  Table table({"ID", "TENANT", "ROLE", "LABEL", "STATE", "EXPIRES", "AGE"});
  for (const Value& item : *listed->find("items")->asList()) {
    const auto key = admin::decodeKey(item);
    const bool over = key.revoked || (key.expires && key.expires->micros <= now);
    if (over && !options.all) {
      ++hidden;
      continue;
    }
    table.add({key.id, key.tenant.value, std::string(roleName(key.role)), key.label, stateOf(key, now),
               key.expires ? clockText(key.expires->micros) : "never", ageText(now - key.created.micros)});
  }
  if (table.empty())
    context.terminal.err << (hidden > 0 ? "No valid keys." : "No keys.") << " coterie key create TENANT makes one.\n";
  else
    table.print(context.terminal.out, context.terminal.colors);
  if (hidden > 0)
    context.terminal.err << hidden << " revoked or expired " << (hidden == 1 ? "key is" : "keys are") << " not shown; --all shows them.\n";
  return kOk;
}

int rotateKey(Context& context, const KeyOptions& options) {
  const auto overlap = parseDuration(options.overlap);
  if (!overlap) return context.usage("--overlap must be a duration such as 10m or 24h");
  Value body = Value::emptyMap();
  body.set("overlapSeconds", std::int64_t{overlap->count() / 1000});
  const auto rotated = context.server().call("POST", "/admin/v1/keys/" + percentEncode(options.id) + "/rotate", body);
  if (!rotated.ok()) return context.fail(rotated.error());
  if (showNew(context, *rotated, options.output)) return kOk;
  return context.fail(notShown(options.id, "rotate it again"));
}

int revokeKey(Context& context, const KeyOptions& options) {
  const auto revoked = context.server().call("DELETE", "/admin/v1/keys/" + percentEncode(options.id), std::nullopt);
  if (!revoked.ok()) return context.fail(revoked.error());
  context.terminal.out << "key " << options.id << " revoked\n";
  return kOk;
}

int drc(Context& context, const std::string& mode) {
  Value body = Value::emptyMap();
  body.set("on", mode == "on");
  const auto answer = mode == "status" ? context.server().get("/admin/v1/drc") : context.server().call("PUT", "/admin/v1/drc", body);
  if (!answer.ok()) return context.fail(answer.error());
  const Value* on = answer->find("on");
  const bool isOn = on != nullptr && on->asBool() != nullptr && *on->asBool();
  context.terminal.out << "DRC "
                       << (isOn ? "on: CPUs follow load and changes" : "off: everybody keeps the CPUs that they have; coterie drc on resumes")
                       << "\n";
  return kOk;
}

struct VersionOptions {
  bool client{false};
  std::string output{"table"};
};

int version(Context& context, const VersionOptions& options) {
  std::ostream& out = context.terminal.out;
  const auto value = options.client ? Result<Value>(Value::emptyMap()) : context.server().get("/admin/v1/version");
  if (options.output == "json") {
    Value both = Value::emptyMap();
    both.set("client", COTERIE_VERSION);
    if (value.ok() && !options.client) both.set("server", *value);
    out << text::printJson(both, text::JsonStyle::Indented) << "\n";
  } else {
    out << "client  " << COTERIE_VERSION << "\n";
    if (value.ok() && !options.client) {
      const auto server = admin::decodeVersion(*value);
      out << "server  " << server.version << (server.revision.empty() ? "" : " (" + server.revision + ")") << ", up "
          << ageText(context.nowMicros() - server.started.micros) << "\n";
      if (!server.runtime.empty()) out << "runtime " << server.runtime << "\n";
      out << "gateway " << server.gatewayUrl << "\n";
      out << "metrics " << server.adminUrl << "/metrics\n";
    }
  }
  // The client's version is known without a server, so its absence is only a remark.
  if (!value.ok()) context.terminal.err << "server  not reachable at " << context.stateFolder << "\n";
  return kOk;
}

}  // namespace

Error endUnseenKey(Context& context, const Value& key) {
  const std::string id = admin::decodeNewKey(key).info.id;
  const auto revoked = context.server().call("DELETE", "/admin/v1/keys/" + percentEncode(id), std::nullopt);
  return notShown(id, revoked.ok() ? "it was revoked" : "coterie key revoke " + id);
}

Command makeKey() {
  const auto options = std::make_shared<KeyOptions>();
  Command create{
      "create",
      "Tenants and keys",
      "Create an API key of a tenant; it is printed once",
      "KEY=$(coterie key create audio --label ci --expires 90d)\n  (umask 077; coterie key create audio --role tenant-admin > audio-admin.key)",
      {{"TENANT", "whose key", &options->tenant, {}, Names::Tenants, true},
       {"--role",
        "observe reads, infer calls models, tenant-admin also makes keys and services",
        &options->role,
        {"observe", "infer", "tenant-admin"},
        Names::None,
        false},
       {"--label", "what it is for", &options->label, {}, Names::None, false},
       {"--expires", "after this time (default: never)", &options->expires, {}, Names::None, false},
       outputOption(&options->output, {"table", "json"})},
      {},
      [options](Context& context) { return createKey(context, *options); }};
  Command list{"list",
               "Tenants and keys",
               "List keys (never their secrets)",
               "",
               {{"--tenant", "only of this tenant", &options->tenant, {}, Names::Tenants, false},
                {"--all", "revoked and expired ones too (-o json always has them)", &options->all, {}, Names::None, false},
                outputOption(&options->listOutput, {"table", "json"})},
               {},
               [options](Context& context) { return listKeys(context, *options); }};
  Command rotate{"rotate",
                 "Tenants and keys",
                 "Give a key a new secret, printed once",
                 "coterie key rotate 4fR2xQ9LmT0a --overlap 24h",
                 {{"ID", "the key's id", &options->id, {}, Names::Keys, true},
                  {"--overlap", "how long the old secret works beside the new one", &options->overlap, {}, Names::None, false},
                  outputOption(&options->output, {"table", "json"})},
                 {},
                 [options](Context& context) { return rotateKey(context, *options); }};
  Command revoke{"revoke",
                 "Tenants and keys",
                 "End a key at once and for good",
                 "",
                 {{"ID", "the key's id", &options->id, {}, Names::Keys, true}},
                 {},
                 [options](Context& context) { return revokeKey(context, *options); }};
  return {"key",
          "Tenants and keys",
          "Create, list, rotate and revoke API keys",
          "",
          {},
          {std::move(create), std::move(list), std::move(rotate), std::move(revoke)},
          {}};
}

Command makeDrc() {
  const auto mode = std::make_shared<std::string>("status");
  return {"drc",
          "Insight",
          "Freeze or resume the dynamic resource controller",
          "coterie drc off",
          {{"MODE", "on, off or status", mode.get(), {"on", "off", "status"}, Names::None, false}},
          {},
          [mode](Context& context) { return drc(context, *mode); }};
}

Command makeVersion() {
  const auto options = std::make_shared<VersionOptions>();
  return {"version",
          "Other",
          "Show the versions of client and server",
          "",
          {{"--client", "of the client only", &options->client, {}, Names::None, false}, outputOption(&options->output, {"table", "json"})},
          {},
          [options](Context& context) { return version(context, *options); }};
}

}  // namespace coterie::cli
