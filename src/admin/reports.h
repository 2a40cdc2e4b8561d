// The JSON form of what admin_backend.h tells, both ways: the server encodes, the CLI decodes. Times are RFC 3339, durations microseconds, CPUs
// thousandths; the unit is in each name. decode(encode(x)) == x; what is missing decodes as its default. Pure. Thread-compatible.
#pragma once

#include <vector>

#include "admin/admin_backend.h"
#include "audit/trail.h"
#include "model/value.h"
#include "ports/event_log.h"

namespace coterie::admin {

[[nodiscard]] Value encode(const VersionInfo& version);
[[nodiscard]] Value encode(const Explanation& explanation, const std::vector<Event>& changes);
[[nodiscard]] Value encode(const InstanceInfo& instance);
[[nodiscard]] Value encode(const TopReport& report);
[[nodiscard]] Value encode(const LimitLine& line);
[[nodiscard]] Value encode(const LogLine& line);
[[nodiscard]] Value encode(const Event& event);
[[nodiscard]] Value encode(const identity::KeyInfo& key);
[[nodiscard]] Value encode(const identity::NewKey& key);
[[nodiscard]] Value encode(const WhoAmI& me);
[[nodiscard]] Value encode(const Verdict& verdict);
[[nodiscard]] Value encode(const audit::Page& page);

[[nodiscard]] VersionInfo decodeVersion(const Value& value);
[[nodiscard]] Explanation decodeExplanation(const Value& value);
[[nodiscard]] InstanceInfo decodeInstance(const Value& value);
[[nodiscard]] TopReport decodeTop(const Value& value);
[[nodiscard]] LimitLine decodeLimit(const Value& value);
[[nodiscard]] LogLine decodeLogLine(const Value& value);
[[nodiscard]] Event decodeEvent(const Value& value);
[[nodiscard]] identity::KeyInfo decodeKey(const Value& value);
[[nodiscard]] identity::NewKey decodeNewKey(const Value& value);
[[nodiscard]] WhoAmI decodeWhoAmI(const Value& value);
[[nodiscard]] Verdict decodeVerdict(const Value& value);
[[nodiscard]] audit::Page decodeAuditPage(const Value& value);

// Members as the CLI reads them: "" or 0 if missing or of another type.
[[nodiscard]] std::string textAt(const Value& value, std::string_view key);
[[nodiscard]] std::int64_t intAt(const Value& value, std::string_view key);

}  // namespace coterie::admin
