// Amounts with their unit, and times, as objects write them.
//
// CPUs: 2, 1.5, "500m", "2" (thousandths are the smallest step). Memory: text with a unit: B, k, M, G, T (powers of 1000), Ki, Mi, Gi, Ti (powers of
// 1024); a bare number is refused: nobody can tell bytes from mebibytes. Times: RFC 3339 in UTC with microseconds. Parsers return what is wrong as
// the Error's message. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "model/value.h"

namespace coterie::objects {

inline constexpr std::int64_t kMostMilliCpus = std::int64_t{65536} * 1000;
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

[[nodiscard]] Result<MilliCpu> parseCpus(const Value& value);  // 0..65536 CPUs
[[nodiscard]] Value encodeCpus(MilliCpu cpus);                 // 2 or "500m"
[[nodiscard]] std::string cpusText(MilliCpu cpus);             // "2", "500m"
[[nodiscard]] Result<Bytes> parseBytes(const Value& value);    // 0..1 PiB
[[nodiscard]] std::string bytesText(Bytes bytes);              // the largest unit that is exact: "512Mi", "1001B"

[[nodiscard]] std::string timeText(std::int64_t microsSince1970);  // "2026-01-31T23:59:59.000001Z"; years 1970..9999, others clamped
[[nodiscard]] std::optional<std::int64_t> parseTime(std::string_view text);

}  // namespace coterie::objects
