// The text of an API key: ctk_<id>_<secret>_<crc>.
//
//   id      12 base62 characters (71 bits): names the key in lists, logs and the database; not secret
//   secret  43 base62 characters of 256 random bits (getrandom)
//   crc     6 base62 characters: CRC-32 (IEEE) of everything before its underscore. It is no protection: it lets secret scanners be sure of a hit,
//   and tells a
//           mistyped or cut key apart from a revoked one without a look into the database.
// Fixed length 67. Thread-safe (no state).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace coterie::identity {

inline constexpr std::string_view kKeyPrefix = "ctk_";
inline constexpr std::size_t kKeyIdLength = 12;
inline constexpr std::size_t kSecretLength = 43;
inline constexpr std::size_t kCrcLength = 6;
inline constexpr std::size_t kKeyLength = 4 + kKeyIdLength + 1 + kSecretLength + 1 + kCrcLength;

using SecretBytes = std::array<std::uint8_t, 32>;

struct KeyParts {  // views into the text given
  std::string_view id;
  std::string_view secret;
};

[[nodiscard]] std::string formatKey(std::string_view id, std::string_view secret);
// Unauthenticated/MalformedKey or Unauthenticated/KeyChecksumMismatch; the message never repeats the key.
[[nodiscard]] Result<KeyParts> parseKey(std::string_view key);

// From the kernel's generator; stops the process if that fails, which it cannot after boot.
void fillRandom(std::span<std::uint8_t> bytes);
[[nodiscard]] std::string randomKeyId();
[[nodiscard]] std::string randomSecret();
[[nodiscard]] std::uint32_t crc32(std::string_view bytes);
// Big-endian number in base 62, padded to `length` characters; digits 0-9A-Za-z.
[[nodiscard]] std::string toBase62(std::span<const std::uint8_t> bytes, std::size_t length);

}  // namespace coterie::identity
