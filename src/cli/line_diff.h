// The lines in which two texts differ, with three lines around, as `diff -u` shows them (without its line numbers): " same", "-old", "+new", "..."
// between parts. Empty if the texts are equal. Longest common subsequence, O(n m) time and memory: for objects of some hundred lines. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coterie::cli {

[[nodiscard]] std::vector<std::string> diffLines(std::string_view before, std::string_view after);

}  // namespace coterie::cli
