#include "oip/infer_response.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <limits>

#include "oip/documents.h"
#include "oip/infer_request.h"
#include "oip/json_text.h"

namespace coterie::oip {
namespace {

std::span<const std::byte> bytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(InferResponse, BinaryOutputsStayInPlace) {
  const std::string first("\1\0\0\0", 4);
  const TensorSpec x{"x", ElementType::Fp32, {1}, false};
  const TensorSpec y{"y", ElementType::Int8, {2}, false};
  const Shape one{1};
  const Shape two{2};
  const std::string second("\1\xff", 2);
  const std::vector<OutputView> views{{&x, &one, bytesOf(first), true}, {&y, &two, bytesOf(second), false}};
  InferResponse response;
  ASSERT_TRUE(writeInferResponse("m", "1", "a\"b", views, response).ok());
  EXPECT_EQ(
      response.json,
      R"({"model_name":"m","model_version":"1","id":"a\"b","outputs":[{"name":"x","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}},)"
      R"({"name":"y","datatype":"INT8","shape":[2],"data":[1,-1]}]})");
  ASSERT_EQ(response.parts.size(), 1U);
  EXPECT_EQ(static_cast<const void*>(response.parts[0].data()), first.data());
  EXPECT_TRUE(response.binary);
  EXPECT_EQ(response.bytes, response.json.size() + 4);
}

Status written(ElementType type, const Shape& shape, const std::string& data, std::string& json) {
  const TensorSpec spec{"y", type, shape, false};
  const std::vector<OutputView> views{{&spec, &shape, bytesOf(data), false}};
  InferResponse response;
  const Status status = writeInferResponse("m", "1", "", views, response);
  json = response.json;
  return status;
}

TEST(InferResponse, HostileBytesOutputsAreRefused) {
  std::string json;
  EXPECT_EQ(written(ElementType::ByteString, {1}, std::string("\377\377\377\377ab", 6), json).error().code, Code::Internal);
  EXPECT_EQ(written(ElementType::ByteString, {2}, std::string("\1\0\0\0a", 5), json).error().code, Code::Internal);
  EXPECT_EQ(written(ElementType::ByteString, {1}, std::string("\1\0\0\0ab", 6), json).error().code, Code::Internal);
  EXPECT_EQ(written(ElementType::Fp32, {2}, std::string("\1\0\0\0", 4), json).error().code, Code::Internal);
  const Status notText = written(ElementType::ByteString, {1}, std::string("\1\0\0\0\xff", 5), json);
  EXPECT_EQ(notText.error().code, Code::InvalidArgument);
  EXPECT_NE(notText.error().message.find("\"binary_data\": true"), std::string::npos);
  EXPECT_TRUE(written(ElementType::ByteString, {1}, std::string("\3\0\0\0a\0b", 7), json).ok());
  EXPECT_NE(json.find(R"(["a\u0000b"])"), std::string::npos);
}

TEST(JsonText, Utf8Table) {
  for (const std::string_view good : {"", "a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xED\x9F\xBF"}) EXPECT_TRUE(isUtf8(good));
  for (const std::string_view bad : {"\x80", "\xC3", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80", "\xFF"})
    EXPECT_FALSE(isUtf8(bad));
  std::string json;
  appendJsonString(json, "a\x01\n\xFFz");
  EXPECT_EQ(json, "\"a\\u0001\\n\xEF\xBF\xBDz\"");
}

TEST(Documents, Bodies) {
  const ModelSignature signature{{{"x", ElementType::ByteString, {kDynamic, 2}, true}}, {{"y", ElementType::Fp32, {}, false}}};
  EXPECT_EQ(
      modelMetadata("m", &signature),
      R"({"name":"m","versions":["1"],"platform":"onnxruntime_onnx","inputs":[{"name":"x","datatype":"BYTES","shape":[-1,2]}],"outputs":[{"name":"y","datatype":"FP32","shape":[]}]})");
  EXPECT_NE(modelConfig("m", &signature).find(R"("data_type":"TYPE_STRING","dims":[-1,2],"optional":true)"), std::string::npos);
  EXPECT_EQ(errorBody({Code::ResourceExhausted, "QueueFull", "busy"}, "queuedRequests", Millis(1500), "r1"),
            R"({"error":"busy","reason":"QueueFull","limit":"queuedRequests","retryAfterMs":1500,"requestId":"r1"})");
  EXPECT_EQ(errorBody({Code::NotFound, "NotFound", "no"}, "", {}, ""), R"({"error":"no","reason":"NotFound"})");
  const std::vector<IndexEntry> index{{"a.b", true, ""}, {"c", false, "Loading"}};
  EXPECT_EQ(repositoryIndex(index),
            R"([{"name":"a.b","version":"1","state":"READY","reason":""},{"name":"c","version":"1","state":"UNAVAILABLE","reason":"Loading"}])");
}

// What one side writes as JSON the other reads back bit for bit: an answer's outputs sent again as a request's inputs.
std::string elementBytes(ElementType type) {
  if (type == ElementType::ByteString) {
    std::string text;
    const auto length = *rc::gen::inRange(0, 5);
    for (int i = 0; i < length; ++i)
      text += *rc::gen::element<std::string>("a", "\"", "\\", "\n", std::string(1, '\0'), "\xC3\xA9", "\xF0\x9F\x98\x80", "]", ",");
    const auto size = static_cast<std::uint32_t>(text.size());
    return std::string(reinterpret_cast<const char*>(&size), 4) + text;
  }
  if (type == ElementType::Bool) return std::string(1, *rc::gen::element('\0', '\1'));
  std::string bytes;
  for (std::size_t i = 0; i < elementSize(type); ++i) bytes += static_cast<char>(*rc::gen::inRange(0, 256));
  const auto unify = [&](auto zero) {  // one NaN for all
    decltype(zero) value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    if (value != value) value = std::numeric_limits<decltype(zero)>::quiet_NaN();
    std::memcpy(bytes.data(), &value, sizeof value);
  };
  if (type == ElementType::Fp32) unify(0.0F);
  if (type == ElementType::Fp64) unify(0.0);
  return bytes;
}

RC_GTEST_PROP(InferResponse, JsonRoundTripIsExact, ()) {
  std::vector<TensorSpec> specs;
  std::vector<Shape> shapes;
  std::vector<std::string> data;
  const int tensors = *rc::gen::inRange(1, 4);
  for (int t = 0; t < tensors; ++t) {
    auto type = static_cast<ElementType>(*rc::gen::inRange(0, kElementTypes));
    if (type == ElementType::Fp16 || type == ElementType::Bf16) type = ElementType::Fp32;
    const Shape shape = *rc::gen::container<Shape>(static_cast<std::size_t>(*rc::gen::inRange(0, 4)), rc::gen::inRange<std::int64_t>(0, 4));
    std::string bytes;
    for (std::int64_t i = 0; i < *elementCount(shape); ++i) bytes += elementBytes(type);
    specs.push_back({"t" + std::to_string(t), type, shape, false});
    shapes.push_back(shape);
    data.push_back(bytes);
  }
  std::vector<OutputView> views;
  bool anyBinary = false;
  std::uint64_t behind = 0;
  for (std::size_t t = 0; t < specs.size(); ++t) {
    const bool binary = *rc::gen::arbitrary<bool>();
    anyBinary |= binary;
    if (binary) behind += data[t].size();
    views.push_back({&specs[t], &shapes[t], bytesOf(data[t]), binary});
  }
  InferResponse response;
  RC_ASSERT(writeInferResponse("m", "1", "id", views, response).ok());
  std::string request = response.json;
  request.replace(request.find("\"outputs\""), 9, "\"inputs\"");
  const ModelSignature signature{specs, {}};
  const auto parsed = parseInferRequest(request, signature, anyBinary ? std::optional(behind) : std::nullopt);
  RC_ASSERT(parsed.ok());
  std::vector<std::byte> cell(parsed->cellBytes);
  RC_ASSERT(fillJson(*parsed, signature, cell).ok());
  std::size_t part = 0;
  for (const RequestInput& input : parsed->inputs) {
    if (input.source != Source::Binary || input.length == 0) continue;
    RC_ASSERT(response.parts.at(part).size() == input.length);
    std::memcpy(cell.data() + input.offset, response.parts[part++].data(), input.length);
  }
  RC_ASSERT(checkBinary(*parsed, signature, cell).ok());
  for (std::size_t t = 0; t < specs.size(); ++t) {
    const RequestInput& input = parsed->inputs[t];
    RC_ASSERT(input.offset % kCellAlignment == 0);
    RC_ASSERT(std::string(reinterpret_cast<const char*>(cell.data()) + input.offset, input.length) == data[t]);
  }
}

}  // namespace
}  // namespace coterie::oip
