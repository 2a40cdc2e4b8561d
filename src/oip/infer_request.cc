#include "oip/infer_request.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

#include "oip/raw_request.h"
#include "oip/tensor_text.h"

namespace coterie::oip {

namespace {

constexpr std::uint64_t kMaxCell = std::uint64_t{1} << 40U;  // far above any arena; keeps sums from overflowing

std::string describe(const TensorSpec& spec) {
  return inQuotes(spec.name) + " (" + std::string(elementTypeName(spec.type)) + " " + shapeText(spec.shape) + ")";
}

std::string list(const std::vector<TensorSpec>& specs) {
  std::string text;
  for (const TensorSpec& spec : specs) {
    if (!spec.isState()) text += (text.empty() ? "" : ", ") + describe(spec);
  }
  return text.empty() ? "none" : text;
}

int find(const std::vector<TensorSpec>& specs, const std::string& name) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name && !specs[i].isState()) return static_cast<int>(i);
  }
  return -1;
}

bool jsonCarries(ElementType type) { return type != ElementType::Fp16 && type != ElementType::Bf16; }

Status checkShape(const TensorSpec& spec, const Shape& shape) {
  const auto wrong = [&](const std::string& why) {
    return badRequest("InvalidShape", "input " + inQuotes(spec.name) + " has shape " + shapeText(shape) + ", but " + why);
  };
  if (shape.size() != spec.shape.size())
    return wrong("the model takes " + shapeText(spec.shape) + " (" + std::to_string(spec.shape.size()) + " dimensions)");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (spec.shape[i] != kDynamic && spec.shape[i] != shape[i])
      return wrong("the model takes " + shapeText(spec.shape) + ": dimension " + std::to_string(i) + " must be " + std::to_string(spec.shape[i]));
  }
  const auto count = elementCount(shape);
  if (!count || (spec.type != ElementType::ByteString && !tensorBytes(spec.type, shape))) return wrong("the product of its dimensions overflows");
  return {};
}

// How many bytes the data occupies in the cell, by what the request says of it.
Result<std::uint64_t> dataLength(const TensorSpec& spec, const Shape& shape, const RawInput& raw) {
  const auto wrong = [&](const std::string& why) { return badRequest("InvalidData", "input " + inQuotes(spec.name) + " " + why); };
  const auto elements = static_cast<std::uint64_t>(*elementCount(shape));
  const auto dense = tensorBytes(spec.type, shape);
  if (raw.binarySize) {
    if (dense && *dense != *raw.binarySize)
      return wrong("has binary_data_size " + std::to_string(*raw.binarySize) + ", but " + std::string(elementTypeName(spec.type)) + " " +
                   shapeText(shape) + " is " + std::to_string(*dense) + " bytes");
    if (!dense && *raw.binarySize / 4 < elements)
      return wrong("has binary_data_size " + std::to_string(*raw.binarySize) + ", too little for " + std::to_string(elements) +
                   " BYTES elements of 4 bytes length each");
    return *raw.binarySize;
  }
  if (raw.elements != elements)
    return wrong("has " + std::to_string(raw.elements) + " elements in data, but shape " + shapeText(shape) + " says " + std::to_string(elements));
  return dense ? *dense : raw.textBytes + 4 * elements;
}

Result<RequestInput> checkInput(const RawInput& raw, std::size_t position, const ModelSignature& signature, bool binaryAllowed) {
  const std::string place = "inputs[" + std::to_string(position) + "]";
  if (!raw.name) return badRequest("InvalidInput", place + " has no name; the model takes " + list(signature.inputs));
  const int index = find(signature.inputs, *raw.name);
  if (index < 0) return badRequest("UnknownInput", "input " + inQuotes(*raw.name) + " is not one of the model's; it takes " + list(signature.inputs));
  const TensorSpec& spec = signature.inputs[static_cast<std::size_t>(index)];
  const auto wrong = [&](const std::string& reason, const std::string& why) {
    return badRequest(reason, "input " + inQuotes(spec.name) + " " + why);
  };
  if (raw.sharedMemory)
    return Error{Code::Unimplemented, "SharedMemoryUnsupported",
                 "input " + inQuotes(spec.name) + " names a shared memory region; send its bytes with binary_data_size"};
  if (!raw.datatype) return wrong("InvalidDatatype", "has no datatype; the model takes " + std::string(elementTypeName(spec.type)));
  if (parseElementType(*raw.datatype) != spec.type)
    return wrong("InvalidDatatype", "has datatype " + inQuotes(*raw.datatype) + "; the model takes " + std::string(elementTypeName(spec.type)));
  if (!raw.shape) return wrong("InvalidShape", "has no shape; the model takes " + shapeText(spec.shape));
  if (const Status shape = checkShape(spec, *raw.shape); !shape) return shape.error();
  if (raw.binarySize && raw.data) return wrong("InvalidData", "has both data and binary_data_size; send one of them");
  if (!raw.binarySize && !raw.data) return wrong("InvalidData", "has neither data nor binary_data_size");
  if (raw.binarySize && !binaryAllowed)
    return wrong("InvalidData", "has binary_data_size, but the request has no header Inference-Header-Content-Length, so the whole body is JSON");
  if (raw.data && !jsonCarries(spec.type))
    return wrong("NotInJson", "is " + std::string(elementTypeName(spec.type)) + ", which JSON cannot carry; send its bytes with binary_data_size");
  const auto length = dataLength(spec, *raw.shape, raw);
  if (!length) return length.error();
  if (*length > kMaxCell) return wrong("InvalidShape", "is larger than any request may be");
  return RequestInput{index, *raw.shape, raw.data ? Source::Json : Source::Binary, 0, *length, raw.data.value_or(std::string_view{})};
}

std::uint64_t aligned(std::uint64_t offset) { return (offset + kCellAlignment - 1) / kCellAlignment * kCellAlignment; }

Status layOut(InferRequest& request) {
  for (RequestInput& input : request.inputs) {
    input.offset = aligned(request.cellBytes);
    request.cellBytes = input.offset + input.length;
    if (request.cellBytes > kMaxCell) return badRequest("InvalidShape", "the inputs together are larger than any request may be");
  }
  return {};
}

Status checkBinaryTotal(const InferRequest& request, std::optional<std::uint64_t> binaryLength) {
  std::uint64_t total = 0;
  for (const RequestInput& input : request.inputs) total += input.source == Source::Binary ? input.length : 0;
  if (total == binaryLength.value_or(0)) return {};
  return badRequest("InvalidBody", "the inputs' binary_data_size add up to " + std::to_string(total) + " bytes, but " +
                                       std::to_string(binaryLength.value_or(0)) +
                                       " bytes follow the JSON; they must be equal (Content-Length = Inference-Header-Content-Length + the sizes)");
}

Status checkAllPresent(const InferRequest& request, const ModelSignature& signature) {
  std::vector<bool> given(signature.inputs.size());
  for (const RequestInput& input : request.inputs) {
    const auto index = static_cast<std::size_t>(input.input);
    if (given[index]) return badRequest("DuplicateInput", "input " + inQuotes(signature.inputs[index].name) + " is given twice");
    given[index] = true;
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i] && !signature.inputs[i].optional && !signature.inputs[i].isState())
      return badRequest("MissingInput", "input " + describe(signature.inputs[i]) + " is missing");
  }
  return {};
}

Status checkOutput(const TensorSpec& spec, bool binary) {
  if (binary || jsonCarries(spec.type)) return {};
  return badRequest("NotInJson",
                    "output " + inQuotes(spec.name) + " is " + std::string(elementTypeName(spec.type)) +
                        ", which JSON cannot carry; ask for it with parameter \"binary_data\": true (or \"binary_data_output\": true for all)");
}

Status resolveOutputs(const RawRequest& raw, const ModelSignature& signature, InferRequest& request) {
  const bool binaryDefault = raw.binaryOutput.value_or(false);
  if (raw.outputs.empty()) {
    for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
      if (signature.outputs[i].isState()) continue;
      if (const Status ok = checkOutput(signature.outputs[i], binaryDefault); !ok) return ok;
      request.outputs.push_back({static_cast<int>(i), binaryDefault});
    }
    return {};
  }
  std::vector<bool> given(signature.outputs.size());
  for (const RawOutput& output : raw.outputs) {
    if (!output.name) return badRequest("InvalidOutput", "an entry of \"outputs\" has no name; the model gives " + list(signature.outputs));
    const int index = find(signature.outputs, *output.name);
    if (index < 0)
      return badRequest("UnknownOutput", "output " + inQuotes(*output.name) + " is not one of the model's; it gives " + list(signature.outputs));
    if (given[static_cast<std::size_t>(index)]) return badRequest("DuplicateOutput", "output " + inQuotes(*output.name) + " is asked for twice");
    given[static_cast<std::size_t>(index)] = true;
    if (output.sharedMemory)
      return Error{Code::Unimplemented, "SharedMemoryUnsupported",
                   "output " + inQuotes(*output.name) + " names a shared memory region; take it in the answer"};
    if (output.classification)
      return Error{Code::Unimplemented, "ClassificationUnsupported",
                   "output " + inQuotes(*output.name) + " asks for classification; take the tensor itself"};
    const bool binary = output.binary.value_or(binaryDefault);
    if (const Status ok = checkOutput(signature.outputs[static_cast<std::size_t>(index)], binary); !ok) return ok;
    request.outputs.push_back({index, binary});
  }
  return {};
}

Status checkByteStrings(std::string_view name, std::uint64_t count, std::span<const std::byte> data) {
  const auto wrong = [&](const std::string& why) { return badRequest("InvalidData", "input " + inQuotes(name) + ": " + why); };
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint32_t length = 0;
    if (data.size() - at < sizeof length)
      return wrong("BYTES element " + std::to_string(i) + " of " + std::to_string(count) + " lies beyond the tensor's " +
                   std::to_string(data.size()) + " bytes");
    std::memcpy(&length, data.data() + at, sizeof length);
    at += sizeof length;
    if (length > data.size() - at)
      return wrong("BYTES element " + std::to_string(i) + " says " + std::to_string(length) + " bytes, but only " + std::to_string(data.size() - at) +
                   " are left in the tensor");
    at += length;
  }
  if (at != data.size())
    return wrong(std::to_string(data.size() - at) + " bytes are left behind the last of its " + std::to_string(count) + " BYTES elements");
  return {};
}

}  // namespace

Result<InferRequest> parseInferRequest(std::string_view json, const ModelSignature& signature, std::optional<std::uint64_t> binaryLength) {
  auto read = readRequest(json);
  if (!read) return read.error();
  const RawRequest& raw = *read;
  if (!raw.hasInputs) return badRequest("MalformedRequest", "the request has no \"inputs\"; the model takes " + list(signature.inputs));
  InferRequest request;
  request.id = std::move(read->id);
  request.inputs.reserve(raw.inputs.size());
  for (std::size_t i = 0; i < raw.inputs.size(); ++i) {
    auto input = checkInput(raw.inputs[i], i, signature, binaryLength.has_value());
    if (!input) return input.error();
    request.inputs.push_back(std::move(*input));
  }
  if (const Status ok = checkAllPresent(request, signature); !ok) return ok.error();
  if (const Status ok = checkBinaryTotal(request, binaryLength); !ok) return ok.error();
  if (const Status ok = layOut(request); !ok) return ok.error();
  if (const Status ok = resolveOutputs(raw, signature, request); !ok) return ok.error();
  if (raw.timeoutMicros.value_or(0) > 0) {  // 0 means none, as stock clients send it
    constexpr std::uint64_t kLongest = 86'400'000'000;
    request.timeout = Micros(std::min(*raw.timeoutMicros, kLongest));
  }
  request.sequence = std::move(read->sequence);
  request.sequenceStart = raw.sequenceStart.value_or(false);
  request.sequenceEnd = raw.sequenceEnd.value_or(false);
  return request;
}

Result<InferRequest> rawInferRequest(const ModelSignature& signature, std::uint64_t bodyLength) {
  if (signature.inputs.size() != 1)
    return badRequest("InvalidBody",
                      "a raw body (Inference-Header-Content-Length: 0) needs a model with one input; this one takes " + list(signature.inputs));
  const TensorSpec& spec = signature.inputs.front();
  const auto wrong = [&](const std::string& why) {
    return badRequest("InvalidBody", "a raw body of " + std::to_string(bodyLength) + " bytes is no " + describe(spec) + ": " + why);
  };
  if (bodyLength > kMaxCell) return wrong("it is larger than any request may be");
  Shape shape = spec.shape;
  std::int64_t* open = nullptr;
  for (std::int64_t& dim : shape) {
    if (dim != kDynamic) continue;
    if (open != nullptr) return wrong("more than one dimension is open; send the shape in a JSON header");
    open = &dim;
  }
  if (open != nullptr) *open = 1;
  InferRequest request;
  RequestInput input{0, {}, Source::Binary, 0, bodyLength, {}};
  if (spec.type == ElementType::ByteString) {
    if (elementCount(shape) != 1) return wrong("it holds one element; send several with a JSON header");
    input.source = Source::RawElement;
    input.length = bodyLength + 4;
    if (bodyLength > std::numeric_limits<std::uint32_t>::max()) return wrong("an element is below 4 GiB");
  } else {
    const auto unit = tensorBytes(spec.type, shape);
    if (!unit) return wrong("its shape overflows");
    if (open != nullptr && *unit > 0 && bodyLength % *unit == 0)
      *open = static_cast<std::int64_t>(bodyLength / *unit);
    else if (*unit != bodyLength)
      return wrong("its size must be " + std::string(open != nullptr ? "a multiple of " : "") + std::to_string(*unit));
  }
  input.shape = std::move(shape);
  request.inputs.push_back(std::move(input));
  if (const Status ok = layOut(request); !ok) return ok.error();
  for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
    if (!signature.outputs[i].isState()) request.outputs.push_back({static_cast<int>(i), true});
  }
  return request;
}

Status fillJson(const InferRequest& request, const ModelSignature& signature, std::span<std::byte> cell) {
  for (const RequestInput& input : request.inputs) {
    const std::span<std::byte> out = cell.subspan(input.offset, input.length);
    const TensorSpec& spec = signature.inputs[static_cast<std::size_t>(input.input)];
    if (input.source == Source::RawElement) {
      const auto length = static_cast<std::uint32_t>(input.length - 4);
      std::memcpy(out.data(), &length, sizeof length);
    } else if (input.source == Source::Json && spec.type == ElementType::ByteString) {
      if (!nestedAs(input.json, input.shape))
        return badRequest("InvalidData", "data of input " + inQuotes(spec.name) + " is nested in another way than shape " + shapeText(input.shape) +
                                             "; send it flat or nested as the shape says");
      if (!readStrings(input.json, out.data(), out.size()))
        return badRequest("InvalidData", "input " + inQuotes(spec.name) + " is BYTES: each element of data must be text");
    } else if (input.source == Source::Json) {
      if (const Status ok = readNumbers(spec.name, input.json, spec.type, input.shape, out); !ok) return ok;
    }
  }
  return {};
}

Status checkBinary(const InferRequest& request, const ModelSignature& signature, std::span<const std::byte> cell) {
  for (const RequestInput& input : request.inputs) {
    if (input.source != Source::Binary) continue;
    const std::span<const std::byte> data = cell.subspan(input.offset, input.length);
    const TensorSpec& spec = signature.inputs[static_cast<std::size_t>(input.input)];
    if (spec.type == ElementType::ByteString) {
      if (const Status ok = checkByteStrings(spec.name, static_cast<std::uint64_t>(*elementCount(input.shape)), data); !ok) return ok;
    } else if (spec.type == ElementType::Bool) {
      const auto bad = std::find_if(data.begin(), data.end(), [](std::byte b) { return b > std::byte{1}; });
      if (bad != data.end())
        return badRequest("InvalidData", "element " + std::to_string(bad - data.begin()) + " of input " + inQuotes(spec.name) + " is " +
                                             std::to_string(std::to_integer<int>(*bad)) + ", but BOOL bytes are 0 or 1");
    }
  }
  return {};
}

Result<std::optional<std::uint64_t>> parseHeaderLength(std::string_view header, std::uint64_t bodyLength) {
  if (header.empty()) return std::optional<std::uint64_t>{};
  std::uint64_t length = 0;
  const char* end = header.data() + header.size();
  const auto [stop, fault] = std::from_chars(header.data(), end, length);
  if (fault != std::errc{} || stop != end)
    return badRequest("InvalidHeaderLength",
                      "Inference-Header-Content-Length is " + inQuotes(header) + "; it must be the number of bytes of the JSON");
  if (length > bodyLength)
    return badRequest("InvalidHeaderLength", "Inference-Header-Content-Length is " + std::to_string(length) + ", but the body has only " +
                                                 std::to_string(bodyLength) + " bytes");
  return std::optional<std::uint64_t>{length};
}

}  // namespace coterie::oip
