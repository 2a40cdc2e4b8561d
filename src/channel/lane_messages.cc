#include "channel/lane_messages.h"

#include "channel/wire.h"

namespace coterie::channel {

namespace {

enum class Kind : std::uint16_t {
  Run = 0x5201,
  Batch = 0x5202,
  Sequence = 0x5203,
  Forget = 0x5302,
  Answer = 0x4101,
  Failure = 0x4601,
  Terminate = 0x5401
};

void put(ByteWriter& writer, const TensorPlace& place) {
  writer.put(place.index);
  writer.put(place.rank);
  writer.put(place.offset);
  writer.put(place.length);
  writer.write(place.dims.data(), place.rank * sizeof(std::int64_t));
}

void get(ByteReader& reader, TensorPlace& place) {
  place.index = reader.get<std::uint16_t>();
  place.rank = reader.get<std::uint16_t>();
  place.offset = reader.get<std::uint64_t>();
  place.length = reader.get<std::uint64_t>();
  if (place.rank > kMaxRank) {
    reader.fail();
    return;
  }
  reader.read(place.dims.data(), place.rank * sizeof(std::int64_t));
}

enum SequenceFlag : std::uint16_t { kFresh = 1, kEnd = 2, kTakesBack = 4 };

void putSequence(ByteWriter& writer, const RunMessage& message) {
  writer.put(message.sequence);
  writer.put(static_cast<std::uint16_t>((message.fresh ? kFresh : 0) | (message.end ? kEnd : 0) | (message.takesBack ? kTakesBack : 0)));
  writer.put(message.stateBytes);
  writer.put(message.stateCount);
  writer.write(message.stateInputs.data(), message.stateCount * sizeof(std::uint16_t));
}

bool getSequence(ByteReader& reader, RunMessage& message) {
  message.sequence = reader.get<std::uint64_t>();
  const auto flags = reader.get<std::uint16_t>();
  message.fresh = (flags & kFresh) != 0;
  message.end = (flags & kEnd) != 0;
  message.takesBack = (flags & kTakesBack) != 0;
  message.stateBytes = reader.get<std::uint64_t>();
  message.stateCount = reader.get<std::uint16_t>();
  if (!reader.ok() || message.sequence == 0 || flags > (kFresh | kEnd | kTakesBack) || message.stateCount > message.outputCount) return false;
  reader.read(message.stateInputs.data(), message.stateCount * sizeof(std::uint16_t));
  return true;
}

std::size_t finish(const ByteWriter& writer) { return writer.ok() ? writer.size() : 0; }

}  // namespace

std::size_t encode(const RunMessage& message, std::span<std::byte> buffer) {
  ByteWriter writer(buffer);
  const bool batch = message.memberCount > 1;
  const bool sequence = message.sequence != 0;
  if (batch && sequence) return 0;
  writer.put(static_cast<std::uint16_t>(batch ? Kind::Batch : sequence ? Kind::Sequence : Kind::Run));
  if (batch) writer.put(message.memberCount);
  writer.put(message.inputCount);
  writer.put(message.outputCount);
  writer.put(message.generation);
  writer.put(message.cellOffset);
  writer.put(message.cellBytes);
  const std::size_t places = std::size_t{message.memberCount} * message.inputCount;
  for (std::size_t i = 0; i < places; ++i) put(writer, message.inputs[i]);
  writer.write(message.outputs.data(), message.outputCount * sizeof(std::uint16_t));
  if (sequence) putSequence(writer, message);
  return finish(writer);
}

bool decode(std::span<const std::byte> bytes, RunMessage& message) {
  ByteReader reader(bytes);
  const auto kind = static_cast<Kind>(reader.get<std::uint16_t>());
  if (kind != Kind::Run && kind != Kind::Batch && kind != Kind::Sequence) return false;
  message.memberCount = kind == Kind::Batch ? reader.get<std::uint16_t>() : std::uint16_t{1};
  if (kind == Kind::Batch && (message.memberCount < 2 || message.memberCount > kMaxMembers)) return false;
  message.inputCount = reader.get<std::uint16_t>();
  message.outputCount = reader.get<std::uint16_t>();
  message.generation = reader.get<std::uint64_t>();
  message.cellOffset = reader.get<std::uint64_t>();
  message.cellBytes = reader.get<std::uint64_t>();
  if (!reader.ok() || message.inputCount > kMaxTensors || message.outputCount > kMaxTensors) return false;
  const std::size_t places = std::size_t{message.memberCount} * message.inputCount;
  if (places > kMaxPlaces) return false;
  for (std::size_t i = 0; i < places && reader.ok(); ++i) get(reader, message.inputs[i]);
  reader.read(message.outputs.data(), message.outputCount * sizeof(std::uint16_t));
  message.sequence = 0;
  message.fresh = message.end = message.takesBack = false;
  message.stateBytes = 0;
  message.stateCount = 0;
  if (kind == Kind::Sequence && !getSequence(reader, message)) return false;
  return reader.complete();
}

std::size_t encode(const AnswerMessage& message, std::span<std::byte> buffer) {
  ByteWriter writer(buffer);
  writer.put(static_cast<std::uint16_t>(message.failed ? Kind::Failure : Kind::Answer));
  writer.put(message.outputCount);
  writer.put(message.generation);
  writer.put(message.cpuNanos);
  writer.put(message.queuedNanos);
  if (message.failed) {
    writer.put(static_cast<std::uint16_t>(message.error.code));
    writer.text(message.error.reason);
    writer.text(std::string_view(message.error.message).substr(0, kMaxErrorText));
    return finish(writer);
  }
  for (std::size_t i = 0; i < message.outputCount; ++i) put(writer, message.outputs[i]);
  return finish(writer);
}

bool decode(std::span<const std::byte> bytes, AnswerMessage& message) {
  ByteReader reader(bytes);
  const auto kind = static_cast<Kind>(reader.get<std::uint16_t>());
  if (kind != Kind::Answer && kind != Kind::Failure) return false;
  message.failed = kind == Kind::Failure;
  message.outputCount = reader.get<std::uint16_t>();
  message.generation = reader.get<std::uint64_t>();
  message.cpuNanos = reader.get<std::int64_t>();
  message.queuedNanos = reader.get<std::int64_t>();
  if (!reader.ok() || message.outputCount > kMaxTensors) return false;
  if (message.failed) {
    const auto code = reader.get<std::uint16_t>();
    if (code > static_cast<std::uint16_t>(Code::DeadlineExceeded)) return false;
    message.error.code = static_cast<Code>(code);
    message.error.reason = reader.text(64);
    message.error.message = reader.text(kMaxErrorText);
    return reader.complete() && message.outputCount == 0;
  }
  for (std::size_t i = 0; i < message.outputCount && reader.ok(); ++i) get(reader, message.outputs[i]);
  return reader.complete();
}

std::size_t encode(const TerminateMessage& message, std::span<std::byte> buffer) {
  ByteWriter writer(buffer);
  writer.put(static_cast<std::uint16_t>(Kind::Terminate));
  writer.put(message.lane);
  writer.put(message.generation);
  return finish(writer);
}

bool decode(std::span<const std::byte> bytes, TerminateMessage& message) {
  ByteReader reader(bytes);
  if (reader.get<std::uint16_t>() != static_cast<std::uint16_t>(Kind::Terminate)) return false;
  message.lane = reader.get<std::uint16_t>();
  message.generation = reader.get<std::uint64_t>();
  return reader.complete();
}

std::size_t encode(const ForgetMessage& message, std::span<std::byte> buffer) {
  ByteWriter writer(buffer);
  writer.put(static_cast<std::uint16_t>(Kind::Forget));
  writer.put(message.sequence);
  return finish(writer);
}

bool decode(std::span<const std::byte> bytes, ForgetMessage& message) {
  ByteReader reader(bytes);
  if (reader.get<std::uint16_t>() != static_cast<std::uint16_t>(Kind::Forget)) return false;
  message.sequence = reader.get<std::uint64_t>();
  return reader.complete();
}

}  // namespace coterie::channel
