// The database of API keys: create, list, rotate, revoke. Keys are shown once, at creation and rotation; what is stored is HMAC-SHA-256(pepper,
// secret).
//
// Files in the state folder, both 0600 and refused if others may read them: `pepper` (32 random bytes, made once) and `keys.db` (SQLite, WAL,
// synchronous=FULL, locked by the process that has it open). A write that returned ok survives kill -9 and power loss, and is in force in the next
// snapshot() at once: a revoked key is refused from the call's return on. Errors: Unavailable/KeysInUse (another process has it open),
// Unavailable/StoreFull, Internal/KeysCorrupt, Internal/KeysTooNew (written by a newer Coterie), PermissionDenied/InsecurePermissions,
// Internal/PepperMissing, Internal/PepperMismatch, NotFound/KeyNotFound, Conflict/KeyRevoked, Conflict/KeyExpired, InvalidArgument/InvalidKeyField.
// Complexity: a write rebuilds the snapshot, O(keys). Thread rule: writes and list() on the control loop; snapshot() from any thread.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "identity/key_table.h"
#include "model/ids.h"

namespace coterie::identity {

struct KeyInfo {  // what a list shows
  std::string id;
  TenantName tenant;
  Role role{Role::Infer};
  std::string label;
  WallTime created;
  std::optional<WallTime> expires;
  std::optional<WallTime> revoked;
  std::optional<WallTime> rotated;
  std::optional<WallTime> formerUntil;
};

struct NewKey {
  KeyInfo info;
  std::string key;  // the only time that it is seen
};

// NotFound/KeyNotFound, for whoever must answer as if a key did not exist.
[[nodiscard]] Error keyNotFound(const std::string& id);

class KeyStore {
 public:
  // Makes the files if they are not there. `folder` must exist.
  [[nodiscard]] static Result<std::unique_ptr<KeyStore>> open(const std::string& folder);
  ~KeyStore();
  KeyStore(const KeyStore&) = delete;
  KeyStore& operator=(const KeyStore&) = delete;

  // role: one of kKeyRoles. label: at most 64 printable characters. lifetime: none = does not expire. Forgets keys that were revoked 30 days ago, and
  // an hour ago those whose lifetime was at most an hour.
  [[nodiscard]] Result<NewKey> create(const TenantName& tenant, Role role, const std::string& label, std::optional<Seconds> lifetime, WallTime now);
  [[nodiscard]] std::vector<KeyInfo> list(const std::optional<TenantName>& tenant) const;  // by tenant, then creation
  // A new secret under the same id; the one it had is valid for `overlap` more (0: at once not). A still older one ends now. Forgets as create()
  // does.
  [[nodiscard]] Result<NewKey> rotate(const std::string& id, Seconds overlap, WallTime now);
  [[nodiscard]] Status revoke(const std::string& id, WallTime now);
  // All of a tenant's, when it is deleted: a later tenant of that name does not inherit them. The number revoked.
  [[nodiscard]] Result<int> revokeAll(const TenantName& tenant, WallTime now);

  // Never null. Take it per request: what is revoked is not in the next one.
  [[nodiscard]] std::shared_ptr<const KeyTable> snapshot() const;

 private:
  class Database;
  KeyStore(std::unique_ptr<Database> database, std::shared_ptr<const Hasher> hasher, std::vector<KeyRecord> keys);
  [[nodiscard]] KeyRecord* find(const std::string& id);
  [[nodiscard]] Status write(const KeyRecord& changed);  // to the database, then to memory
  [[nodiscard]] Status forgetOld(WallTime now);
  void publish();

  std::unique_ptr<Database> database_;
  std::shared_ptr<const Hasher> hasher_;
  std::vector<KeyRecord> keys_;
  mutable std::mutex mutex_;               // guards table_ only
  std::shared_ptr<const KeyTable> table_;  // shared with requests that still look at it
};

}  // namespace coterie::identity
