// How often one source may show a key that is not good, decided before the key is looked at.
//
// Each source has a token bucket of failures: `burst` at once, then `perSecond`. A source without a token is refused without hashing, unless it shows
// a key that was good from there within the last minute: behind one address there may be many callers (a proxy), and a bad one must not lock out the
// others. A refused attempt takes no token, so the retry time is true if nobody else of the source fails before.
//   Good keys   are remembered as a 64-bit digest of source and key, keyed with random bits of this process: no key and no hash that is good
//               elsewhere is kept, and how long a look-up takes tells nothing. A match admits nobody: the key is then checked as every other. One
//               that fails (revoked meanwhile) is forgotten.
//   Bounds      `sources` and `goodKeys`; beyond, the source that failed and the key that was good the longest ago give way. A source that gave way
//               begins again with a full bucket: who has more than `sources` addresses is bounded by the cost of a connection, not here.
//   Not closed  the first request of a good key, or the first after a minute, from a source that floods right then, waits as the flood does.
// Complexity: O(bytes of the key) each, one allocation for a new source or key. Errors: none; a refusal is a value. Pure: time is an argument, and
// should not go back (if it does, nothing is filled). Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/keyed_digest.h"
#include "base/units.h"

namespace coterie::tenancy {

// Who is at the other end, as far as these limits go: the caller packs what it tells apart.
struct Source {
  std::uint64_t kind{0};
  std::uint64_t network{0};
  friend bool operator==(const Source&, const Source&) = default;
};

struct AuthenticationLimitOptions {
  static constexpr std::int64_t kMost = 1'000'000;  // of burst and of perSecond

  std::int64_t burst{20};           // failures of one source at once; 0: no limit
  std::int64_t perSecond{2};        // and per second after that; at least 1
  std::size_t sources{4096};        // whose failures are remembered; at least 1
  std::size_t goodKeys{16'384};     // digests of good keys, 100 bytes each; at least 1
  Nanos goodFor{Seconds(60)};       // since it was last good
  DigestKey digestKey{{17, 4711}};  // random in a server, fixed in tests
};

// The latest `most` of what was touched, by key. O(1).
template <typename Key, typename Value, typename Hash>
class LatestTouched {
 public:
  explicit LatestTouched(std::size_t most, const Hash& hash = {}) : most_(most), places_(0, hash) {}

  [[nodiscard]] const Value* find(const Key& key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &found->second->second;
  }
  // The entry, now the latest; a new one begins with `fresh`, and the oldest goes where there are too many.
  Value& touch(const Key& key, const Value& fresh) {
    if (const auto found = places_.find(key); found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    if (places_.size() >= most_) {
      places_.erase(order_.back().first);
      order_.pop_back();
    }
    order_.emplace_front(key, fresh);
    places_.emplace(key, order_.begin());
    return order_.front().second;
  }
  void erase(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    order_.erase(found->second);
    places_.erase(found);
  }
  [[nodiscard]] std::size_t size() const { return places_.size(); }

 private:
  using Order = std::list<std::pair<Key, Value>>;  // the latest first
  std::size_t most_;
  Order order_;
  std::unordered_map<Key, typename Order::iterator, Hash> places_;
};

class AuthenticationLimits {
 public:
  explicit AuthenticationLimits(const AuthenticationLimitOptions& options);

  // Before the key is looked at. Nothing: check it, then say succeeded() or failed(). Else: refused, and a token is there after so long.
  [[nodiscard]] std::optional<Nanos> refuses(const Source& source, std::string_view key, Instant now) const;
  void succeeded(const Source& source, std::string_view key, Instant now);
  void failed(const Source& source, std::string_view key, Instant now);

  [[nodiscard]] std::size_t sourcesKept() const { return sources_.size(); }
  [[nodiscard]] std::size_t goodKeysKept() const { return good_.size(); }

 private:
  struct Bucket {
    std::int64_t units{0};
    Instant filled{};
  };
  struct SourceHash {
    DigestKey key;  // sources are chosen by others
    std::size_t operator()(const Source& source) const;
  };
  [[nodiscard]] std::int64_t unitsAt(const Bucket& bucket, Instant now) const;
  [[nodiscard]] std::uint64_t digestOf(const Source& source, std::string_view key) const;

  AuthenticationLimitOptions options_;
  LatestTouched<Source, Bucket, SourceHash> sources_;
  LatestTouched<std::uint64_t, Instant, std::hash<std::uint64_t>> good_;
};

}  // namespace coterie::tenancy
