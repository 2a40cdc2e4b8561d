#include "oip/raw_request.h"

#include <rapidjson/encodedstream.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

#include "oip/infer_request.h"
#include "oip/json_text.h"

namespace coterie::oip {

namespace {

constexpr unsigned kParseFlags = rapidjson::kParseNanAndInfFlag | rapidjson::kParseValidateEncodingFlag;
constexpr std::size_t kMaxDepth = kMaxRank + 8;

// Where the parser stands: one per open object or list.
enum class At : std::uint8_t { Top, Inputs, Input, Shape, Data, Outputs, Output, RequestParameters, InputParameters, OutputParameters, Skip };
// The member whose value comes next.
enum class Member : std::uint8_t { Other, Id, Parameters, Inputs, Outputs, Name, Datatype, Shape, Data };

enum class Kind : std::uint8_t { Null, Bool, Number, Text };
struct Scalar {
  Kind kind{Kind::Null};
  bool boolean{false};
  std::string_view text;  // of a Number as written, of a Text decoded
};

// RapidJSON's events -> RawRequest. A handler that returns false has set `fault`.
class Handler {
 public:
  Handler(std::string_view json, const rapidjson::MemoryStream& stream) : json_(json), stream_(stream) {}

  bool Null() { return scalar({Kind::Null, false, {}}); }
  bool Bool(bool b) { return scalar({Kind::Bool, b, {}}); }
  bool Int(int) { return number(); }
  bool Uint(unsigned) { return number(); }
  bool Int64(std::int64_t) { return number(); }
  bool Uint64(std::uint64_t) { return number(); }
  bool Double(double) { return number(); }
  bool RawNumber(const char*, rapidjson::SizeType, bool) { return number(); }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    if (inData()) return request_.inputs.back().textBytes += length, ++request_.inputs.back().elements, true;
    return scalar({Kind::Text, false, {text, length}});
  }
  bool Key(const char* text, rapidjson::SizeType length, bool);
  bool StartObject();
  bool EndObject(rapidjson::SizeType) { return --depth_, true; }
  bool StartArray();
  bool EndArray(rapidjson::SizeType);

  RawRequest& request() { return request_; }
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }
  [[nodiscard]] std::string place() const;

 private:
  [[nodiscard]] bool inData() const { return depth_ > 0 && stack_[depth_ - 1] == At::Data; }
  [[nodiscard]] At top() const { return stack_[depth_ - 1]; }
  bool push(At at) {
    if (depth_ == kMaxDepth) return fail("the request is nested deeper than " + std::to_string(kMaxDepth) + " levels");
    return stack_[depth_++] = at, true;
  }
  bool fail(std::string message) {
    fault_ = badRequest("MalformedRequest", std::move(message));
    return false;
  }
  bool number() {
    if (inData()) return ++request_.inputs.back().elements, true;
    // RapidJSON has just passed the number: its text ends here and starts after the last character that cannot be in one.
    const std::size_t end = stream_.Tell();
    std::size_t start = end;
    while (start > 0 && json_[start - 1] != ',' && json_[start - 1] != ':' && json_[start - 1] != '[' &&
           static_cast<unsigned char>(json_[start - 1]) > ' ')
      --start;
    return scalar({Kind::Number, false, json_.substr(start, end - start)});
  }
  bool scalar(const Scalar& value);
  bool topMember(const Scalar& value);
  bool tensorMember(const Scalar& value, std::optional<std::string>& name, std::optional<std::string>* datatype);
  bool requestParameter(const Scalar& value);
  bool inputParameter(const Scalar& value);
  bool outputParameter(const Scalar& value);
  bool wantUnsigned(const Scalar& value, std::optional<std::uint64_t>& out);
  bool wantBool(const Scalar& value, std::optional<bool>& out);
  bool wantSequence(const Scalar& value);

  std::string_view json_;
  const rapidjson::MemoryStream& stream_;
  RawRequest request_;
  std::optional<Error> fault_;
  std::array<At, kMaxDepth> stack_{};
  std::size_t depth_{0};
  Member member_{Member::Other};
  std::string parameter_;
  std::size_t parameters_{0};
  std::size_t dataStart_{0};
  std::size_t dataDepth_{0};
};

// " of input "x"" where the parser is inside one: for messages.
std::string Handler::place() const {
  for (std::size_t i = 0; i < depth_; ++i) {
    if (stack_[i] == At::Input && !request_.inputs.empty()) {
      const RawInput& input = request_.inputs.back();
      return input.name ? " of input " + inQuotes(*input.name) : " of inputs[" + std::to_string(request_.inputs.size() - 1) + "]";
    }
    if (stack_[i] == At::Output && !request_.outputs.empty()) {
      const RawOutput& output = request_.outputs.back();
      return output.name ? " of output " + inQuotes(*output.name) : " of outputs[" + std::to_string(request_.outputs.size() - 1) + "]";
    }
  }
  return {};
}

Member topMember(std::string_view key) {
  if (key == "inputs") return Member::Inputs;
  if (key == "outputs") return Member::Outputs;
  if (key == "parameters") return Member::Parameters;
  return key == "id" ? Member::Id : Member::Other;
}

Member tensorMember(std::string_view key) {
  if (key == "name") return Member::Name;
  if (key == "shape") return Member::Shape;
  if (key == "datatype") return Member::Datatype;
  if (key == "parameters") return Member::Parameters;
  return key == "data" ? Member::Data : Member::Other;
}

bool Handler::Key(const char* text, rapidjson::SizeType length, bool) {
  const std::string_view key(text, length);
  switch (top()) {
    case At::Top: member_ = coterie::oip::topMember(key); return true;
    case At::Input:
    case At::Output: member_ = coterie::oip::tensorMember(key); return true;
    case At::RequestParameters:
      if (++parameters_ > kMaxParameters) return fail("more than " + std::to_string(kMaxParameters) + " parameters");
      [[fallthrough]];
    case At::InputParameters:
    case At::OutputParameters: parameter_.assign(key); return true;
    default: return true;
  }
}

bool Handler::StartObject() {
  if (depth_ == 0) return push(At::Top);
  switch (top()) {
    case At::Top:
      if (member_ == Member::Parameters) return push(At::RequestParameters);
      return member_ == Member::Other ? push(At::Skip) : fail("\"inputs\" and \"outputs\" must be lists and \"id\" text");
    case At::Inputs:
      if (request_.inputs.size() == kMaxTensors) return fail("more than " + std::to_string(kMaxTensors) + " inputs");
      request_.inputs.emplace_back();
      return push(At::Input);
    case At::Outputs:
      if (request_.outputs.size() == kMaxTensors) return fail("more than " + std::to_string(kMaxTensors) + " outputs");
      request_.outputs.emplace_back();
      return push(At::Output);
    case At::Input:
      if (member_ == Member::Parameters) return push(At::InputParameters);
      return member_ == Member::Other ? push(At::Skip) : fail("name and datatype" + place() + " must be text, shape and data lists");
    case At::Output: return push(member_ == Member::Parameters ? At::OutputParameters : At::Skip);
    case At::Data: return fail("data" + place() + " holds an object; it must be a list of values");
    case At::Shape: return fail("shape" + place() + " must be a list of whole numbers");
    case At::RequestParameters:
      if (parameter_ == "sequence_id") return fail("parameter \"sequence_id\" must be a whole number or text");
      return push(At::Skip);
    case At::InputParameters:
    case At::OutputParameters: return push(At::Skip);
    case At::Skip: return push(At::Skip);
  }
  return false;
}

bool Handler::StartArray() {
  if (depth_ == 0) return fail("the request must be a JSON object with \"inputs\"");
  switch (top()) {
    case At::Top:
      if (member_ == Member::Inputs) {
        if (std::exchange(request_.hasInputs, true)) return fail("\"inputs\" is given twice");
        return push(At::Inputs);
      }
      if (member_ == Member::Outputs) return push(At::Outputs);
      return member_ == Member::Other ? push(At::Skip) : fail("\"id\" must be text and \"parameters\" an object");
    case At::Inputs: return fail("each of \"inputs\" must be an object");
    case At::Outputs: return fail("each of \"outputs\" must be an object");
    case At::Input: {
      RawInput& input = request_.inputs.back();
      if (member_ == Member::Shape) return input.shape.emplace(), push(At::Shape);
      if (member_ != Member::Data)
        return member_ == Member::Other ? push(At::Skip) : fail("name and datatype" + place() + " must be text, parameters an object");
      if (input.data) return fail("data" + place() + " is given twice");
      dataStart_ = stream_.Tell() - 1;
      dataDepth_ = depth_;
      return push(At::Data);
    }
    case At::Shape: return fail("shape" + place() + " must be a flat list of whole numbers");
    case At::Data: return push(At::Data);
    case At::RequestParameters:
      if (parameter_ == "sequence_id") return fail("parameter \"sequence_id\" must be a whole number or text");
      return push(At::Skip);
    default: return push(At::Skip);
  }
}

bool Handler::EndArray(rapidjson::SizeType) {
  --depth_;
  if (stack_[depth_] == At::Data && depth_ == dataDepth_) request_.inputs.back().data = json_.substr(dataStart_, stream_.Tell() - dataStart_);
  return true;
}

bool Handler::scalar(const Scalar& value) {
  if (depth_ == 0) return fail("the request must be a JSON object with \"inputs\"");
  switch (top()) {
    case At::Top: return topMember(value);
    case At::Inputs: return fail("each of \"inputs\" must be an object");
    case At::Outputs: return fail("each of \"outputs\" must be an object");
    case At::Input: return tensorMember(value, request_.inputs.back().name, &request_.inputs.back().datatype);
    case At::Output: return tensorMember(value, request_.outputs.back().name, nullptr);
    case At::Shape: {
      std::int64_t dim = 0;
      const char* end = value.text.data() + value.text.size();
      const auto [stop, fault] = std::from_chars(value.text.data(), end, dim);
      if (value.kind != Kind::Number || fault != std::errc{} || stop != end || dim < 0)
        return fail("shape" + place() + " must be a list of whole numbers, none below 0");
      if (request_.inputs.back().shape->size() == kMaxRank)
        return fail("shape" + place() + " has more than " + std::to_string(kMaxRank) + " dimensions");
      return request_.inputs.back().shape->push_back(dim), true;
    }
    case At::Data: return ++request_.inputs.back().elements, true;  // the values' kinds are checked when they are converted
    case At::RequestParameters: return requestParameter(value);
    case At::InputParameters: return inputParameter(value);
    case At::OutputParameters: return outputParameter(value);
    case At::Skip: return true;
  }
  return false;
}

bool Handler::topMember(const Scalar& value) {
  if (member_ == Member::Other) return true;
  if (member_ == Member::Id) {
    if (value.kind != Kind::Text) return fail("\"id\" must be text");
    return request_.id.assign(value.text), true;
  }
  if (value.kind == Kind::Null && member_ != Member::Inputs) return true;
  return fail("\"inputs\" and \"outputs\" must be lists and \"parameters\" an object");
}

bool Handler::tensorMember(const Scalar& value, std::optional<std::string>& name, std::optional<std::string>* datatype) {
  const bool matters = datatype != nullptr ? member_ != Member::Other : member_ == Member::Name;
  if (!matters) return true;
  if (member_ == Member::Name) return value.kind == Kind::Text ? (name.emplace(value.text), true) : fail("name" + place() + " must be text");
  if (member_ == Member::Datatype)
    return value.kind == Kind::Text ? (datatype->emplace(value.text), true) : fail("datatype" + place() + " must be text like \"FP32\"");
  if (member_ == Member::Parameters) return value.kind == Kind::Null ? true : fail("parameters" + place() + " must be an object");
  return fail(member_ == Member::Shape ? "shape" + place() + " must be a list of whole numbers" : "data" + place() + " must be a list");
}

bool Handler::wantUnsigned(const Scalar& value, std::optional<std::uint64_t>& out) {
  std::uint64_t parsed = 0;
  const char* end = value.text.data() + value.text.size();
  const auto [stop, fault] = std::from_chars(value.text.data(), end, parsed);
  if (value.kind != Kind::Number || fault != std::errc{} || stop != end)
    return fail("parameter " + inQuotes(parameter_) + place() + " must be a whole number, not below 0");
  return out = parsed, true;
}

bool Handler::wantBool(const Scalar& value, std::optional<bool>& out) {
  if (value.kind != Kind::Bool) return fail("parameter " + inQuotes(parameter_) + place() + " must be true or false");
  return out = value.boolean, true;
}

// A number or text; 0 and "" are none, as stock clients send them.
bool Handler::wantSequence(const Scalar& value) {
  if (value.kind == Kind::Text) {
    if (value.text.size() > kMaxSequenceId) return fail("parameter \"sequence_id\" has more than " + std::to_string(kMaxSequenceId) + " bytes");
    return request_.sequence.assign(value.text), true;
  }
  std::optional<std::uint64_t> number;
  if (!wantUnsigned(value, number)) return false;
  request_.sequence = *number == 0 ? std::string() : std::to_string(*number);
  return true;
}

bool Handler::requestParameter(const Scalar& value) {
  if (parameter_ == "binary_data_output") return wantBool(value, request_.binaryOutput);
  if (parameter_ == "timeout") return wantUnsigned(value, request_.timeoutMicros);
  if (parameter_ == "sequence_id") return wantSequence(value);
  if (parameter_ == "sequence_start") return wantBool(value, request_.sequenceStart);
  if (parameter_ == "sequence_end") return wantBool(value, request_.sequenceEnd);
  return true;  // priority, headers and custom ones change nothing here
}

bool Handler::inputParameter(const Scalar& value) {
  RawInput& input = request_.inputs.back();
  if (parameter_ == "binary_data_size") return wantUnsigned(value, input.binarySize);
  if (parameter_ == "shared_memory_region") input.sharedMemory = true;
  return true;
}

bool Handler::outputParameter(const Scalar& value) {
  RawOutput& output = request_.outputs.back();
  if (parameter_ == "binary_data") return wantBool(value, output.binary);
  if (parameter_ == "shared_memory_region") output.sharedMemory = true;
  if (parameter_ == "classification") output.classification = true;
  return true;
}

// Strings of a list -> length-prefixed elements.
struct StringsHandler : rapidjson::BaseReaderHandler<rapidjson::UTF8<>, StringsHandler> {
  std::byte* out{nullptr};
  std::size_t left{0};

  bool Default() { return false; }
  bool StartArray() { return true; }
  bool EndArray(rapidjson::SizeType) { return true; }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    if (left < 4 || length > left - 4) return false;
    for (int i = 0; i < 4; ++i) *out++ = static_cast<std::byte>(length >> (8 * i));
    if (length > 0) std::memcpy(out, text, length);
    out += length;
    left -= 4 + length;
    return true;
  }
};

}  // namespace

std::string inQuotes(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out;
  std::size_t end = 0;
  while (end < text.size() && end < kMost) end += std::max<std::size_t>(1, utf8Sequence(text.substr(end)));
  appendJsonString(out, text.substr(0, end));
  if (end < text.size()) out += "...";
  return out;
}

Error badRequest(std::string reason, std::string message) { return {Code::InvalidArgument, std::move(reason), std::move(message)}; }

Result<RawRequest> readRequest(std::string_view json) {
  rapidjson::MemoryStream stream(json.data(), json.size());
  Handler handler(json, stream);
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<kParseFlags>(stream, handler);
  if (handler.fault()) return *handler.fault();
  if (result.IsError()) {
    return badRequest("MalformedJson", "the request is not valid JSON at byte " + std::to_string(result.Offset()) + handler.place() + ": " +
                                           rapidjson::GetParseError_En(result.Code()));
  }
  if (stream.Tell() != json.size())
    return badRequest("MalformedJson", "the JSON ends at byte " + std::to_string(stream.Tell()) + ", but more bytes follow");
  return std::move(handler.request());
}

bool readStrings(std::string_view data, std::byte* out, std::size_t size) {
  rapidjson::MemoryStream stream(data.data(), data.size());
  StringsHandler handler;
  handler.out = out;
  handler.left = size;
  rapidjson::Reader reader;
  return !reader.Parse<kParseFlags>(stream, handler).IsError() && handler.left == 0;
}

}  // namespace coterie::oip
