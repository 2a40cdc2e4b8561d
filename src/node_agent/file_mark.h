// What tells, for the price of a stat, that a file has become another: which file it is, how large, and when it was written and changed. Two writes
// within one step of the file system's clock may leave the same mark: who must not miss the second one reads again at a later look. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

namespace coterie::node_agent {

using FileMark = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

// nullopt: it is not there, or nobody says so.
[[nodiscard]] std::optional<FileMark> fileMark(const std::string& path);

}  // namespace coterie::node_agent
