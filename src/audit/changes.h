// What a change changes, in words short enough for a line of the audit log, and without secrets.
//
// Both values are flattened to their leaves; each that differs is one text: "spec.weight: 100 -> 120", "spec.quota.cpus: - -> 4". Lists of scalars
// are leaves. At most kMostChanges texts, the last of which then says how many more there are. A secret is cut: the value of a member whose name says
// that it is one (secret, token, password, ...), whatever looks like a key of ours, and the user part of an address. O(members). Pure.
// Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/value.h"

namespace coterie::audit {

// Of an object that is made, or removed, one of the two is null.
[[nodiscard]] std::vector<std::string> changesBetween(const Value& before, const Value& after);
[[nodiscard]] std::string withoutSecrets(std::string_view text);

}  // namespace coterie::audit
