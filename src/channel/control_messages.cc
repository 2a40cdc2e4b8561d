#include "channel/control_messages.h"

#include <algorithm>

#include "channel/lane_messages.h"
#include "channel/wire.h"

namespace coterie::channel {

namespace {

constexpr std::size_t kMaxPath = 4096;
constexpr std::size_t kMaxName = 512;
constexpr std::size_t kMaxThreads = 8192;
constexpr std::size_t kMaxWidths = 64;
constexpr std::size_t kMaxTexts = 64;

Error malformed(const char* what) { return {Code::InvalidArgument, "Malformed", std::string("not a well-formed ") + what + " message"}; }

std::vector<std::byte> made(ControlKind kind, const auto& fill) {
  std::vector<std::byte> buffer(kMaxControlMessage);
  ByteWriter writer(buffer);
  writer.put(static_cast<std::uint16_t>(kind));
  fill(writer);
  buffer.resize(writer.ok() ? writer.size() : 0);
  return buffer;
}

ByteReader opened(std::span<const std::byte> bytes, ControlKind kind) {
  ByteReader reader(bytes);
  if (reader.get<std::uint16_t>() != static_cast<std::uint16_t>(kind)) reader.fail();
  return reader;
}

std::size_t countOf(ByteReader& reader, std::size_t limit) {
  const auto count = reader.get<std::uint32_t>();
  if (count <= limit) return count;
  reader.fail();
  return 0;
}

void putTexts(ByteWriter& writer, const std::vector<std::string>& texts) {
  writer.put(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) writer.text(text);
}
std::vector<std::string> getTexts(ByteReader& reader) {
  std::vector<std::string> texts;
  const std::size_t count = countOf(reader, kMaxTexts);
  for (std::size_t i = 0; i < count && reader.ok(); ++i) texts.push_back(reader.text(kMaxPath));
  return texts;
}

void putShape(ByteWriter& writer, const Shape& shape) {
  writer.put(static_cast<std::uint32_t>(shape.size()));
  for (const std::int64_t dim : shape) writer.put(dim);
}
Shape getShape(ByteReader& reader) {
  Shape shape(countOf(reader, kMaxRank));
  for (std::int64_t& dim : shape) {
    dim = reader.get<std::int64_t>();
    if (dim < kDynamic) reader.fail();
  }
  return shape;
}

void putThreads(ByteWriter& writer, const std::vector<std::int32_t>& threads) {
  writer.put(static_cast<std::uint32_t>(threads.size()));
  for (const std::int32_t thread : threads) writer.put(thread);
}
std::vector<std::int32_t> getThreads(ByteReader& reader) {
  std::vector<std::int32_t> threads(countOf(reader, kMaxThreads));
  for (std::int32_t& thread : threads) thread = reader.get<std::int32_t>();
  return threads;
}

void putTensors(ByteWriter& writer, const std::vector<TensorSpec>& tensors) {
  writer.put(static_cast<std::uint32_t>(tensors.size()));
  for (const TensorSpec& tensor : tensors) {
    writer.text(tensor.name);
    writer.put(static_cast<std::uint8_t>(tensor.type));
    writer.put(static_cast<std::uint8_t>(tensor.optional));
    putShape(writer, tensor.shape);
  }
}
bool wellFormed(const TensorSpec& tensor) {
  return !tensor.name.empty() &&
         std::none_of(tensor.name.begin(), tensor.name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}
std::vector<TensorSpec> getTensors(ByteReader& reader) {
  std::vector<TensorSpec> tensors(countOf(reader, kMaxTensors));
  for (TensorSpec& tensor : tensors) {
    if (!reader.ok()) break;
    tensor.name = reader.text(kMaxName);
    const auto type = reader.get<std::uint8_t>();
    if (type >= kElementTypes) reader.fail();
    tensor.type = static_cast<ElementType>(type);
    tensor.optional = reader.get<std::uint8_t>() != 0;
    tensor.shape = getShape(reader);
    if (!wellFormed(tensor)) reader.fail();
  }
  return tensors;
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out(text.substr(0, limit));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

std::optional<ControlKind> kindOf(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto kind = reader.get<std::uint16_t>();
  if (!reader.ok() || kind < static_cast<std::uint16_t>(ControlKind::Launch) || kind > static_cast<std::uint16_t>(ControlKind::Stop))
    return std::nullopt;
  return static_cast<ControlKind>(kind);
}

std::vector<std::byte> encode(const LaunchMessage& message) {
  return made(ControlKind::Launch, [&](ByteWriter& writer) {
    writer.text(message.workerPath);
    putTexts(writer, message.workerArguments);
    writer.text(message.modelPath);
    writer.text(message.modelRoot);
    writer.text(message.runtimePath);
    writer.put(message.parent);
    writer.put(message.uid);
    writer.put(message.dataLimit);
    writer.put(message.threadLimit);
    writer.put(message.fileLimit);
    writer.put(static_cast<std::uint8_t>(message.sandbox));
    writer.put(static_cast<std::uint8_t>(message.network));
    writer.put(message.writeLimit);
  });
}

Result<LaunchMessage> decodeLaunch(std::span<const std::byte> bytes) {
  ByteReader reader = opened(bytes, ControlKind::Launch);
  LaunchMessage message;
  message.workerPath = reader.text(kMaxPath);
  message.workerArguments = getTexts(reader);
  message.modelPath = reader.text(kMaxPath);
  message.modelRoot = reader.text(kMaxPath);
  message.runtimePath = reader.text(kMaxPath);
  message.parent = reader.get<std::int32_t>();
  message.uid = reader.get<std::uint32_t>();
  message.dataLimit = reader.get<std::int64_t>();
  message.threadLimit = reader.get<std::int32_t>();
  message.fileLimit = reader.get<std::int32_t>();
  message.sandbox = reader.get<std::uint8_t>() != 0;
  message.network = reader.get<std::uint8_t>() != 0;
  message.writeLimit = reader.get<std::int64_t>();
  if (!reader.complete()) return malformed("launch");
  return message;
}

std::vector<std::byte> encode(const SetupMessage& message) {
  return made(ControlKind::Setup, [&](ByteWriter& writer) {
    writer.text(message.modelName);
    writer.text(message.sha256);
    writer.put(message.ownLanes);
    writer.put(message.loanLanes);
    writer.put(message.width);
    writer.put(static_cast<std::uint8_t>(message.spin ? 1 : 0));
    writer.put(message.requestBytes);
    writer.put(message.responseBytes);
    writer.put(message.memoryLimit);
    writer.put(static_cast<std::uint32_t>(message.probe.size()));
    for (const ProbeShape& probe : message.probe) {
      writer.text(probe.input);
      putShape(writer, probe.shape);
    }
    putThreads(writer, message.measureWidths);
    writer.put(message.measureNanos);
    writer.put(static_cast<std::uint8_t>(message.prepare));
    writer.put(static_cast<std::uint8_t>(message.judge));
    writer.put(message.preparedBytes);
  });
}

Result<SetupMessage> decodeSetup(std::span<const std::byte> bytes) {
  ByteReader reader = opened(bytes, ControlKind::Setup);
  SetupMessage message;
  message.modelName = reader.text(kMaxPath);
  message.sha256 = reader.text(64);
  message.ownLanes = reader.get<std::int32_t>();
  message.loanLanes = reader.get<std::int32_t>();
  message.width = reader.get<std::int32_t>();
  message.spin = reader.get<std::uint8_t>() != 0;
  message.requestBytes = reader.get<std::uint64_t>();
  message.responseBytes = reader.get<std::uint64_t>();
  message.memoryLimit = reader.get<std::uint64_t>();
  message.probe.resize(countOf(reader, kMaxTensors));
  for (ProbeShape& probe : message.probe) {
    if (!reader.ok()) break;
    probe.input = reader.text(kMaxName);
    probe.shape = getShape(reader);
  }
  message.measureWidths = getThreads(reader);
  message.measureNanos = reader.get<std::int64_t>();
  message.prepare = reader.get<std::uint8_t>() != 0;
  message.judge = reader.get<std::uint8_t>() != 0;
  message.preparedBytes = reader.get<std::uint64_t>();
  if (!reader.complete()) return malformed("setup");
  return message;
}

std::vector<std::byte> encode(const ReadyMessage& message) {
  return made(ControlKind::Ready, [&](ByteWriter& writer) {
    putTensors(writer, message.signature.inputs);
    putTensors(writer, message.signature.outputs);
    writer.put(static_cast<std::uint32_t>(message.speeds.size()));
    for (const WidthSpeed& speed : message.speeds) {
      writer.put(static_cast<std::int32_t>(speed.width));
      writer.put(std::int64_t{speed.mean.count()});
      writer.put(std::int64_t{speed.p99.count()});
      writer.put(std::int64_t{speed.cpu.count()});
    }
    putThreads(writer, message.ownLaneThreads);
    putThreads(writer, message.loanLaneThreads);
    putThreads(writer, message.serviceThreads);
    writer.put(message.steadyBytes);
    writer.put(message.peakBytes);
    writer.put(static_cast<std::uint8_t>(message.prepared));
  });
}

Result<ReadyMessage> decodeReady(std::span<const std::byte> bytes) {
  ByteReader reader = opened(bytes, ControlKind::Ready);
  ReadyMessage message;
  message.signature.inputs = getTensors(reader);
  message.signature.outputs = getTensors(reader);
  message.speeds.resize(countOf(reader, kMaxWidths));
  for (WidthSpeed& speed : message.speeds) {
    speed.width = reader.get<std::int32_t>();
    speed.mean = Nanos(reader.get<std::int64_t>());
    speed.p99 = Nanos(reader.get<std::int64_t>());
    speed.cpu = Nanos(reader.get<std::int64_t>());
    if (speed.width < 1 || speed.mean.count() < 0 || speed.p99.count() < 0 || speed.cpu.count() < 0) reader.fail();
  }
  message.ownLaneThreads = getThreads(reader);
  message.loanLaneThreads = getThreads(reader);
  message.serviceThreads = getThreads(reader);
  message.steadyBytes = reader.get<std::int64_t>();
  message.peakBytes = reader.get<std::int64_t>();
  message.prepared = reader.get<std::uint8_t>() != 0;
  if (!reader.complete() || message.signature.outputs.empty() || message.steadyBytes < 0 || message.peakBytes < 0) return malformed("ready");
  return message;
}

std::vector<std::byte> encodeSandbox(const std::vector<std::string>& missing) {
  return made(ControlKind::Sandbox, [&](ByteWriter& writer) { putTexts(writer, missing); });
}
Result<std::vector<std::string>> decodeSandbox(std::span<const std::byte> bytes) {
  ByteReader reader = opened(bytes, ControlKind::Sandbox);
  auto missing = getTexts(reader);
  if (!reader.complete()) return malformed("sandbox");
  return missing;
}

std::vector<std::byte> encodeProgress(int percent) {
  return made(ControlKind::Progress, [&](ByteWriter& writer) { writer.put(static_cast<std::int32_t>(percent)); });
}
Result<int> decodeProgress(std::span<const std::byte> bytes) {
  ByteReader reader = opened(bytes, ControlKind::Progress);
  const auto percent = reader.get<std::int32_t>();
  if (!reader.complete() || percent < 0 || percent > 100) return malformed("progress");
  return int{percent};
}

std::vector<std::byte> encodeFailed(const Error& error) {
  return made(ControlKind::Failed, [&](ByteWriter& writer) {
    writer.put(static_cast<std::uint16_t>(error.code));
    writer.text(std::string_view(error.reason).substr(0, 64));
    writer.text(std::string_view(error.message).substr(0, kMaxErrorText));
  });
}
Result<FailedMessage> decodeFailed(std::span<const std::byte> bytes) {
  ByteReader reader = opened(bytes, ControlKind::Failed);
  const auto code = reader.get<std::uint16_t>();
  FailedMessage message;
  message.error.reason = reader.text(64);
  message.error.message = reader.text(kMaxErrorText);
  if (!reader.complete() || code > static_cast<std::uint16_t>(Code::DeadlineExceeded)) return malformed("failure");
  message.error.code = static_cast<Code>(code);
  return message;
}

std::vector<std::byte> encodePlain(ControlKind kind) {
  return made(kind, [](ByteWriter&) {});
}

}  // namespace coterie::channel
