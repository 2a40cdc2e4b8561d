// tenant create: a namespace, a quota, a first key, and how to use it.
#include <array>
#include <memory>
#include <optional>
#include <ostream>
#include <string_view>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/references.h"
#include "cli/table.h"
#include "objects/encode.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

constexpr Bytes kMebibyte{1 << 20};

// Quotas to begin with: what a person's trial, and what a team's usual services need. docs/tenancy.md has the same numbers, and a test compares them.
struct Preset {
  std::string_view name;
  TenantQuota quota;
};

std::array<Preset, 3> presets() {
  const auto mebibytes = [](std::int64_t count) { return Bytes(count * kMebibyte.value); };
  const auto requests = [&](std::int64_t perSecond, std::int64_t concurrent, std::int64_t queuedMebibytes) {
    RequestLimits limits;
    limits.requestsPerSecond = perSecond;
    limits.concurrentRequests = concurrent;
    limits.queuedBytes = mebibytes(queuedMebibytes);
    return limits;
  };
  return {{{"small", {requests(50, 16, 64), MilliCpu(1000), mebibytes(1024), 3}},
           {"team", {requests(500, 64, 256), MilliCpu(4000), mebibytes(8192), 20}},
           {"unlimited", {}}}};
}

struct TenantOptions {
  std::string name;
  std::vector<std::string> namespaces;
  std::int64_t weight{100};
  std::string preset{"unlimited"};
  std::string cpus;
  std::string memory;
  std::string output{"table"};
  bool dryRun{false};
};

Value objectOf(const TenantOptions& options) {
  TenantSpec spec;
  spec.namespaces = options.namespaces;
  if (spec.namespaces.empty()) spec.namespaces.push_back(options.name);
  for (const Preset& preset : presets()) {
    if (preset.name == options.preset) spec.quota = preset.quota;
  }
  Value encoded = objects::encodeSpec(spec);
  if (options.weight != 100) encoded.set("weight", options.weight);  // as it was typed: the server judges it
  if (encoded.find("quota") == nullptr) encoded.set("quota", Value::emptyMap());
  if (!options.cpus.empty()) encoded.find("quota")->set("cpus", options.cpus);
  if (!options.memory.empty()) encoded.find("quota")->set("memory", options.memory);
  if (encoded.find("quota")->asMap()->empty()) encoded.erase("quota");
  Value metadata = Value::emptyMap();
  metadata.set("name", options.name);
  Value object = Value::emptyMap();
  object.set("apiVersion", kApiVersion);
  object.set("kind", kTenantKind);
  object.set("metadata", std::move(metadata));
  object.set("spec", std::move(encoded));
  return object;
}

// The key stays out of the words of curl, which everybody on the machine sees: it is read from standard input.
bool showFirstKey(Context& context, const TenantOptions& options, const Value& tenant, const Value& key, const std::string& url) {
  std::ostream& out = context.terminal.out;
  if (options.output == "json") {
    Value both = Value::emptyMap();
    both.set("tenant", tenant);
    both.set("key", key);
    return (out << text::printJson(both, text::JsonStyle::Indented) << "\n").flush().good();
  }
  const auto made = admin::decodeNewKey(key);
  out << "tenant/" << options.name << " created\n\nIts first key (" << made.info.id << ", role " << roleName(made.info.role)
      << "), shown this once; keep it secret:\n  export COTERIE_URL=" << url << " COTERIE_KEY=" << made.key
      << "\n  curl -s -X POST $COTERIE_URL/v2/repository/index -H @- <<< \"Authorization: Bearer $COTERIE_KEY\"\n"
      << "\nOne to manage its own services and keys with:\n  (umask 077; coterie key create " << options.name << " --role tenant-admin > "
      << options.name << ".key); coterie --key-file " << options.name << ".key whoami\n";
  return out.flush().good();
}

int createTenant(Context& context, const TenantOptions& options) {
  const auto created =
      context.server().call("POST", collectionPath(kTenantKind, std::nullopt) + (options.dryRun ? "?dryRun=All" : ""), objectOf(options));
  if (!created.ok()) return context.fail(created.error());
  if (options.dryRun) return context.terminal.out << "tenant/" << options.name << " created (dry run)\n", kOk;
  Value wanted = Value::emptyMap();
  wanted.set("tenant", options.name);
  wanted.set("role", roleName(Role::Infer));
  wanted.set("label", "first");
  const auto key = context.server().call("POST", "/admin/v1/keys", wanted);
  if (!key.ok()) {
    return context.fail({key.error().code, key.error().reason,
                         "the tenant is created, its first key is not: " + key.error().message + "; try again: coterie key create " + options.name});
  }
  const auto version = context.server().get("/admin/v1/version");
  const std::string url = version.ok() ? admin::textAt(*version, "gatewayUrl") : "URL";
  if (showFirstKey(context, options, *created, *key, url)) return kOk;
  return context.fail(endUnseenKey(context, *key));
}

}  // namespace

Command makeTenant() {
  const auto options = std::make_shared<TenantOptions>();
  Command create{
      "create",
      "Objects",
      "Create a tenant: a namespace, a quota, and a first key of role infer, printed once",
      "coterie tenant create audio --preset team\n  coterie tenant create audio --cpus 2 --memory 4Gi",
      {{"NAME", "the tenant's name", &options->name, {}, Names::None, true},
       {"--namespace", "a namespace that it owns, may be repeated (default: its name)", &options->namespaces, {}, Names::None, false},
       {"--weight", "share against other tenants, 1 to 10000", &options->weight, {}, Names::None, false},
       {"--preset",
        "quota. small: 1 CPU, 1Gi, 3 services, 50 requests/s, 16 at once, 64Mi queued; team: 4 CPUs, 8Gi, 20 services, 500 requests/s, 64 at "
        "once, 256Mi queued; unlimited: none",
        &options->preset,
        {"small", "team", "unlimited"},
        Names::None,
        false},
       {"--cpus", "quota of CPUs instead of the preset's: 2, 500m", &options->cpus, {}, Names::None, false},
       {"--memory", "quota of memory instead of the preset's: 4Gi", &options->memory, {}, Names::None, false},
       {"--dry-run", "check, create nothing", &options->dryRun, {}, Names::None, false},
       outputOption(&options->output, {"table", "json"})},
      {},
      [options](Context& context) { return createTenant(context, *options); }};
  return {"tenant", "Tenants and keys", "Create tenants", "", {}, {std::move(create)}, {}};
}

}  // namespace coterie::cli
