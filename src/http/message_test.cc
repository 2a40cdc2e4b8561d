#include "http/message.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <string>
#include <vector>

#include "http/asio_loop.h"
#include "http/chunk_decoder.h"
#include "http/inflate.h"

namespace coterie::http {
namespace {

TEST(Message, PercentDecoding) {
  EXPECT_EQ(*percentDecode("a%20b%2Fc+d"), "a b/c+d");
  EXPECT_EQ(*percentDecode(""), "");
  for (const char* bad : {"%", "%2", "%zz", "a%2", "%00"}) EXPECT_EQ(percentDecode(bad).error().reason, "BadEscape") << bad;
}

TEST(Message, QueryParameters) {
  EXPECT_EQ(queryParameter("a=1&watch=1&b", "watch"), "1");
  EXPECT_EQ(queryParameter("a=1&b", "b"), "");
  EXPECT_EQ(queryParameter("a=x%26y&&=3", "a"), "x&y");
  EXPECT_EQ(queryParameter("ab=1", "a"), std::nullopt);
  EXPECT_EQ(queryParameter("", "a"), std::nullopt);
}

TEST(Message, ErrorsAreJsonWhateverTheText) {
  const Response response = errorResponse({Code::NotFound, "NoSuchModel", "no \"x\"\n\x01\xff \xc3\xa4"});
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.body, "{\"error\":\"no \\\"x\\\"\\n\\u0001\xEF\xBF\xBD \xc3\xa4\",\"reason\":\"NoSuchModel\"}");
}

std::string chunked(const std::vector<std::string>& pieces) {
  std::string out;
  for (const auto& piece : pieces) {
    if (piece.empty()) continue;
    char size[40];
    std::snprintf(size, sizeof(size), "%zX;x=y\r\n", piece.size());
    out += size + piece + "\r\n";
  }
  return out + "0\r\nTrailer: 1\r\n\r\n";
}

TEST(ChunkDecoder, AnySplitGivesTheSameBody) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& pieces) {
    const std::string coded = chunked(pieces);
    std::string whole;
    for (const auto& piece : pieces) whole += piece;
    ChunkDecoder decoder;
    std::string out;
    std::size_t at = 0;
    ChunkDecoder::State state = ChunkDecoder::State::More;
    while (state == ChunkDecoder::State::More) {
      const std::size_t take = *rc::gen::inRange<std::size_t>(1, 8);
      const std::string given = (coded + "NEXT").substr(at, take);
      std::size_t consumed = 0;
      state = decoder.decode(given, out, 1 << 20, consumed);
      at += consumed;
    }
    RC_ASSERT(state == ChunkDecoder::State::Done);
    RC_ASSERT(out == whole);
    RC_ASSERT(at == coded.size());
  }));
}

TEST(ChunkDecoder, NoBytesMakeItGrowBeyondItsLimit) {
  EXPECT_TRUE(rc::check([](const std::string& bytes) {
    ChunkDecoder decoder;
    std::string out;
    std::size_t consumed = 0;
    (void)decoder.decode(bytes, out, 5, consumed);
    RC_ASSERT(out.size() <= 5U);
    RC_ASSERT(consumed <= bytes.size());
  }));
}

TEST(ChunkDecoder, EndlessExtensionsAndTrailersAreRefused) {
  for (const char* start : {"1;", "0\r\na"}) {
    ChunkDecoder decoder;
    std::string out;
    std::size_t consumed = 0;
    EXPECT_EQ(decoder.decode(start + std::string(100'000, 'x'), out, 10, consumed), ChunkDecoder::State::Bad);
  }
}

std::string compress(const std::string& text, int windowBits) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY);
  std::string input = text;
  std::string out(deflateBound(&z, input.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(input.data());
  z.avail_in = static_cast<uInt>(input.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

TEST(Inflate, AllFormsOfAnyText) {
  EXPECT_TRUE(rc::check([](const std::string& text) {
    RC_ASSERT(*inflateBody(compress(text, 31), "gzip", text.size()) == text);
    RC_ASSERT(*inflateBody(compress(text, 15), "deflate", text.size()) == text);
    RC_ASSERT(*inflateBody(compress(text, -15), "Deflate", text.size()) == text);
    RC_ASSERT(*inflateBody(text, "identity", text.size()) == text);
  }));
}

TEST(Inflate, BombsCutsAndRubbishAreRefused) {
  const std::string bomb = compress(std::string(50'000'000, 'a'), 31);
  ASSERT_LT(bomb.size(), 100'000U);
  EXPECT_EQ(inflateBody(bomb, "gzip", 1'000'000).error().reason, "BodyTooLarge");
  EXPECT_EQ(inflateBody(bomb, "gzip", 50'000'000)->size(), 50'000'000U);
  EXPECT_EQ(inflateBody(bomb.substr(0, bomb.size() / 2), "gzip", 100'000'000).error().reason, "BadCompression");
  EXPECT_EQ(inflateBody(bomb + "x", "gzip", 100'000'000).error().reason, "BadCompression");
  EXPECT_EQ(inflateBody("hello", "gzip", 100).error().reason, "BadCompression");
  EXPECT_EQ(inflateBody("", "gzip", 100).error().reason, "BadCompression");
  EXPECT_EQ(inflateBody("hello", "br", 100).error().reason, "UnknownEncoding");
  EXPECT_EQ(inflateBody("hello", "", 4).error().reason, "BodyTooLarge");
}

}  // namespace
}  // namespace coterie::http
