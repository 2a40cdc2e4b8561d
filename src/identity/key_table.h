// An immutable snapshot of all API keys: answers whose key this is.
//
// A key is found by its id and its secret compared as HMAC-SHA-256(pepper, secret) in constant time. An unknown id takes the same path against a key
// that cannot match, so time tells nobody which ids exist; unknown, wrong, revoked and expired answer alike. Each key may have a former secret that
// is valid until the end of its overlap (rotation); both are always compared. authenticate(): O(1), about a microsecond, one small allocation inside
// OpenSSL. Thread-safe: const after construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/ids.h"
#include "model/role.h"

namespace coterie::identity {

using Mac = std::array<std::uint8_t, 32>;
using Pepper = std::array<std::uint8_t, 32>;

struct KeyRecord {
  std::string id;
  TenantName tenant;
  Role role{Role::Infer};
  std::string label;  // for people: "ci", "laptop of ..."
  WallTime created;
  std::optional<WallTime> expires;
  std::optional<WallTime> revoked;
  std::optional<WallTime> rotated;      // when the present secret was made
  std::optional<WallTime> formerUntil;  // the former secret works until then
  Mac mac{};
  Mac formerMac{};
};

// HMAC-SHA-256 keyed with the pepper.
class Hasher {
 public:
  explicit Hasher(const Pepper& pepper);
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  [[nodiscard]] Mac mac(std::string_view secret) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Identity {
  TenantName tenant;
  Role role{Role::Infer};
  std::string keyId;  // for logs
  std::optional<WallTime> expires;
  Mac mac{};  // of the secret that was shown, for stillValid(); no secret itself
};

class KeyTable {
 public:
  KeyTable(std::shared_ptr<const Hasher> hasher, std::vector<KeyRecord> keys);

  // Unauthenticated with reason MalformedKey, KeyChecksumMismatch (both: the caller's own typing) or InvalidKey (everything else).
  [[nodiscard]] Result<Identity> authenticate(std::string_view key, WallTime now) const;
  // Would the secret that this identity was given for still do? For answers that go on. O(1), no hashing.
  [[nodiscard]] bool stillValid(const Identity& identity, WallTime now) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::shared_ptr<const Hasher> hasher_;  // shared by all snapshots: the pepper does not change while the process lives
  std::unordered_map<std::string, KeyRecord, Hash, std::equal_to<>> keys_;
  KeyRecord nobody_;  // what an unknown id is compared with
};

}  // namespace coterie::identity
