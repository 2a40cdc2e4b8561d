#include "oip/infer_request.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "oip/target.h"

namespace coterie::oip {
namespace {

ModelSignature signatureOfAll() {
  ModelSignature signature;
  for (int i = 0; i < kElementTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    signature.inputs.push_back({std::string(elementTypeName(type)), type, {kDynamic, 3}, true});
    signature.outputs.push_back({"OUT_" + std::string(elementTypeName(type)), type, {kDynamic, 3}, false});
  }
  return signature;
}

ModelSignature image() { return {{{"x", ElementType::Fp32, {1, 3}, false}}, {{"y", ElementType::Fp32, {1, 3}, false}}}; }

struct Bad {
  std::string name;
  std::string json;
  std::string says;  // a part of the message
  std::optional<std::uint64_t> binary;
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

std::string whyRefused(const ModelSignature& signature, const std::string& json, std::optional<std::uint64_t> binary) {
  const auto request = parseInferRequest(json, signature, binary);
  if (!request) return request.error().message;
  std::vector<std::byte> cell(request->cellBytes);
  const Status filled = fillJson(*request, signature, cell);
  return filled ? "" : filled.error().message;
}

std::string all(const std::string& type, const std::string& data, const std::string& shape = "[1,3]") {
  return R"({"inputs":[{"name":")" + type + R"(","shape":)" + shape + R"(,"datatype":")" + type + R"(","data":)" + data +
         R"(}],"outputs":[{"name":"OUT_FP32"}]})";
}

class RefusedRequest : public testing::TestWithParam<Bad> {};
TEST_P(RefusedRequest, NamesTheTensorAndTheFix) {
  const std::string message = whyRefused(signatureOfAll(), GetParam().json, GetParam().binary);
  EXPECT_NE(message.find(GetParam().says), std::string::npos) << "got: " << message;
}
INSTANTIATE_TEST_SUITE_P(
    Table, RefusedRequest,
    testing::Values(
        Bad{"Empty", "", "not valid JSON at byte 0", {}}, Bad{"List", "[]", "must be a JSON object", {}}, Bad{"NoInputs", "{}", "no \"inputs\"", {}},
        Bad{"Garbage behind", all("FP32", "[1,2,3]") + "x", "byte", {}},
        Bad{"Nul behind", all("FP32", "[1,2,3]") + std::string("\0x", 2), "more bytes follow", {}},
        Bad{"InputsTwice", R"({"inputs":[],"inputs":[]})", "given twice", {}}, Bad{"IdNumber", R"({"id":1,"inputs":[]})", "\"id\" must be text", {}},
        Bad{"WrongName",
            R"({"inputs":[{"name":"nope","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]})",
            R"(input "nope" is not one of the model's; it takes "BOOL" (BOOL [-1,3]))",
            {}},
        Bad{"WrongType",
            R"({"inputs":[{"name":"FP32","shape":[1,3],"datatype":"INT32","data":[1,2,3]}]})",
            R"(input "FP32" has datatype "INT32"; the model takes FP32)",
            {}},
        Bad{"WrongDimension", all("FP32", "[1,2]", "[1,2]"), "dimension 1 must be 3", {}},
        Bad{"WrongRank", all("FP32", "[1,2,3]", "[3]"), "the model takes [-1,3] (2 dimensions)", {}},
        Bad{"ShapeProductOverflows", all("FP32", "[1]", "[9223372036854775807,3]"), "product of its dimensions overflows", {}},
        Bad{"ShapeBeyondInt64", all("FP32", "[1]", "[9223372036854775808,3]"), "shape of input \"FP32\" must be a list of whole numbers", {}},
        Bad{"ShapeNegative", all("FP32", "[1]", "[-1,3]"), "none below 0", {}},
        Bad{"ShapeFraction", all("FP32", "[1]", "[1.5,3]"), "whole numbers", {}},
        Bad{"ShapeThreeWithOneElement", all("FP32", "[1]"), R"(input "FP32" has 1 elements in data, but shape [1,3] says 3)", {}},
        Bad{"HugeShapeTinyData", all("FP32", "[1]", "[1000000000000,3]"), "says 3000000000000", {}},
        Bad{"EmptyForFixedDimension", all("FP32", "[]"), "has 0 elements in data", {}},
        Bad{"EmptyShapeDimension", all("FP32", "[]", "[1,0]"), "dimension 1 must be 3", {}},
        Bad{"Duplicate",
            R"({"inputs":[{"name":"INT8","shape":[1,3],"datatype":"INT8","data":[1,2,3]},{"name":"INT8","shape":[1,3],"datatype":"INT8","data":[1,2,3]}]})",
            R"(input "INT8" is given twice)",
            {}},
        Bad{"UnknownOutput", R"({"inputs":[],"outputs":[{"name":"z"}]})", R"(output "z" is not one of the model's)", {}},
        Bad{"UINT8 of 300", all("UINT8", "[1,2,300]"), R"(element 2 of input "UINT8" is 300, which UINT8 cannot hold (0 to 255))", {}},
        Bad{"UINT8 negative", all("UINT8", "[1,-2,3]"), "is -2, which UINT8 cannot hold", {}},
        Bad{"INT8 low", all("INT8", "[1,-129,3]"), "is -129, which INT8 cannot hold", {}},
        Bad{"INT32 fraction", all("INT32", "[1,2.5,3]"), "is 2.5, but INT32 takes whole numbers", {}},
        Bad{"INT64 too large", all("INT64", "[1,9223372036854775808,3]"), "which INT64 cannot hold", {}},
        Bad{"INT64 too large as float", all("INT64", "[1,9.3e18,3]"), "which INT64 cannot hold", {}},
        Bad{"UINT64 too large", all("UINT64", "[1,18446744073709551616,3]"), "which UINT64 cannot hold", {}},
        Bad{"INT32 NaN", all("INT32", "[1,NaN,3]"), "whole numbers", {}}, Bad{"FP32 text", all("FP32", R"([1,"a",3])"), "FP32 takes numbers", {}},
        Bad{"FP32 null", all("FP32", "[1,null,3]"), "FP32 takes numbers", {}},
        Bad{"FP32 too large", all("FP32", "[1,1e39,3]"), "which FP32 cannot hold", {}},
        Bad{"Json1e999", all("FP64", "[1,1e999,3]"), "of input \"FP64\": Number too big", {}},
        Bad{"FP64 9e308", all("FP64", "[1,9e308,3]"), "cannot hold", {}},
        Bad{"BOOL number", all("BOOL", "[true,2,false]"), "BOOL takes true and false", {}},
        Bad{"BYTES numbers", all("BYTES", "[1,2,3]"), "each element of data must be text", {}},
        Bad{"DataObject", all("FP32", "[1,{},3]"), "data of input \"FP32\" holds an object", {}},
        Bad{"DataText", all("FP32", "\"abc\""), "data of input \"FP32\" must be a list", {}},
        Bad{"NestedOtherwise", all("FP32", "[[1],[2],[3]]"), "nested in another way than shape [1,3]", {}},
        Bad{"NestedMixed", all("FP32", "[[1,2],3]"), "nested in another way", {}},
        Bad{"NestedTooDeep", all("FP32", "[[[1,2,3]]]"), "nested in another way", {}},
        Bad{"Fp16Json", all("FP16", "[1,2,3]"), "input \"FP16\" is FP16, which JSON cannot carry; send its bytes with binary_data_size", {}},
        Bad{"Bf16Json", all("BF16", "[1,2,3]"), "binary_data_size", {}},
        Bad{"Fp16OutputJson", R"({"inputs":[],"outputs":[{"name":"OUT_FP16"}]})", "\"binary_data\": true", {}},
        Bad{"NoShape", R"({"inputs":[{"name":"INT8","datatype":"INT8","data":[1,2,3]}]})", "input \"INT8\" has no shape", {}},
        Bad{"NoDatatype", R"({"inputs":[{"name":"INT8","shape":[1,3],"data":[1,2,3]}]})", "input \"INT8\" has no datatype", {}},
        Bad{"NoName", R"({"inputs":[{"shape":[1,3],"data":[1,2,3]}]})", "inputs[0] has no name", {}},
        Bad{"NoData", R"({"inputs":[{"name":"INT8","shape":[1,3],"datatype":"INT8"}]})", "has neither data nor binary_data_size", {}},
        Bad{"BinaryWithoutHeader",
            R"({"inputs":[{"name":"INT8","shape":[1,3],"datatype":"INT8","parameters":{"binary_data_size":3}}]})",
            "no header Inference-Header-Content-Length",
            {}},
        Bad{"BinarySizeWrong", R"({"inputs":[{"name":"INT8","shape":[1,3],"datatype":"INT8","parameters":{"binary_data_size":4}}]})",
            "INT8 [1,3] is 3 bytes", 4},
        Bad{"BinarySizeNegative", R"({"inputs":[{"name":"INT8","shape":[1,3],"datatype":"INT8","parameters":{"binary_data_size":-3}}]})",
            "\"binary_data_size\" of input \"INT8\" must be a whole number", 3},
        Bad{"BinarySizeFraction", R"({"inputs":[{"name":"INT8","shape":[1,3],"datatype":"INT8","parameters":{"binary_data_size":3.5}}]})",
            "must be a whole number", 3},
        Bad{"BinarySizesDoNotAddUp", R"({"inputs":[{"name":"INT8","shape":[1,3],"datatype":"INT8","parameters":{"binary_data_size":3}}]})",
            "add up to 3 bytes, but 5 bytes follow", 5},
        Bad{"BytesTooShortForElements", R"({"inputs":[{"name":"BYTES","shape":[1,3],"datatype":"BYTES","parameters":{"binary_data_size":11}}]})",
            "too little for 3 BYTES elements", 11},
        Bad{"SharedMemory",
            R"({"inputs":[{"name":"INT8","shape":[1,3],"datatype":"INT8","parameters":{"shared_memory_region":"r"}}]})",
            "shared memory region",
            {}},
        Bad{"Classification", R"({"inputs":[],"outputs":[{"name":"OUT_FP32","parameters":{"classification":3}}]})", "classification", {}},
        Bad{"BinaryOutputText", R"({"parameters":{"binary_data_output":"yes"},"inputs":[]})", "\"binary_data_output\" must be true or false", {}},
        Bad{"TimeoutNegative", R"({"parameters":{"timeout":-1},"inputs":[]})", "\"timeout\" must be a whole number", {}},
        Bad{"BadUtf8", std::string("{\"id\":\"\xff\",\"inputs\":[]}"), "not valid JSON", {}},
        Bad{"TooDeep", "{\"x\":" + std::string(100, '[') + std::string(100, ']') + "}", "nested deeper", {}}));

TEST(InferRequest, MissingInputIsNamedWithItsTypeAndShape) {
  const auto request = parseInferRequest(R"({"inputs":[]})", image(), {});
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().message, R"(input "x" (FP32 [1,3]) is missing)");
  EXPECT_EQ(request.error().reason, "MissingInput");
}

template <typename T>
std::vector<T> filled(const std::string& json, const ModelSignature& signature) {
  const auto request = parseInferRequest(json, signature, {});
  if (!request) return ADD_FAILURE() << request.error().message, std::vector<T>{};
  std::vector<std::byte> cell(request->cellBytes);
  const Status status = fillJson(*request, signature, cell);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  std::vector<T> values(request->inputs.back().length / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), cell.data() + request->inputs.back().offset, values.size() * sizeof(T));
  return values;
}

TEST(InferRequest, NumbersReadBackExactly) {
  const auto signature = signatureOfAll();
  EXPECT_EQ(filled<float>(all("FP32", "[[0.1, -1e-50 ,16777217]]"), signature), (std::vector<float>{0.1F, -0.0F, 16777216.F}));
  EXPECT_EQ(filled<double>(all("FP64", "[0.1,5e-324,1.7976931348623157e308]"), signature),
            (std::vector<double>{0.1, 5e-324, 1.7976931348623157e308}));
  EXPECT_EQ(filled<std::int64_t>(all("INT64", "[-9223372036854775808,9223372036854775807,1e3]"), signature),
            (std::vector<std::int64_t>{INT64_MIN, INT64_MAX, 1000}));
  EXPECT_EQ(filled<std::uint64_t>(all("UINT64", "[18446744073709551615,0,2.0]"), signature), (std::vector<std::uint64_t>{UINT64_MAX, 0, 2}));
  EXPECT_EQ(filled<std::uint8_t>(all("BOOL", "[true,false,1]"), signature), (std::vector<std::uint8_t>{1, 0, 1}));
  const auto special = filled<float>(all("FP32", "[NaN,Infinity,-Infinity]"), signature);
  EXPECT_TRUE(std::isnan(special.at(0)));
  EXPECT_EQ(special.at(1), INFINITY);
  EXPECT_EQ(special.at(2), -INFINITY);
}

TEST(InferRequest, TextWithEscapesBecomesLengthPrefixedBytes) {
  const auto bytes = filled<char>(all("BYTES", R"(["a\u0000b","\ud83d\ude00é",""])"), signatureOfAll());
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), std::string("\3\0\0\0a\0b\6\0\0\0\xF0\x9F\x98\x80\xC3\xA9\0\0\0\0", 21));
}

TEST(InferRequest, EmptyAlongAnOpenDimension) {
  for (const std::string data : {"[]"}) EXPECT_TRUE(filled<float>(all("FP32", data, "[0,3]"), signatureOfAll()).empty());
}

TEST(InferRequest, MembersInAnyOrderAndUnknownOnesIgnored) {
  const std::string json =
      R"({"model_name":"m","x":{"inputs":[1]},"outputs":[{"name":"y","y":[{}]}],"inputs":[{"data":[1,2,3],"extra":[{"name":1}],"shape":[1,3],"datatype":"FP32","name":"x"}],)"
      R"("parameters":{"sequence_id":"a","sequence_start":true,"priority":3,"timeout":2000,"headers":{"a":[1]},"mine":1.5}, "id":"7"})";
  const auto request = parseInferRequest(json, image(), {});
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->id, "7");
  EXPECT_EQ(request->timeout, Micros(2000));
  EXPECT_FALSE(request->outputs.at(0).binary);
  EXPECT_EQ(request->sequence, "a");
  EXPECT_TRUE(request->sequenceStart);
  EXPECT_FALSE(request->sequenceEnd);
}

TEST(InferRequest, ASequencesIdIsANumberOrAText) {
  const auto parsed = [](const std::string& id) {
    return parseInferRequest(
        R"({"parameters":{"sequence_id":)" + id + R"(,"sequence_end":true},"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]})",
        image(), {});
  };
  for (const auto& [id, read] :
       std::vector<std::pair<std::string, std::string>>{{"18446744073709551615", "18446744073709551615"},
                                                        {"0", ""},
                                                        {"\"\"", ""},
                                                        {"\"a b\"", "a b"},
                                                        {"\"" + std::string(kMaxSequenceId, 'x') + "\"", std::string(kMaxSequenceId, 'x')}}) {
    const auto request = parsed(id);
    ASSERT_TRUE(request.ok()) << id << request.error().message;
    EXPECT_EQ(request->sequence, read);
    EXPECT_TRUE(request->sequenceEnd);
  }
  for (const std::string& id : {std::string("-1"), std::string("1.5"), std::string("true"), std::string("[1]"), std::string("{}"),
                                "\"" + std::string(kMaxSequenceId + 1, 'x') + "\""})
    EXPECT_EQ(parsed(id).error().reason, "MalformedRequest") << id;
}

TEST(InferRequest, AStateIsNeitherGivenNorAskedFor) {
  ModelSignature signature{{{"x", ElementType::Fp32, {1}, false}, {"h", ElementType::Fp32, {1}, false, 1}},
                           {{"y", ElementType::Fp32, {1}, false}, {"hn", ElementType::Fp32, {1}, false, 1}}};
  const std::string x = R"({"name":"x","shape":[1],"datatype":"FP32","data":[1]})";
  const auto request = parseInferRequest(R"({"inputs":[)" + x + "]}", signature, {});
  ASSERT_TRUE(request.ok()) << request.error().message;
  ASSERT_EQ(request->outputs.size(), 1U);
  EXPECT_EQ(request->outputs[0].output, 0);
  EXPECT_EQ(parseInferRequest(R"({"inputs":[)" + x + R"(],"outputs":[{"name":"hn"}]})", signature, {}).error().reason, "UnknownOutput");
  const auto given = parseInferRequest(R"({"inputs":[)" + x + R"(,{"name":"h","shape":[1],"datatype":"FP32","data":[1]}]})", signature, {});
  EXPECT_EQ(given.error().reason, "UnknownInput");
  EXPECT_EQ(given.error().message, "input \"h\" is not one of the model's; it takes \"x\" (FP32 [1])");
}

TEST(InferRequest, BinaryInputsAreLaidOutInOrderAt64Bytes) {
  const std::string json =
      R"({"inputs":[{"name":"INT8","shape":[1,3],"datatype":"INT8","parameters":{"binary_data_size":3}},{"name":"FP32","shape":[1,3],"datatype":"FP32","data":[1,2,3]},)"
      R"({"name":"FP16","shape":[2,3],"datatype":"FP16","parameters":{"binary_data_size":12}}],"parameters":{"binary_data_output":true}})";
  const auto request = parseInferRequest(json, signatureOfAll(), 15);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->inputs[0].offset, 0U);
  EXPECT_EQ(request->inputs[1].offset, 64U);
  EXPECT_EQ(request->inputs[2].offset, 128U);
  EXPECT_EQ(request->cellBytes, 140U);
  EXPECT_EQ(request->outputs.size(), static_cast<std::size_t>(kElementTypes));
  EXPECT_TRUE(request->outputs[0].binary);
}

std::string binaryFault(ElementType type, const std::string& body) {
  const ModelSignature signature{{{"x", type, {2}, false}}, {}};
  const std::string json = R"({"inputs":[{"name":"x","shape":[2],"datatype":")" + std::string(elementTypeName(type)) +
                           R"(","parameters":{"binary_data_size":)" + std::to_string(body.size()) + "}}]}";
  const auto request = parseInferRequest(json, signature, body.size());
  if (!request) return request.error().message;
  std::vector<std::byte> cell(request->cellBytes);
  std::memcpy(cell.data(), body.data(), body.size());
  const Status ok = checkBinary(*request, signature, cell);
  return ok ? "" : ok.error().message;
}

TEST(InferRequest, BinaryContentsAreChecked) {
  EXPECT_EQ(binaryFault(ElementType::ByteString, std::string("\1\0\0\0a\0\0\0\0", 9)), "");
  EXPECT_EQ(binaryFault(ElementType::ByteString, std::string("\1\0\0\0a\2\0\0\0a", 10)),
            R"(input "x": BYTES element 1 says 2 bytes, but only 1 are left in the tensor)");
  EXPECT_NE(binaryFault(ElementType::ByteString, std::string("\5\0\0\0abcde\0", 10)).find("element 1 of 2 lies beyond"), std::string::npos);
  EXPECT_NE(binaryFault(ElementType::ByteString, std::string("\1\0\0\0a\0\0\0\0z", 10)).find("1 bytes are left behind"), std::string::npos);
  EXPECT_NE(binaryFault(ElementType::ByteString, std::string("\xff\xff\xff\xff\0\0\0\0", 8)).find("says 4294967295 bytes"), std::string::npos);
  EXPECT_EQ(binaryFault(ElementType::Bool, std::string("\1\0", 2)), "");
  EXPECT_NE(binaryFault(ElementType::Bool, std::string("\1\2", 2)).find("BOOL bytes are 0 or 1"), std::string::npos);
}

TEST(InferRequest, RawBodies) {
  const auto one = rawInferRequest({{{"x", ElementType::Fp32, {kDynamic, 3}, false}}, {{"y", ElementType::Fp32, {1}, false}}}, 24);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->inputs[0].shape, (Shape{2, 3}));
  EXPECT_TRUE(one->outputs[0].binary);
  EXPECT_FALSE(rawInferRequest({{{"x", ElementType::Fp32, {kDynamic, 3}, false}}, {}}, 25).ok());
  EXPECT_FALSE(rawInferRequest({{{"x", ElementType::Fp32, {kDynamic, kDynamic}, false}}, {}}, 24).ok());
  EXPECT_FALSE(rawInferRequest(signatureOfAll(), 24).ok());
  const auto text = rawInferRequest({{{"x", ElementType::ByteString, {kDynamic}, false}}, {}}, 5);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->inputs[0].source, Source::RawElement);
  EXPECT_EQ(text->cellBytes, 9U);
}

TEST(HeaderLength, Table) {
  EXPECT_FALSE(parseHeaderLength("", 10)->has_value());
  EXPECT_EQ(parseHeaderLength("0", 10)->value(), 0U);
  EXPECT_EQ(parseHeaderLength("10", 10)->value(), 10U);
  for (const std::string_view bad : {"11", "-1", "+1", "1.0", "x", " 1", "99999999999999999999"})
    EXPECT_FALSE(parseHeaderLength(bad, 10).ok()) << bad;
}

TEST(Target, Table) {
  struct Row {
    std::string_view target;
    Endpoint endpoint;
    std::string_view model;
    std::string_view version;
  };
  for (const Row& row : {Row{"/v2", Endpoint::ServerMetadata, "", ""},
                         Row{"/v2/", Endpoint::ServerMetadata, "", ""},
                         Row{"/v2/health/live", Endpoint::Live, "", ""},
                         Row{"/v2/health/ready?x=1", Endpoint::Ready, "", ""},
                         Row{"/v2/models/m", Endpoint::ModelMetadata, "m", ""},
                         Row{"/v2/models/a.b/versions/1/infer", Endpoint::Infer, "a.b", "1"},
                         Row{"/v2/models/a%2eb/infer", Endpoint::Infer, "a.b", ""},
                         Row{"/v2/models/m/versions/2", Endpoint::ModelMetadata, "m", "2"},
                         Row{"/v2/models/m/ready", Endpoint::ModelReady, "m", ""},
                         Row{"/v2/models/stats", Endpoint::AllStatistics, "", ""},
                         Row{"/v2/models/m/stats", Endpoint::ModelStatistics, "m", ""},
                         Row{"/v2/models/m/trace/setting", Endpoint::TraceSetting, "m", ""},
                         Row{"/v2/trace/setting", Endpoint::TraceSetting, "", ""},
                         Row{"/v2/repository/index", Endpoint::RepositoryIndex, "", ""},
                         Row{"/v2/repository/models/m/load", Endpoint::RepositoryLoad, "m", ""},
                         Row{"/v2/repository/models/m/unload", Endpoint::RepositoryUnload, "m", ""},
                         Row{"/v2/logging", Endpoint::Logging, "", ""},
                         Row{"/v2/systemsharedmemory/status", Endpoint::SharedMemoryStatus, "", ""},
                         Row{"/v2/cudasharedmemory/region/r/register", Endpoint::SharedMemoryChange, "", ""},
                         Row{"/v2/models/m/nope", Endpoint::Unknown, "", ""},
                         Row{"/v2/models//infer", Endpoint::Unknown, "", ""},
                         Row{"/v2/models/%zz", Endpoint::Unknown, "", ""},
                         Row{"/v2/models/%00", Endpoint::Unknown, "", ""},
                         Row{"/v1", Endpoint::Unknown, "", ""},
                         Row{"v2", Endpoint::Unknown, "", ""},
                         Row{"", Endpoint::Unknown, "", ""},
                         Row{"/v2/models/m/versions", Endpoint::Unknown, "", ""},
                         Row{"/v2/models/m/infer/infer", Endpoint::Unknown, "", ""}}) {
    const Target target = parseTarget(row.target);
    EXPECT_EQ(static_cast<int>(target.endpoint), static_cast<int>(row.endpoint)) << row.target;
    EXPECT_EQ(target.model, row.model) << row.target;
    EXPECT_EQ(target.version, row.version) << row.target;
  }
  EXPECT_EQ(resolveModel("m", "home"), (ServiceName{"home", "m"}));
  EXPECT_EQ(resolveModel("other.m", "home"), (ServiceName{"other", "m"}));
}

}  // namespace
}  // namespace coterie::oip
