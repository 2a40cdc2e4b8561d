#include "tenancy/authentication_limits.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace coterie::tenancy {

namespace {
constexpr std::int64_t kFailure = 1'000'000'000;  // units of one; each nanosecond adds `perSecond` units

AuthenticationLimitOptions bounded(AuthenticationLimitOptions options) {
  options.burst = std::clamp<std::int64_t>(options.burst, 0, AuthenticationLimitOptions::kMost);
  options.perSecond = std::clamp<std::int64_t>(options.perSecond, 1, AuthenticationLimitOptions::kMost);
  options.sources = std::max<std::size_t>(options.sources, 1);
  options.goodKeys = std::max<std::size_t>(options.goodKeys, 1);
  return options;
}

// Under a key of the source's own, so that a key that is good from one place says nothing of another.
std::uint64_t digestOfSource(const DigestKey& key, const Source& source) {
  std::array<char, 16> bytes{};
  std::memcpy(bytes.data(), &source.kind, 8);
  std::memcpy(bytes.data() + 8, &source.network, 8);
  return keyedDigest(key, {bytes.data(), bytes.size()});
}
}  // namespace

std::size_t AuthenticationLimits::SourceHash::operator()(const Source& source) const { return digestOfSource(key, source); }

AuthenticationLimits::AuthenticationLimits(const AuthenticationLimitOptions& options)
    : options_(bounded(options)), sources_(options_.sources, SourceHash{options_.digestKey}), good_(options_.goodKeys) {}

std::uint64_t AuthenticationLimits::digestOf(const Source& source, std::string_view key) const {
  return keyedDigest({options_.digestKey[0] ^ digestOfSource(options_.digestKey, source), options_.digestKey[1]}, key);
}

std::int64_t AuthenticationLimits::unitsAt(const Bucket& bucket, Instant now) const {
  const std::int64_t room = options_.burst * kFailure - bucket.units;
  const std::int64_t elapsed = std::clamp<std::int64_t>((now - bucket.filled).count(), 0, room / options_.perSecond + 1);
  return bucket.units + std::min(room, elapsed * options_.perSecond);
}

std::optional<Nanos> AuthenticationLimits::refuses(const Source& source, std::string_view key, Instant now) const {
  if (options_.burst == 0) return std::nullopt;
  const Bucket* bucket = sources_.find(source);
  if (bucket == nullptr) return std::nullopt;
  const std::int64_t units = unitsAt(*bucket, now);
  if (units >= kFailure) return std::nullopt;
  const Instant* lastGood = good_.find(digestOf(source, key));
  if (lastGood != nullptr && now - *lastGood <= options_.goodFor) return std::nullopt;
  return Nanos((kFailure - units + options_.perSecond - 1) / options_.perSecond);
}

void AuthenticationLimits::succeeded(const Source& source, std::string_view key, Instant now) {
  if (options_.burst == 0) return;
  good_.touch(digestOf(source, key), now) = now;
}

void AuthenticationLimits::failed(const Source& source, std::string_view key, Instant now) {
  if (options_.burst == 0) return;
  good_.erase(digestOf(source, key));
  Bucket& bucket = sources_.touch(source, {options_.burst * kFailure, now});
  bucket.units = std::max<std::int64_t>(unitsAt(bucket, now) - kFailure, 0);
  bucket.filled = std::max(bucket.filled, now);
}

}  // namespace coterie::tenancy
