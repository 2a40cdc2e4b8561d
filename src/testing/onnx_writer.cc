#include "testing/onnx_writer.h"

#include <bit>
#include <cmath>

namespace coterie::testing {

namespace {

// Protobuf wire format: a key (field number and kind), then a varint, four bytes, or a length and bytes.
void varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}
void number(std::string& out, int field, std::int64_t value) {
  varint(out, static_cast<std::uint64_t>(field) << 3);
  varint(out, static_cast<std::uint64_t>(value));
}
void bytes(std::string& out, int field, std::string_view value) {
  varint(out, static_cast<std::uint64_t>(field) << 3 | 2);
  varint(out, value.size());
  out += value;
}
void float32(std::string& out, int field, float value) {
  varint(out, static_cast<std::uint64_t>(field) << 3 | 5);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(bits >> shift);
}

std::int64_t onnxType(ElementType type) {
  switch (type) {
    case ElementType::Bool: return 9;
    case ElementType::Uint8: return 2;
    case ElementType::Uint16: return 4;
    case ElementType::Uint32: return 12;
    case ElementType::Uint64: return 13;
    case ElementType::Int8: return 3;
    case ElementType::Int16: return 5;
    case ElementType::Int32: return 6;
    case ElementType::Int64: return 7;
    case ElementType::Fp16: return 10;
    case ElementType::Bf16: return 16;
    case ElementType::Fp32: return 1;
    case ElementType::Fp64: return 11;
    case ElementType::ByteString: return 8;
  }
  return 0;
}

std::string valueInfo(std::string_view name, ElementType type, const std::vector<Dim>& dims) {
  std::string shape;
  for (const Dim& dim : dims) {
    std::string encoded;
    if (const auto* value = std::get_if<std::int64_t>(&dim))
      number(encoded, 1, *value);
    else
      bytes(encoded, 2, std::get<std::string>(dim));
    bytes(shape, 1, encoded);
  }
  std::string tensor;
  number(tensor, 1, onnxType(type));
  bytes(tensor, 2, shape);
  std::string typeProto;
  bytes(typeProto, 1, tensor);
  std::string info;
  bytes(info, 1, name);
  bytes(info, 2, typeProto);
  return info;
}

std::string tensorHead(std::string_view name, const Shape& shape) {
  std::string tensor;
  for (const std::int64_t dim : shape) number(tensor, 1, dim);
  number(tensor, 2, onnxType(ElementType::Fp32));
  bytes(tensor, 8, name);
  return tensor;
}

std::string encodeAttribute(const Attribute& attribute) {
  std::string out;
  bytes(out, 1, attribute.name);
  if (const auto* i = std::get_if<std::int64_t>(&attribute.value)) {
    number(out, 3, *i);
    number(out, 20, 2);
  } else if (const auto* f = std::get_if<float>(&attribute.value)) {
    float32(out, 2, *f);
    number(out, 20, 1);
  } else {
    for (const std::int64_t i64 : std::get<std::vector<std::int64_t>>(attribute.value)) number(out, 8, i64);
    number(out, 20, 7);
  }
  return out;
}

}  // namespace

void OnnxWriter::input(std::string_view name, ElementType type, const std::vector<Dim>& dims) { bytes(values_, 11, valueInfo(name, type, dims)); }
void OnnxWriter::output(std::string_view name, ElementType type, const std::vector<Dim>& dims) { bytes(values_, 12, valueInfo(name, type, dims)); }

std::string OnnxWriter::normal(const Shape& shape, double deviation) {
  const auto count = static_cast<std::size_t>(elementCount(shape).value_or(0));
  // Four uniform 16-bit numbers of one draw: mean 131070, variance 4 * (2^32 - 1) / 12.
  const double scale = deviation / std::sqrt(4.0 * 4294967295.0 / 12.0);
  std::string data(count * sizeof(float), '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t draw = rng_();
    const auto sum = static_cast<double>((draw & 0xffff) + (draw >> 16 & 0xffff) + (draw >> 32 & 0xffff) + (draw >> 48));
    const auto value = static_cast<float>((sum - 131070.0) * scale);
    data.replace(i * sizeof(float), sizeof(float), std::string_view(reinterpret_cast<const char*>(&value), sizeof(float)));
  }
  const std::string name = fresh("w");
  std::string tensor = tensorHead(name, shape);
  bytes(tensor, 9, data);
  bytes(initializers_, 5, tensor);
  return name;
}

std::string OnnxWriter::constant(const Shape& shape, float value) {
  const std::string name = fresh("c");
  std::string data;
  const std::string_view one(reinterpret_cast<const char*>(&value), sizeof(float));
  for (std::int64_t i = 0, n = elementCount(shape).value_or(0); i < n; ++i) data += one;
  std::string tensor = tensorHead(name, shape);
  bytes(tensor, 9, data);
  bytes(initializers_, 5, tensor);
  return name;
}

std::string OnnxWriter::external(const Shape& shape, std::string_view location) {
  const std::string name = fresh("e");
  std::string tensor = tensorHead(name, shape);
  std::string entry;
  bytes(entry, 1, "location");
  bytes(entry, 2, location);
  bytes(tensor, 13, entry);
  number(tensor, 14, 1);
  bytes(initializers_, 5, tensor);
  return name;
}

std::string OnnxWriter::op(std::string_view type, const std::vector<std::string>& inputs, const std::vector<Attribute>& attributes,
                           std::string_view domain) {
  nodes_.push_back({std::string(type), inputs, fresh("t"), attributes, std::string(domain)});
  customDomain_ = customDomain_ || !domain.empty();
  return nodes_.back().output;
}

void OnnxWriter::opTo(std::string_view outputName, std::string_view type, const std::vector<std::string>& inputs,
                      const std::vector<Attribute>& attributes) {
  op(type, inputs, attributes);
  nodes_.back().output = outputName;
}

std::string OnnxWriter::finish() {
  if (!lastName_.empty() && !nodes_.empty()) nodes_.back().output = lastName_;
  std::string graph;
  for (const Node& node : nodes_) {
    std::string encoded;
    for (const std::string& input : node.inputs) bytes(encoded, 1, input);
    bytes(encoded, 2, node.output);
    bytes(encoded, 3, node.type + "_" + node.output);
    bytes(encoded, 4, node.type);
    for (const Attribute& attribute : node.attributes) bytes(encoded, 5, encodeAttribute(attribute));
    if (!node.domain.empty()) bytes(encoded, 7, node.domain);
    bytes(graph, 1, encoded);
  }
  bytes(graph, 2, name_);
  graph += initializers_;
  graph += values_;

  std::string opset;
  bytes(opset, 1, "");
  number(opset, 2, 13);
  std::string model;
  model.reserve(graph.size() + 64);
  number(model, 1, 8);
  bytes(model, 2, "coterie-onnx-writer");
  bytes(model, 8, opset);
  if (customDomain_) {
    std::string custom;
    bytes(custom, 1, "example.unknown");
    number(custom, 2, 1);
    bytes(model, 8, custom);
  }
  bytes(model, 7, graph);
  return model;
}

}  // namespace coterie::testing
