#include "cli/duration.h"

#include <charconv>
#include <cstdint>

namespace coterie::cli {

std::optional<Millis> parseDuration(std::string_view text) {
  constexpr std::int64_t kMostMillis = 10LL * 366 * 24 * 3600 * 1000;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  std::int64_t factor = 0;
  if (unit == "ms")
    factor = 1;
  else if (unit == "s" || unit.empty())
    factor = 1000;
  else if (unit == "m")
    factor = 60'000;
  else if (unit == "h")
    factor = 3'600'000;
  else if (unit == "d")
    factor = 86'400'000;
  if (factor == 0 || number > kMostMillis / factor) return std::nullopt;
  return Millis(number * factor);
}

}  // namespace coterie::cli
