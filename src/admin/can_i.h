// May a caller do that? Asked without doing it, and answered from the table that decides it (tenancy/authorization.h).
//
// The query: verb, kind, and the thing if it is one: name, namespace. tenant and role ask for a key of that role instead of for the caller; of
// another tenant than the caller's only the platform's administrator is told anything. A thing need not exist to be asked about: the answer is about
// rights. Errors: InvalidArgument/UnknownVerb, UnknownKind, UnknownRole, BadQuestion (each names its parameter), NotFound/TenantNotFound. O(keys of
// the tenant). Thread rule: the control loop.
#pragma once

#include <string_view>

#include "admin/access.h"
#include "admin/admin_backend.h"
#include "base/result.h"
#include "ports/object_store.h"

namespace coterie::admin {

[[nodiscard]] Result<Verdict> canI(const Caller& caller, std::string_view query, const ObjectStore& store, const AdminBackend& backend);

}  // namespace coterie::admin
