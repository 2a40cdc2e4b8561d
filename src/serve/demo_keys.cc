#include "serve/demo_keys.h"

#include <optional>
#include <string>
#include <utility>

#include "admin/audited.h"

namespace coterie::serve {

namespace {

const std::string kLabel = "quickstart";

Result<identity::NewKey> renew(identity::KeyStore& keys, const TenantName& tenant, WallTime now) {
  std::optional<std::string> kept;
  for (const identity::KeyInfo& old : keys.list(tenant)) {
    if (old.label != kLabel || old.revoked) continue;
    if (!kept && !old.expires && old.role == Role::Infer) {
      kept = old.id;
      continue;
    }
    if (const Status revoked = keys.revoke(old.id, now); !revoked) return revoked.error();
  }
  return kept ? keys.rotate(*kept, Seconds(0), now) : keys.create(tenant, Role::Infer, kLabel, std::nullopt, now);
}

}  // namespace

Result<std::vector<DemoKey>> makeDemoKeys(identity::KeyStore& keys, const std::vector<TenantName>& tenants, WallTime now, audit::Trail& trail) {
  std::vector<DemoKey> made;
  for (const TenantName& tenant : tenants) {
    auto begun = trail.begin(admin::changeOf(tenancy::Verb::Create, tenancy::Kind::Key, "", tenant, {"label: - -> " + kLabel}));
    if (!begun) return begun.error();
    auto key = renew(keys, tenant, now);
    if (key) begun->entry.object = key->info.id;
    trail.end(std::move(*begun), key ? Status() : Status(key.error()));
    if (!key) return key.error();
    made.push_back({tenant, std::move(key->key)});
  }
  return made;
}

}  // namespace coterie::serve
