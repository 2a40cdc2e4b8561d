#include "http/chunk_decoder.h"

#include <algorithm>

namespace coterie::http {
namespace {
int hexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
}  // namespace

// One byte outside the data; false: not valid.
bool ChunkDecoder::step(char c) {
  switch (at_) {
    case At::SizeFirst:
    case At::Size: {
      const int digit = hexValue(c);
      if (digit >= 0) {
        if (++digits_ > 15) return false;
        left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
        at_ = At::Size;
        return true;
      }
      if (at_ == At::SizeFirst) return false;
      if (c == '\r') return at_ = At::SizeLf, true;
      if (c == ';') return at_ = At::Extension, true;
      return false;
    }
    case At::Extension:
      if (c == '\r') return at_ = At::SizeLf, true;
      return c != '\n' && c != '\0' && ++skipped_ <= kMaxSkipped;
    case At::SizeLf:
      if (c != '\n') return false;
      at_ = left_ > 0 ? At::Data : At::TrailerFirst;
      digits_ = 0;
      return true;
    case At::DataCr: return at_ = At::DataLf, c == '\r';
    case At::DataLf: return at_ = At::SizeFirst, c == '\n';
    case At::TrailerFirst:
      if (c == '\r') return at_ = At::EndLf, true;
      at_ = At::Trailer;
      return c != '\n' && ++skipped_ <= kMaxSkipped;
    case At::Trailer:
      if (c == '\r') return at_ = At::TrailerLf, true;
      return c != '\n' && ++skipped_ <= kMaxSkipped;
    case At::TrailerLf: return at_ = At::TrailerFirst, c == '\n';
    case At::EndLf: return at_ = At::End, c == '\n';
    case At::Data:
    case At::End:
    case At::Failed: break;
  }
  return false;
}

ChunkDecoder::State ChunkDecoder::decode(std::string_view bytes, std::string& out, std::size_t limit, std::size_t& consumed) {
  consumed = 0;
  while (at_ != At::End && at_ != At::Failed && consumed < bytes.size()) {
    if (at_ != At::Data) {
      if (!step(bytes[consumed])) at_ = At::Failed;
      ++consumed;
      continue;
    }
    const std::size_t take = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size() - consumed));
    if (out.size() > limit || take > limit - out.size()) return State::TooLarge;
    out.append(bytes.substr(consumed, take));
    consumed += take;
    left_ -= take;
    if (left_ == 0) at_ = At::DataCr;
  }
  if (at_ == At::Failed) return State::Bad;
  return at_ == At::End ? State::Done : State::More;
}

}  // namespace coterie::http
