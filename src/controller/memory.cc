#include "controller/memory.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace coterie::controller {

namespace {
constexpr std::int64_t kMost = std::int64_t{1} << 52;  // keeps the products below 64 bits
Bytes clamped(std::int64_t bytes) { return Bytes(std::clamp<std::int64_t>(bytes, 0, kMost)); }
}  // namespace

Bytes estimatedNeed(const ModelFile& file) { return clamped(2 * (clamped(file.size.value) + clamped(file.externalSize.value)).value + 128'000'000); }

MemoryNeed memoryNeed(const ModelFile& file, const std::optional<Measurement>& measured, Bytes wanted, int lanes, Bytes arena, Bytes states) {
  MemoryNeed result;
  result.measured = measured.has_value();
  result.need =
      measured ? std::max(clamped(measured->peak.value), clamped(clamped(measured->steady.value).value + lanes * arena.value)) : estimatedNeed(file);
  result.need = clamped(result.need.value + clamped(states.value).value);
  result.limit = wanted.value > 0 ? wanted : clamped(result.need.value + result.need.value / 5);
  const bool proven = measured && measured->provenLimit.value > 0 && wanted >= measured->provenLimit;
  if (wanted.value > 0 && wanted < result.need && !proven) result.missing = result.need - wanted;
  return result;
}

Measurement merged(const std::optional<Measurement>& before, const Measurement& now) {
  if (!before) return now;
  const bool none = before->provenLimit.value == 0 || now.provenLimit.value == 0;
  return {std::max(before->steady, now.steady), std::max(before->peak, now.peak),
          none ? std::max(before->provenLimit, now.provenLimit) : std::min(before->provenLimit, now.provenLimit)};
}

std::string memoryText(Bytes bytes) {
  const auto value = static_cast<double>(bytes.value);
  if (bytes.value >= std::int64_t{1} << 30) return fmt::format("{:.1f} GiB", value / (1 << 30));
  // Rounded up: "0 MiB are missing" helps nobody.
  return fmt::format("{} MiB", (bytes.value + (1 << 20) - 1) >> 20);
}

}  // namespace coterie::controller
