// The models that makeModel() knows: identities, small ones with known answers, slow ones, three image classifiers, broken ones.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "testing/onnx_writer.h"

namespace coterie::testing {

namespace {

using Names = std::vector<std::string>;

std::string identity(ElementType type) {
  OnnxWriter writer("identity", 1);
  writer.input("INPUT0", type, {"N", "M"});
  writer.output("OUTPUT0", type, {"N", "M"});
  writer.opTo("OUTPUT0", "Identity", {"INPUT0"});
  return writer.finish();
}

std::string addOne() {
  OnnxWriter writer("add_one", 1);
  writer.input("INPUT0", ElementType::Fp32, {"N", "M"});
  writer.output("OUTPUT0", ElementType::Fp32, {"N", "M"});
  writer.opTo("OUTPUT0", "Add", {"INPUT0", writer.constant({}, 1.0F)});
  return writer.finish();
}

std::string mean() {
  OnnxWriter writer("mean", 1);
  writer.input("INPUT0", ElementType::Fp32, {"N", "M"});
  writer.output("OUTPUT0", ElementType::Fp32, {"N", std::int64_t{1}});
  writer.opTo("OUTPUT0", "ReduceMean", {"INPUT0"}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{1}}});
  return writer.finish();
}

std::string sumDifference() {
  OnnxWriter writer("sum_difference", 1);
  for (const char* name : {"INPUT0", "INPUT1"}) writer.input(name, ElementType::Fp32, {"N", "M"});
  for (const char* name : {"OUTPUT0", "OUTPUT1"}) writer.output(name, ElementType::Fp32, {"N", "M"});
  writer.opTo("OUTPUT0", "Add", {"INPUT0", "INPUT1"});
  writer.opTo("OUTPUT1", "Sub", {"INPUT0", "INPUT1"});
  return writer.finish();
}

// Rows of a table by number, plus x; and the numbers again. Inputs and outputs of two types.
std::string lookup() {
  OnnxWriter writer("lookup", 1);
  writer.input("ids", ElementType::Int64, {"N"});
  writer.input("x", ElementType::Fp32, {"N", std::int64_t{4}});
  writer.output("found", ElementType::Fp32, {"N", std::int64_t{4}});
  writer.output("same", ElementType::Int64, {"N"});
  writer.opTo("found", "Add", {writer.op("Gather", {writer.normal({16, 4}, 1), "ids"}), "x"});
  writer.opTo("same", "Identity", {"ids"});
  return writer.finish();
}

// Its answer's first dimension is not that of the rows.
std::string columnMaxima() {
  OnnxWriter writer("column_maxima", 1);
  writer.input("INPUT0", ElementType::Fp32, {"N", "M"});
  writer.output("OUTPUT0", ElementType::Fp32, {"M"});
  writer.opTo("OUTPUT0", "ReduceMax", {"INPUT0"}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{0}}});
  return writer.finish();
}

std::string dense(OnnxWriter& writer, const std::string& x, std::int64_t in, std::int64_t out, bool relu) {
  const double gain = relu ? 2.0 : 1.0;
  const std::string y = writer.op("Gemm", {x, writer.normal({in, out}, std::sqrt(gain / static_cast<double>(in))), writer.constant({out}, 0)});
  return relu ? writer.op("Relu", {y}) : y;
}

std::string mlp() {
  OnnxWriter writer("mlp", 1);
  writer.input("input", ElementType::Fp32, {"N", std::int64_t{784}});
  writer.output("output", ElementType::Fp32, {"N", std::int64_t{10}});
  dense(writer, dense(writer, "input", 784, 128, true), 128, 10, false);
  writer.lastIs("output");
  return writer.finish();
}

// 25 MB of weights, read once for a row or for many: where batches gain.
std::string wideMlp() {
  OnnxWriter writer("mlp_wide", 1);
  writer.input("input", ElementType::Fp32, {"N", std::int64_t{512}});
  writer.output("output", ElementType::Fp32, {"N", std::int64_t{512}});
  dense(writer, dense(writer, dense(writer, "input", 512, 2048, true), 2048, 2048, true), 2048, 512, false);
  writer.lastIs("output");
  return writer.finish();
}

// A chain of 256 x 256 products: 33.5 million floating-point operations a link, about half a millisecond.
std::string slow(int links) {
  OnnxWriter writer("slow", 1);
  writer.input("INPUT0", ElementType::Fp32, {"N", std::int64_t{64}});
  writer.output("OUTPUT0", ElementType::Fp32, {std::int64_t{256}, std::int64_t{1}});
  const std::string h = writer.op("MatMul", {"INPUT0", writer.normal({64, 256}, 0.125)});
  std::string m = writer.op("MatMul", {writer.op("Transpose", {h}, {{"perm", std::vector<std::int64_t>{1, 0}}}), h});
  const std::string w = writer.normal({256, 256}, 1.0 / 16);
  for (int i = 0; i < links; ++i) m = writer.op("MatMul", {m, w});
  writer.opTo("OUTPUT0", "ReduceMean", {m}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{1}}});
  return writer.finish();
}

// A chain of products whose cost is in proportion to the rows of the input: 131,072 floating-point operations a row and link.
std::string rows(int links) {
  OnnxWriter writer("rows", 1);
  writer.input("INPUT0", ElementType::Fp32, {"N", std::int64_t{64}});
  writer.output("OUTPUT0", ElementType::Fp32, {"N", std::int64_t{1}});
  std::string m = writer.op("MatMul", {"INPUT0", writer.normal({64, 256}, 0.125)});
  const std::string w = writer.normal({256, 256}, 1.0 / 16);
  for (int i = 0; i < links; ++i) m = writer.op("MatMul", {m, w});
  writer.opTo("OUTPUT0", "ReduceMean", {m}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{1}}});
  return writer.finish();
}

// The number behind a name such as slow_x248; 0: it is none.
int linksOf(std::string_view name, std::string_view kind) {
  int links = 0;
  if (!name.starts_with(kind)) return 0;
  const auto [end, fault] = std::from_chars(name.data() + kind.size(), name.data() + name.size(), links);
  return fault == std::errc{} && end == name.data() + name.size() && links <= 10'000 ? links : 0;
}

enum class Activation { None, Relu, Relu6 };
struct Convolution {
  std::int64_t in;
  std::int64_t out;
  std::int64_t kernel;
  std::int64_t stride{1};
  std::int64_t groups{1};
  Activation activation{Activation::Relu};
};

std::string convolve(OnnxWriter& writer, const std::string& x, const Convolution& c) {
  const double fan = static_cast<double>(c.in / c.groups * c.kernel * c.kernel);
  const double gain = c.activation == Activation::None ? 1.0 : 2.0;
  const std::int64_t pad = c.kernel / 2;
  const std::string w = writer.normal({c.out, c.in / c.groups, c.kernel, c.kernel}, std::sqrt(gain / fan));
  const std::string b = writer.normal({c.out}, 0.01);
  const std::string y = writer.op("Conv", {x, w, b},
                                  {{"kernel_shape", std::vector{c.kernel, c.kernel}},
                                   {"strides", std::vector{c.stride, c.stride}},
                                   {"pads", std::vector{pad, pad, pad, pad}},
                                   {"group", c.groups}});
  if (c.activation == Activation::Relu) return writer.op("Relu", {y});
  if (c.activation == Activation::Relu6) return writer.op("Clip", {y, writer.constant({}, 0), writer.constant({}, 6)});
  return y;
}

OnnxWriter imageModel(std::string_view name) {
  OnnxWriter writer{std::string(name), 1};
  writer.input("input", ElementType::Fp32, {"N", std::int64_t{3}, std::int64_t{224}, std::int64_t{224}});
  writer.output("output", ElementType::Fp32, {"N", std::int64_t{1000}});
  writer.lastIs("output");
  return writer;
}

std::string flatPool(OnnxWriter& writer, const std::string& x) { return writer.op("Flatten", {writer.op("GlobalAveragePool", {x})}); }

// Sandler et al., MobileNetV2 (CVPR 2018), table 2: expansion, channels, repeats, stride.
std::string mobilenetV2() {
  struct Stage {
    std::int64_t expansion, channels, repeats, stride;
  };
  constexpr std::array<Stage, 7> kStages{{{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}}};
  OnnxWriter writer = imageModel("mobilenet_v2");
  std::string x = convolve(writer, "input", {3, 32, 3, 2, 1, Activation::Relu6});
  std::int64_t channels = 32;
  for (const Stage& stage : kStages) {
    for (std::int64_t i = 0; i < stage.repeats; ++i) {
      const std::int64_t stride = i == 0 ? stage.stride : 1;
      const std::int64_t wide = channels * stage.expansion;
      const std::string expanded = stage.expansion == 1 ? x : convolve(writer, x, {channels, wide, 1, 1, 1, Activation::Relu6});
      std::string y = convolve(writer, expanded, {wide, wide, 3, stride, wide, Activation::Relu6});
      y = convolve(writer, y, {wide, stage.channels, 1, 1, 1, Activation::None});
      x = stride == 1 && channels == stage.channels ? writer.op("Add", {x, y}) : y;
      channels = stage.channels;
    }
  }
  x = convolve(writer, x, {320, 1280, 1, 1, 1, Activation::Relu6});
  dense(writer, flatPool(writer, x), 1280, 1000, false);
  return writer.finish();
}

// He et al., Deep Residual Learning (CVPR 2016), table 1; the residual branch is scaled by 0.2 in place of batch normalisation.
std::string resnet50() {
  struct Stage {
    std::int64_t planes, repeats, stride;
  };
  constexpr std::array<Stage, 4> kStages{{{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}}};
  OnnxWriter writer = imageModel("resnet50");
  std::string x = convolve(writer, "input", {3, 64, 7, 2});
  x = writer.op("MaxPool", {x},
                {{"kernel_shape", std::vector<std::int64_t>{3, 3}},
                 {"strides", std::vector<std::int64_t>{2, 2}},
                 {"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
  std::int64_t channels = 64;
  for (const Stage& stage : kStages) {
    for (std::int64_t i = 0; i < stage.repeats; ++i) {
      const std::int64_t stride = i == 0 ? stage.stride : 1;
      const std::int64_t wide = stage.planes * 4;
      std::string y = convolve(writer, x, {channels, stage.planes, 1});
      y = convolve(writer, y, {stage.planes, stage.planes, 3, stride});
      y = convolve(writer, y, {stage.planes, wide, 1, 1, 1, Activation::None});
      y = writer.op("Mul", {y, writer.constant({}, 0.2F)});
      const std::string shortcut = i == 0 ? convolve(writer, x, {channels, wide, 1, stride, 1, Activation::None}) : x;
      x = writer.op("Relu", {writer.op("Add", {shortcut, y})});
      channels = wide;
    }
  }
  dense(writer, flatPool(writer, x), 2048, 1000, false);
  return writer.finish();
}

// Simonyan & Zisserman, Very Deep Convolutional Networks (ICLR 2015), configuration D; 0 is a pooling layer.
std::string vgg16() {
  OnnxWriter writer = imageModel("vgg16");
  std::string x = "input";
  std::int64_t channels = 3;
  for (const std::int64_t width : {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0}) {
    if (width == 0) {
      x = writer.op("MaxPool", {x}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}, {"strides", std::vector<std::int64_t>{2, 2}}});
    } else {
      x = convolve(writer, x, {channels, width, 3});
      channels = width;
    }
  }
  x = dense(writer, writer.op("Flatten", {x}), 25088, 4096, true);
  dense(writer, dense(writer, x, 4096, 4096, true), 4096, 1000, false);
  return writer.finish();
}

std::string unknownOperator() {
  OnnxWriter writer("unknown_operator", 1);
  writer.input("INPUT0", ElementType::Fp32, {"N", "M"});
  writer.output("OUTPUT0", ElementType::Fp32, {"N", "M"});
  writer.op("Frobnicate", {"INPUT0"}, {}, "example.unknown");
  writer.lastIs("OUTPUT0");
  return writer.finish();
}

std::string externalData(std::string_view location) {
  OnnxWriter writer("external", 1);
  writer.input("INPUT0", ElementType::Fp32, {"N", std::int64_t{16}});
  writer.output("OUTPUT0", ElementType::Fp32, {"N", std::int64_t{16}});
  writer.opTo("OUTPUT0", "Add", {"INPUT0", writer.external({16}, location)});
  return writer.finish();
}

std::string identityName(ElementType type) {
  std::string name = "identity_";
  for (const char c : elementTypeName(type)) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

Result<std::string> makeModel(std::string_view name) {
  for (int i = 0; i < kElementTypes; ++i) {
    if (name == identityName(static_cast<ElementType>(i))) return identity(static_cast<ElementType>(i));
  }
  if (name == "add_one") return addOne();
  if (name == "mean") return mean();
  if (name == "sum_difference") return sumDifference();
  if (name == "lookup") return lookup();
  if (name == "column_maxima") return columnMaxima();
  if (name == "mlp") return mlp();
  if (name == "mlp_wide") return wideMlp();
  if (name == "slow_1ms") return slow(2);
  if (name == "slow_50ms") return slow(100);
  if (const int links = linksOf(name, "slow_x"); links > 0) return slow(links);
  if (const int links = linksOf(name, "rows_x"); links > 0) return rows(links);
  if (name == "mobilenet_v2") return mobilenetV2();
  if (name == "resnet50") return resnet50();
  if (name == "vgg16") return vgg16();
  if (name == "unknown_operator") return unknownOperator();
  if (name == "external_inside") return externalData("weights.bin");
  if (name == "external_outside") return externalData("../weights.bin");
  return Error{Code::NotFound, "UnknownModel", "there is no generated model \"" + std::string(name) + "\""};
}

std::vector<std::string> modelNames() {
  Names names;
  for (int i = 0; i < kElementTypes; ++i) names.push_back(identityName(static_cast<ElementType>(i)));
  for (const char* name : {"add_one", "mean", "sum_difference", "lookup", "column_maxima", "mlp", "mlp_wide", "slow_1ms", "slow_50ms", "mobilenet_v2",
                           "resnet50", "vgg16", "unknown_operator", "external_inside", "external_outside"}) {
    names.emplace_back(name);
  }
  return names;
}

}  // namespace coterie::testing
