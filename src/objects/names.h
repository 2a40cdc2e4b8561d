// Names as Kubernetes has them, and the nearest known word for a mistyped one. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coterie::objects {

// RFC 1123 label: 1..63 of a-z, 0-9 and '-', no '-' at either end. Returns what is wrong, or nothing.
[[nodiscard]] std::optional<std::string> labelNameFault(std::string_view name);
// Label keys: optional DNS prefix and '/', then 1..63 of letters, digits, '-', '_', '.'; values the same or empty.
[[nodiscard]] std::optional<std::string> labelKeyFault(std::string_view key);
[[nodiscard]] std::optional<std::string> labelValueFault(std::string_view value);

// The known word at the least edit distance (insert, delete, replace, swap of neighbours; case ignored), if it is at most a third of the longer one's
// length, and at least 1. O(words * length^2); words and text are cut at 64 bytes.
[[nodiscard]] std::optional<std::string> nearest(std::string_view text, const std::vector<std::string_view>& known);

}  // namespace coterie::objects
