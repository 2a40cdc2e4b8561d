#include "base/keyed_digest.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace coterie {
namespace {

constexpr DigestKey kKey{0x0706050403020100U, 0x0f0e0d0c0b0a0908U};

// The example of the paper's appendix A: 15 bytes 00 01 ... 0e.
TEST(KeyedDigest, IsThePapersExample) {
  std::string text;
  for (char byte = 0; byte < 15; ++byte) text += byte;
  EXPECT_EQ(keyedDigest(kKey, text), 0xa129ca6149be45e5U);
}

TEST(KeyedDigest, EveryByteLengthAndKeyCounts) {
  std::set<std::uint64_t> seen;
  std::string text;
  for (int length = 0; length < 40; ++length, text += '\0') seen.insert(keyedDigest(kKey, text));
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] = '\x80';
    seen.insert(keyedDigest(kKey, other));
  }
  seen.insert(keyedDigest({kKey[0] + 1, kKey[1]}, ""));
  seen.insert(keyedDigest({kKey[0], kKey[1] + 1}, ""));
  EXPECT_EQ(seen.size(), 82U);
}

}  // namespace
}  // namespace coterie
