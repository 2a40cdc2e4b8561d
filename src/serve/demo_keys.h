// The keys of `serve --demo-keys`: one per tenant, of role infer, under the label "quickstart", new at each start.
//
// A tenant's key keeps its id and gets a new secret; the one it had is refused at once. So a list grows by nothing at a start, however often that is.
// Others of that label that are valid without end, or for a while, are revoked. Errors: those of identity::KeyStore and audit::Trail. Thread rule:
// control loop.
#pragma once

#include <vector>

#include "audit/trail.h"
#include "base/result.h"
#include "base/units.h"
#include "identity/key_store.h"
#include "model/ids.h"
#include "serve/startup_view.h"

namespace coterie::serve {

[[nodiscard]] Result<std::vector<DemoKey>> makeDemoKeys(identity::KeyStore& keys, const std::vector<TenantName>& tenants, WallTime now,
                                                        audit::Trail& trail);

}  // namespace coterie::serve
