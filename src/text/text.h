// YAML and JSON text <-> Value.
//
// parseYaml: YAML 1.2 core schema as people write it for kubectl: several documents, comments, block and flow style. Refused, each with its line:
// what is not UTF-8,
//   tabs as indentation, control characters, anchors and aliases (so no "billion laughs"), tags, duplicate keys, keys that are not text, numbers
//   beyond 64 bits or with a leading zero (octal to some parsers, decimal to others), .inf and .nan, nesting beyond the limit, size beyond the limit.
//   Empty documents are skipped. A member's line is that of its key. Syntax faults end the parse (one fault); duplicate keys and bad numbers are all
//   listed.
// parseJson: RFC 8259; refuses duplicate keys, numbers beyond double (1e999), depth and size beyond the limits, anything after the value. Whole
// numbers within int64 stay
//   exact; others become double. Iterative: depth costs no stack.
// printJson, printYaml: canonical; parse(print(v)) == v for values without NaN and infinity (printed as null). YAML keys longer than 1,000 bytes do
// not round-trip. Complexity: O(bytes). Errors: faults, or InvalidArgument/BadJson, TooLarge/DocumentTooLarge. Thread-safe: no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/fault.h"
#include "model/value.h"

namespace coterie::text {

struct Limits {
  std::size_t bytes{16u << 20};
  int depth{64};                 // maps and lists within each other
  std::size_t values{1u << 20};  // scalars, maps and lists in all
};

struct Documents {
  std::vector<Value> values;
  Faults faults;  // not empty: do not use the values
};

// All of a stream; of one beyond the size limit one byte more than that, which the parsers refuse: what comes after may have no end. A read that
// failed is told by the stream's bad().
[[nodiscard]] std::string readUpToLimit(std::istream& stream, const Limits& limits = {});
// What parseYaml says of a text beyond the size limit.
[[nodiscard]] Fault tooManyBytes(const Limits& limits = {});

[[nodiscard]] Documents parseYaml(std::string_view text, const Limits& limits = {});
[[nodiscard]] Result<Value> parseJson(std::string_view text, const Limits& limits = {});

enum class JsonStyle : std::uint8_t { Compact, Indented };
[[nodiscard]] std::string printJson(const Value& value, JsonStyle style = JsonStyle::Compact);
// Block style, two spaces; lists of scalars on one line. Ends with a newline.
[[nodiscard]] std::string printYaml(const Value& value);

// The 1-based line of the first byte that is not well-formed UTF-8 (surrogates and overlong forms included), or 0.
[[nodiscard]] int firstBadUtf8Line(std::string_view text);

}  // namespace coterie::text
