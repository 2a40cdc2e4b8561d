#include "identity/key_table.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <cstdlib>

#include "identity/key_format.h"

namespace coterie::identity {

struct Hasher::State {
  EVP_MAC* mac{nullptr};
  EVP_MAC_CTX* keyed{nullptr};  // duplicated for each use: never changed, so threads may share it
  ~State() {
    EVP_MAC_CTX_free(keyed);
    EVP_MAC_free(mac);
  }
};

Hasher::Hasher(const Pepper& pepper) : state_(std::make_unique<State>()) {
  state_->mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  state_->keyed = state_->mac == nullptr ? nullptr : EVP_MAC_CTX_new(state_->mac);
  std::string digest = "SHA256";
  const std::array<OSSL_PARAM, 2> params{OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.data(), 0), OSSL_PARAM_construct_end()};
  if (state_->keyed == nullptr || EVP_MAC_init(state_->keyed, pepper.data(), pepper.size(), params.data()) != 1)
    std::abort();  // no HMAC in libcrypto: unusable
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Mac Hasher::mac(std::string_view secret) const {
  Mac out{};
  std::size_t length = 0;
  EVP_MAC_CTX* context = EVP_MAC_CTX_dup(state_->keyed);
  const bool done = context != nullptr && EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(secret.data()), secret.size()) == 1 &&
                    EVP_MAC_final(context, out.data(), &length, out.size()) == 1 && length == out.size();
  EVP_MAC_CTX_free(context);
  if (!done) std::abort();  // out of memory: an empty MAC must never be compared
  return out;
}

KeyTable::KeyTable(std::shared_ptr<const Hasher> hasher, std::vector<KeyRecord> keys) : hasher_(std::move(hasher)) {
  keys_.reserve(keys.size());
  for (KeyRecord& key : keys) {
    std::string id = key.id;
    keys_.emplace(std::move(id), std::move(key));
  }
  nobody_.revoked = WallTime{};
}

namespace {
// Both secrets are always compared, whatever else is known of the key.
bool matches(const KeyRecord& record, const Mac& mac, WallTime now) {
  const bool present = CRYPTO_memcmp(mac.data(), record.mac.data(), mac.size()) == 0;
  const bool former = CRYPTO_memcmp(mac.data(), record.formerMac.data(), mac.size()) == 0;
  const bool inOverlap = record.formerUntil.has_value() && now < *record.formerUntil;
  const bool alive = !record.revoked.has_value() && (!record.expires.has_value() || now < *record.expires);
  return alive && (present || (former && inOverlap));
}
}  // namespace

Result<Identity> KeyTable::authenticate(std::string_view key, WallTime now) const {
  const auto parts = parseKey(key);
  if (!parts) return parts.error();
  const auto found = keys_.find(parts->id);
  const KeyRecord& record = found == keys_.end() ? nobody_ : found->second;
  const Mac mac = hasher_->mac(parts->secret);
  if (!matches(record, mac, now)) {
    return Error{Code::Unauthenticated, "InvalidKey", "the API key is unknown, expired or revoked; `coterie key create` makes a new one"};
  }
  return Identity{record.tenant, record.role, record.id, record.expires, mac};
}

bool KeyTable::stillValid(const Identity& identity, WallTime now) const {
  const auto found = keys_.find(identity.keyId);
  return found != keys_.end() && matches(found->second, identity.mac, now);
}

}  // namespace coterie::identity
