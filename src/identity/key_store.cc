#include "identity/key_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "identity/key_database.h"
#include "identity/key_format.h"

namespace coterie::identity {

namespace {
constexpr std::size_t kLongestLabel = 64;
constexpr Seconds kLongestTime = std::chrono::hours(24 * 365 * 100);

// How long a list still tells why a client is refused. A brief key is one program's, for a request or two: nobody asks after it.
constexpr Seconds kKeepRevoked = std::chrono::hours(24 * 30);
constexpr Seconds kBrief = std::chrono::hours(1);

WallTime after(WallTime now, Seconds delay) { return {now.micros + Micros(std::clamp(delay, Seconds{}, kLongestTime)).count()}; }

KeyInfo infoOf(const KeyRecord& key) {
  return {key.id, key.tenant, key.role, key.label, key.created, key.expires, key.revoked, key.rotated, key.formerUntil};
}

// Never for being expired alone: the clock may have jumped, and may go back.
bool forgettable(const KeyRecord& key, WallTime now) {
  if (!key.revoked) return false;
  const bool brief = key.expires && *key.expires <= after(key.created, kBrief);
  return after(*key.revoked, brief ? kBrief : kKeepRevoked) <= now;
}

bool printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}
}  // namespace

Error keyNotFound(const std::string& id) {
  return {Code::NotFound, "KeyNotFound",
          fmt::format("there is no API key with id \"{}\"; `coterie key list` shows them (the id is the part after ctk_)", id)};
}

Result<std::unique_ptr<KeyStore>> KeyStore::open(const std::string& folder) {
  auto database = Database::open(folder + "/keys.db");
  if (!database) return database.error();
  const auto checked = (*database)->hasPepperCheck();
  if (!checked) return checked.error();
  const auto pepper = openPepper(folder, !*checked);
  if (!pepper) return pepper.error();
  auto hasher = std::make_shared<const Hasher>(*pepper);
  if (auto status = (*database)->checkPepper(hasher->mac("pepper-check")); !status) return status.error();
  auto keys = (*database)->readAll();
  if (!keys) return keys.error();
  return std::unique_ptr<KeyStore>(new KeyStore(std::move(*database), std::move(hasher), std::move(*keys)));
}

KeyStore::KeyStore(std::unique_ptr<Database> database, std::shared_ptr<const Hasher> hasher, std::vector<KeyRecord> keys)
    : database_(std::move(database)), hasher_(std::move(hasher)), keys_(std::move(keys)) {
  publish();
}

KeyStore::~KeyStore() = default;

void KeyStore::publish() {
  auto table = std::make_shared<const KeyTable>(hasher_, keys_);
  const std::lock_guard lock(mutex_);
  table_.swap(table);
}

std::shared_ptr<const KeyTable> KeyStore::snapshot() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

KeyRecord* KeyStore::find(const std::string& id) {
  const auto found = std::find_if(keys_.begin(), keys_.end(), [&](const KeyRecord& key) { return key.id == id; });
  return found == keys_.end() ? nullptr : &*found;
}

Status KeyStore::write(const KeyRecord& changed) {
  if (auto status = database_->put(changed); !status) return status;
  if (KeyRecord* present = find(changed.id)) {
    *present = changed;
  } else {
    keys_.push_back(changed);
  }
  publish();
  return {};
}

Status KeyStore::forgetOld(WallTime now) {
  for (std::size_t i = 0; i < keys_.size();) {
    if (!forgettable(keys_[i], now)) {
      ++i;
      continue;
    }
    if (auto status = database_->remove(keys_[i].id); !status) return status;
    keys_.erase(keys_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return {};
}

Result<NewKey> KeyStore::create(const TenantName& tenant, Role role, const std::string& label, std::optional<Seconds> lifetime, WallTime now) {
  if (tenant.empty()) return Error{Code::InvalidArgument, "InvalidKeyField", "a key belongs to a tenant: name one"};
  if (std::find(kKeyRoles.begin(), kKeyRoles.end(), role) == kKeyRoles.end()) {
    return Error{Code::InvalidArgument, "InvalidKeyField",
                 fmt::format("role: no key can be {}; choose observe, infer or tenant-admin", roleName(role))};
  }
  if (label.size() > kLongestLabel || !printable(label)) {
    return Error{Code::InvalidArgument, "InvalidKeyField", fmt::format("a key's label has at most {} printable characters", kLongestLabel)};
  }
  if (lifetime && *lifetime <= Seconds{}) return Error{Code::InvalidArgument, "InvalidKeyField", "a key's lifetime must be at least one second"};
  if (auto status = forgetOld(now); !status) return status.error();
  KeyRecord key;
  do {
    key.id = randomKeyId();
  } while (find(key.id) != nullptr);
  const std::string secret = randomSecret();
  key.tenant = tenant;
  key.role = role;
  key.label = label;
  key.created = now;
  if (lifetime) key.expires = after(now, *lifetime);
  key.mac = hasher_->mac(secret);
  if (auto status = write(key); !status) return status.error();
  return NewKey{infoOf(key), formatKey(key.id, secret)};
}

std::vector<KeyInfo> KeyStore::list(const std::optional<TenantName>& tenant) const {
  std::vector<KeyInfo> found;
  for (const KeyRecord& key : keys_) {
    if (!tenant || key.tenant == *tenant) found.push_back(infoOf(key));
  }
  std::sort(found.begin(), found.end(),
            [](const KeyInfo& a, const KeyInfo& b) { return std::tie(a.tenant, a.created, a.id) < std::tie(b.tenant, b.created, b.id); });
  return found;
}

Result<NewKey> KeyStore::rotate(const std::string& id, Seconds overlap, WallTime now) {
  if (auto status = forgetOld(now); !status) return status.error();
  const KeyRecord* present = find(id);
  if (present == nullptr) return keyNotFound(id);
  if (present->revoked) return Error{Code::Conflict, "KeyRevoked", fmt::format("API key {} is revoked and stays so: create a new one", id)};
  if (present->expires && *present->expires <= now)
    return Error{Code::Conflict, "KeyExpired", fmt::format("API key {} has expired: create a new one", id)};
  KeyRecord key = *present;
  const std::string secret = randomSecret();
  key.formerMac = key.mac;
  key.formerUntil = overlap > Seconds{} ? std::optional(after(now, overlap)) : std::nullopt;
  key.mac = hasher_->mac(secret);
  key.rotated = now;
  if (auto status = write(key); !status) return status.error();
  return NewKey{infoOf(key), formatKey(key.id, secret)};
}

Status KeyStore::revoke(const std::string& id, WallTime now) {
  const KeyRecord* present = find(id);
  if (present == nullptr) return keyNotFound(id);
  if (present->revoked) return {};
  KeyRecord key = *present;
  key.revoked = now;
  return write(key);
}

Result<int> KeyStore::revokeAll(const TenantName& tenant, WallTime now) {
  int revoked = 0;
  for (const KeyInfo& info : list(tenant)) {
    if (info.revoked) continue;
    if (auto status = revoke(info.id, now); !status) return status.error();
    ++revoked;
  }
  return revoked;
}

}  // namespace coterie::identity
