// Decodes the chunked transfer coding (RFC 9112, section 7.1) as it arrives, strictly: lines end in CR LF, sizes are 1-15 hex digits; extensions and
// trailers are skipped and bounded. Used by server and client. O(bytes), no allocation of its own. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace coterie::http {

class ChunkDecoder {
 public:
  enum class State : std::uint8_t { More, Done, Bad, TooLarge };

  // Decodes from `bytes`, appends to `out`, and says in `consumed` how many bytes belong to this body. TooLarge: `out` would exceed `limit`.
  State decode(std::string_view bytes, std::string& out, std::size_t limit, std::size_t& consumed);

 private:
  enum class At : std::uint8_t { SizeFirst, Size, Extension, SizeLf, Data, DataCr, DataLf, TrailerFirst, Trailer, TrailerLf, EndLf, End, Failed };
  static constexpr std::size_t kMaxSkipped = 8 * 1024;  // of extensions and trailers of one body

  bool step(char c);

  At at_{At::SizeFirst};
  int digits_{0};
  std::uint64_t left_{0};
  std::size_t skipped_{0};
};

}  // namespace coterie::http
