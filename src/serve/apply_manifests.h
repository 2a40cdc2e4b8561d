// Brings the store to what manifests say, in-process: the same rules as the admin API's writes. Thread rule: control loop.
#pragma once

#include <string>
#include <vector>

#include "admin/admission.h"
#include "audit/trail.h"
#include "base/result.h"
#include "objects/decode.h"
#include "ports/object_store.h"

namespace coterie::serve {

// Tenants must come before their services. What is stored already in the same form is not written. Stops at the first error, naming the object.
// The audit log is told of each change before it is made; it is the server's own.
[[nodiscard]] Status applyObjects(const std::vector<objects::AnyObject>& objects, ObjectStore& store, const admin::MachineFacts& facts,
                                  audit::Trail& trail);

}  // namespace coterie::serve
