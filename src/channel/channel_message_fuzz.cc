// Messages of a hostile worker: no bytes may crash a decoder, and whatever is accepted must encode to the same bytes again and pass or fail its
// checks cleanly. The first byte chooses the decoder; the rest is the message.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "channel/answer_check.h"
#include "channel/control_messages.h"
#include "channel/lane_messages.h"

namespace {

using namespace coterie;
using namespace coterie::channel;

void require(bool holds) {
  if (!holds) std::abort();
}

template <typename Message>
void lane(std::span<const std::byte> bytes) {
  const auto message = std::make_unique<Message>();
  if (!decode(bytes, *message)) return;
  std::vector<std::byte> again(kMaxLaneMessage);
  const std::size_t size = encode(*message, again);
  require(size == bytes.size() && std::equal(bytes.begin(), bytes.end(), again.begin()));
}

void answer(std::span<const std::byte> bytes) {
  static const ModelSignature kSignature{
      {}, {{"a", ElementType::Fp32, {kDynamic, 4}, false}, {"b", ElementType::ByteString, {}, false}, {"c", ElementType::Bool, {2}, false}}};
  constexpr int kWanted[] = {1, 0};
  constexpr std::uint64_t kCell = 4096;
  const auto message = std::make_unique<AnswerMessage>();
  if (!decode(bytes, *message)) return;
  (void)presentable(message->error);
  if (message->failed || !checkPlaces(*message, kSignature, kWanted, kCell, kCell).ok()) return;
  // What passes can be read: every place lies in the cell. Read it all.
  const std::vector<std::byte> arena(2 * kCell);
  for (std::size_t i = 0; i < message->outputCount; ++i) {
    const TensorPlace& place = message->outputs[i];
    require(place.offset >= kCell && place.offset + place.length <= 2 * kCell);
    const std::span<const std::byte> data = std::span(arena).subspan(place.offset, place.length);
    if (place.index == 1) (void)wellFormedByteStrings(data, place.shape());
  }
}

void byteStrings(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return;
  const std::int64_t shape[] = {static_cast<std::int64_t>(bytes[0]), static_cast<std::int64_t>(bytes[1])};
  (void)wellFormedByteStrings(bytes.subspan(2), shape);
}

void control(std::span<const std::byte> bytes) {
  (void)kindOf(bytes);
  if (const auto ready = decodeReady(bytes); ready.ok()) require(decodeReady(encode(*ready)).ok());
  if (const auto setup = decodeSetup(bytes); setup.ok()) require(decodeSetup(encode(*setup)).ok());
  if (const auto launch = decodeLaunch(bytes); launch.ok()) require(decodeLaunch(encode(*launch)).ok());
  if (const auto missing = decodeSandbox(bytes); missing.ok()) require(decodeSandbox(encodeSandbox(*missing)).ok());
  if (const auto percent = decodeProgress(bytes); percent.ok()) require(*percent >= 0 && *percent <= 100);
  if (const auto failed = decodeFailed(bytes); failed.ok()) {
    for (const char c : printable(failed->error.message, 100)) require(static_cast<unsigned char>(c) >= 0x20);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto message = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 6) {
    case 0: lane<RunMessage>(message); break;
    case 1: lane<AnswerMessage>(message); break;
    case 2: lane<TerminateMessage>(message); break;
    case 3: answer(message); break;
    case 4: control(message); break;
    case 5: byteStrings(message); break;
  }
  return 0;
}
