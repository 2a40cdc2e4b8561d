#include "identity/key_format.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

namespace coterie::identity {

namespace {
constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

constexpr std::array<std::uint32_t, 256> crcTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? (c >> 1) ^ 0xedb88320U : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr auto kCrcTable = crcTable();

std::string crcText(std::string_view body) {
  const std::uint32_t crc = crc32(body);
  const std::array<std::uint8_t, 4> bytes{static_cast<std::uint8_t>(crc >> 24), static_cast<std::uint8_t>(crc >> 16),
                                          static_cast<std::uint8_t>(crc >> 8), static_cast<std::uint8_t>(crc)};
  return toBase62(bytes, kCrcLength);
}

bool allBase62(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return kDigits.find(c) != std::string_view::npos; });
}
}  // namespace

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t c = 0xffffffffU;
  for (const char byte : bytes) c = kCrcTable[(c ^ static_cast<std::uint8_t>(byte)) & 0xff] ^ (c >> 8);
  return ~c;
}

std::string toBase62(std::span<const std::uint8_t> bytes, std::size_t length) {
  std::vector<std::uint8_t> number(bytes.begin(), bytes.end());
  std::string text(length, kDigits[0]);
  for (std::size_t at = length; at > 0; --at) {
    unsigned remainder = 0;
    for (std::uint8_t& byte : number) {
      const unsigned value = remainder * 256 + byte;
      byte = static_cast<std::uint8_t>(value / 62);
      remainder = value % 62;
    }
    text[at - 1] = kDigits[remainder];
  }
  std::fill(number.begin(), number.end(), std::uint8_t{0});
  return text;
}

void fillRandom(std::span<std::uint8_t> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + done, bytes.size() - done, 0);
    if (got < 0 && errno != EINTR) std::abort();
    if (got > 0) done += static_cast<std::size_t>(got);
  }
}

std::string randomKeyId() {
  std::array<std::uint8_t, 16> bytes{};
  fillRandom(bytes);
  return toBase62(bytes, kKeyIdLength);  // the low digits of a 128-bit number: even to 2^-56
}

std::string randomSecret() {
  SecretBytes bytes{};
  fillRandom(bytes);
  return toBase62(bytes, kSecretLength);
}

std::string formatKey(std::string_view id, std::string_view secret) {
  std::string key(kKeyPrefix);
  key.append(id).append("_").append(secret);
  const std::string crc = crcText(key);
  return key.append("_").append(crc);
}

Result<KeyParts> parseKey(std::string_view key) {
  const auto malformed = [] {
    return Error{Code::Unauthenticated, "MalformedKey",
                 "this is not a Coterie API key: it should look like ctk_<12 characters>_<43>_<6>; was it cut while copying?"};
  };
  if (key.size() != kKeyLength || key.substr(0, kKeyPrefix.size()) != kKeyPrefix) return malformed();
  const std::string_view id = key.substr(kKeyPrefix.size(), kKeyIdLength);
  const std::string_view secret = key.substr(kKeyPrefix.size() + kKeyIdLength + 1, kSecretLength);
  const std::string_view crc = key.substr(kKeyLength - kCrcLength);
  const std::size_t body = kKeyLength - kCrcLength - 1;
  if (key[kKeyPrefix.size() + kKeyIdLength] != '_' || key[body] != '_' || !allBase62(id) || !allBase62(secret) || !allBase62(crc)) return malformed();
  if (crcText(key.substr(0, body)) != crc) {
    return Error{Code::Unauthenticated, "KeyChecksumMismatch", "the API key contains a typing error: its checksum does not match; copy it again"};
  }
  return KeyParts{id, secret};
}

}  // namespace coterie::identity
