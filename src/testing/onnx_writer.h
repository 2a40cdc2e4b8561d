// Writes small and large ONNX models from a seed, for tests and benches: no weights are downloaded and none are committed.
//
// makeModel(name) gives the file's bytes; the same name gives the same bytes on every machine. OnnxWriter builds a graph operator by operator and
// encodes it as protobuf by hand (a varint, a length and bytes; field numbers of the public onnx.proto), so no ONNX library is needed. Weights are
// He-scaled pseudo-normal numbers (the sum of four uniforms), which keeps activations in range through VGG16. O(bytes written). Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "model/tensor.h"

namespace coterie::testing {

// A dimension that is a number, or a name for one that the request chooses.
using Dim = std::variant<std::int64_t, std::string>;
using AttributeValue = std::variant<std::int64_t, float, std::vector<std::int64_t>>;

struct Attribute {
  std::string name;
  AttributeValue value;
};

class OnnxWriter {
 public:
  OnnxWriter(std::string graphName, std::uint64_t seed) : name_(std::move(graphName)), rng_(seed) {}

  void input(std::string_view name, ElementType type, const std::vector<Dim>& dims);
  void output(std::string_view name, ElementType type, const std::vector<Dim>& dims);
  // Each returns the name of the tensor made.
  std::string normal(const Shape& shape, double deviation);
  std::string constant(const Shape& shape, float value);
  // A weight whose bytes lie in another file, `location`, as ONNX's external data.
  std::string external(const Shape& shape, std::string_view location);
  std::string op(std::string_view type, const std::vector<std::string>& inputs, const std::vector<Attribute>& attributes = {},
                 std::string_view domain = "");
  // The last operator's output is renamed to the graph's output.
  void lastIs(std::string_view outputName) { lastName_ = outputName; }
  // An operator whose output has a given name, for graphs with several outputs.
  void opTo(std::string_view outputName, std::string_view type, const std::vector<std::string>& inputs,
            const std::vector<Attribute>& attributes = {});
  [[nodiscard]] std::string finish();

 private:
  struct Node {
    std::string type;
    std::vector<std::string> inputs;
    std::string output;
    std::vector<Attribute> attributes;
    std::string domain;
  };
  std::string fresh(std::string_view prefix) { return std::string(prefix) + std::to_string(++counter_); }

  std::string name_;
  Rng rng_;
  int counter_{0};
  std::vector<Node> nodes_;
  std::string initializers_;  // encoded
  std::string values_;        // encoded inputs and outputs
  std::string lastName_;
  bool customDomain_{false};
};

// "identity_fp32" ... "identity_bytes" (INPUT0 -> OUTPUT0, [-1,-1]), "add_one", "mean", "sum_difference" (two in, two out), "lookup" (INT64 and FP32
// in and out), "column_maxima" ([N,M] -> [M]), "mlp" (784 -> 128 -> 10), "mlp_wide" (512 -> 2048 -> 2048 -> 512), "slow_1ms", "slow_50ms" (about, on
// one CPU of 2020), "slow_xN" and "rows_xN" (of N links; the cost of rows is in proportion to the rows of the input), "mobilenet_v2", "resnet50",
// "vgg16" (input [-1,3,224,224] -> output [-1,1000]), and broken ones: "unknown_operator", "external_inside" (wants weights.bin beside it: 16
// floats), "external_outside" (../weights.bin). NotFound for any other name.
[[nodiscard]] Result<std::string> makeModel(std::string_view name);
[[nodiscard]] std::vector<std::string> modelNames();

}  // namespace coterie::testing
