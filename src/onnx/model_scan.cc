#include "onnx/model_scan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace coterie::onnx {

namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxFiles = 4096;

using View = std::span<const std::byte>;

enum class Fault { None, Truncated, Malformed, TooManyFiles };

struct Field {
  std::uint32_t number{0};
  std::uint32_t kind{0};
  std::uint64_t value{0};  // of a varint
  View bytes;              // of a length-delimited field
};

// Reads one field after the other; fault() says why it stopped early.
class Fields {
 public:
  explicit Fields(View view) : rest_(view) {}
  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] std::optional<Field> next() {
    if (rest_.empty() || fault_ != Fault::None) return std::nullopt;
    const auto key = varint();
    if (!key) return std::nullopt;
    Field field;
    field.number = static_cast<std::uint32_t>(*key >> 3);
    field.kind = static_cast<std::uint32_t>(*key & 7);
    if (field.number == 0 || *key >> 32 != 0) return fail(Fault::Malformed);
    switch (field.kind) {
      case 0: {
        const auto value = varint();
        if (!value) return std::nullopt;
        field.value = *value;
        return field;
      }
      case 1: return skip(field, 8);
      case 2: {
        const auto length = varint();
        if (!length) return std::nullopt;
        return skip(field, *length);
      }
      case 5: return skip(field, 4);
      default: return fail(Fault::Malformed);
    }
  }

 private:
  std::optional<Field> fail(Fault fault) {
    fault_ = fault;
    return std::nullopt;
  }
  std::optional<Field> skip(Field& field, std::uint64_t length) {
    if (length > rest_.size()) return fail(Fault::Truncated);
    field.bytes = rest_.first(static_cast<std::size_t>(length));
    rest_ = rest_.subspan(static_cast<std::size_t>(length));
    return field;
  }
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (rest_.empty()) {
        fault_ = Fault::Truncated;
        return std::nullopt;
      }
      const auto byte = static_cast<std::uint64_t>(rest_.front());
      rest_ = rest_.subspan(1);
      if (shift < 64) value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    fault_ = Fault::Malformed;
    return std::nullopt;
  }

  View rest_;
  Fault fault_{Fault::None};
};

std::string_view text(View bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// What a field of a message leads to. Each row of the tables below is one field of onnx.proto.
enum class Message { Model, Graph, Node, Attribute, Tensor, SparseTensor, Function, Training, Entry };
struct Edge {
  Message from;
  std::uint32_t field;
  Message to;
};
constexpr Edge kEdges[] = {
    {Message::Model, 7, Message::Graph},
    {Message::Model, 20, Message::Training},
    {Message::Model, 25, Message::Function},
    {Message::Training, 1, Message::Graph},
    {Message::Training, 2, Message::Graph},
    {Message::Function, 7, Message::Node},
    {Message::Function, 11, Message::Attribute},
    {Message::Graph, 1, Message::Node},
    {Message::Graph, 5, Message::Tensor},
    {Message::Graph, 15, Message::SparseTensor},
    {Message::Node, 5, Message::Attribute},
    {Message::Attribute, 5, Message::Tensor},
    {Message::Attribute, 6, Message::Graph},
    {Message::Attribute, 10, Message::Tensor},
    {Message::Attribute, 11, Message::Graph},
    {Message::Attribute, 22, Message::SparseTensor},
    {Message::Attribute, 23, Message::SparseTensor},
    {Message::SparseTensor, 1, Message::Tensor},
    {Message::SparseTensor, 2, Message::Tensor},
    {Message::Tensor, 13, Message::Entry},
};

class Scanner {
 public:
  Fault scan(Message message, View view, int depth) {
    if (depth > kMaxDepth) return Fault::Malformed;
    Fields fields(view);
    std::string_view key;
    std::string_view value;
    while (const auto field = fields.next()) {
      if (message == Message::Model && field->number == 1 && field->kind == 0) sawVersion_ = true;
      if (field->kind != 2) continue;
      if (message == Message::Entry && field->number == 1) key = text(field->bytes);
      if (message == Message::Entry && field->number == 2) value = text(field->bytes);
      for (const Edge& edge : kEdges) {
        if (edge.from != message || edge.field != field->number) continue;
        if (edge.to == Message::Graph) sawGraph_ = true;
        if (const Fault fault = scan(edge.to, field->bytes, depth + 1); fault != Fault::None) return fault;
      }
    }
    if (fields.fault() != Fault::None) return fields.fault();
    if (message == Message::Entry && key == "location") return keep(value);
    return Fault::None;
  }
  [[nodiscard]] bool sawVersion() const { return sawVersion_; }
  [[nodiscard]] bool sawGraph() const { return sawGraph_; }
  [[nodiscard]] ModelScan take() { return std::move(scan_); }

 private:
  Fault keep(std::string_view location) {
    if (!scan_.externalFiles.empty() && scan_.externalFiles.back() == location) return Fault::None;
    if (std::find(scan_.externalFiles.begin(), scan_.externalFiles.end(), location) != scan_.externalFiles.end()) return Fault::None;
    if (scan_.externalFiles.size() >= kMaxFiles) return Fault::TooManyFiles;
    scan_.externalFiles.emplace_back(location);
    return Fault::None;
  }

  ModelScan scan_;
  bool sawVersion_{false};
  bool sawGraph_{false};
};

Error bad(const char* reason, std::string message) { return {Code::InvalidArgument, reason, std::move(message)}; }

}  // namespace

Result<ModelScan> scanModel(std::span<const std::byte> file) {
  if (file.empty()) return bad("Empty", "is empty");
  Scanner scanner;
  switch (scanner.scan(Message::Model, file, 0)) {
    case Fault::None: break;
    case Fault::TooManyFiles: return bad("TooManyFiles", "names more than " + std::to_string(kMaxFiles) + " external data files");
    case Fault::Truncated:
      // Text and other formats also look like a field that is longer than the file; a model names its version first.
      if (scanner.sawVersion())
        return bad("Truncated", "is truncated: it ends after " + std::to_string(file.size()) + " bytes, in the middle of a field; copy it again");
      [[fallthrough]];
    case Fault::Malformed: return bad("NotOnnx", "is not an ONNX file");
  }
  if (!scanner.sawVersion() || !scanner.sawGraph()) {
    return bad(scanner.sawVersion() ? "Truncated" : "NotOnnx",
               scanner.sawVersion() ? "is truncated or empty: it has no graph" : "is not an ONNX file");
  }
  return scanner.take();
}

}  // namespace coterie::onnx
