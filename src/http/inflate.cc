#include "http/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "http/message.h"

namespace coterie::http {
namespace {

enum class Outcome { Done, Bad, TooLarge };

struct Stream {
  z_stream z{};
  explicit Stream(int windowBits) : ok(inflateInit2(&z, windowBits) == Z_OK) {}
  ~Stream() { inflateEnd(&z); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  bool ok;
};

Outcome inflateWith(int windowBits, std::string_view body, std::size_t maxOutput, std::string& out) {
  out.clear();
  if (body.size() > std::numeric_limits<uInt>::max()) return Outcome::TooLarge;
  Stream stream(windowBits);
  if (!stream.ok) return Outcome::Bad;
  stream.z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(body.data()));  // zlib only reads there, whatever its type says
  stream.z.avail_in = static_cast<uInt>(body.size());
  std::size_t have = 0;
  for (;;) {
    if (have == out.size()) {
      if (have > maxOutput) return Outcome::TooLarge;
      // One byte beyond the limit shows that there is more.
      out.resize(std::min(maxOutput + 1, std::max<std::size_t>(2 * have, std::min<std::size_t>(64 * 1024, 4 * body.size() + 64))));
    }
    stream.z.next_out = reinterpret_cast<Bytef*>(out.data() + have);
    const std::size_t room = std::min<std::size_t>(out.size() - have, 1U << 30U);
    stream.z.avail_out = static_cast<uInt>(room);
    const int rc = ::inflate(&stream.z, Z_NO_FLUSH);
    have += room - stream.z.avail_out;
    if (have > maxOutput) return Outcome::TooLarge;
    if (rc == Z_STREAM_END) break;
    if (rc != Z_OK || (stream.z.avail_in == 0 && stream.z.avail_out > 0)) return Outcome::Bad;
  }
  if (stream.z.avail_in > 0) return Outcome::Bad;
  out.resize(have);
  return Outcome::Done;
}

}  // namespace

Result<std::string> inflateBody(std::string_view body, std::string_view encoding, std::size_t maxOutput) {
  const Error tooLarge{Code::TooLarge, "BodyTooLarge", "the body is larger than " + std::to_string(maxOutput) + " bytes when decompressed"};
  if (encoding.empty() || equalsIgnoreCase(encoding, "identity")) {
    if (body.size() > maxOutput) return tooLarge;
    return std::string(body);
  }
  const bool gzip = equalsIgnoreCase(encoding, "gzip") || equalsIgnoreCase(encoding, "x-gzip");
  if (!gzip && !equalsIgnoreCase(encoding, "deflate")) {
    return Error{Code::Unimplemented, "UnknownEncoding", "Content-Encoding must be gzip, deflate or identity"};
  }
  std::string out;
  Outcome outcome = inflateWith(gzip ? 16 + MAX_WBITS : MAX_WBITS, body, maxOutput, out);
  if (outcome == Outcome::Bad && !gzip) outcome = inflateWith(-MAX_WBITS, body, maxOutput, out);
  if (outcome == Outcome::TooLarge) return tooLarge;
  if (outcome == Outcome::Bad)
    return Error{Code::InvalidArgument, "BadCompression", "the body is not valid " + std::string(gzip ? "gzip" : "deflate") + " data"};
  return out;
}

}  // namespace coterie::http
