// Running one request over a shared session: inputs in place, outputs in place where their shape is known, else copied once.
#include <algorithm>
#include <cstring>
#include <limits>

#include "onnx/session.h"
#include "onnx/session_state.h"

namespace coterie::onnx {

namespace {

constexpr std::uint64_t kAlignment = 64;

std::uint64_t aligned(std::uint64_t offset) { return (offset + kAlignment - 1) & ~(kAlignment - 1); }

std::string text(std::span<const std::int64_t> dims) { return shapeText(Shape(dims.begin(), dims.end())); }

Error badInput(const TensorSpec& spec, const std::string& what) { return {Code::InvalidArgument, "BadInput", "\"" + spec.name + "\": " + what}; }
Error tooLarge(std::uint64_t needed, std::size_t room) {
  return {Code::Internal, "AnswerTooLarge",
          "the answer needs " + std::to_string(needed) + " bytes and more, " + std::to_string(room) + " are allowed"};
}

// Elements of a shape; nullopt if a dimension is negative or the product overflows.
std::optional<std::uint64_t> count(std::span<const std::int64_t> dims) {
  std::uint64_t product = 1;
  bool zero = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      zero = true;
    } else if (product > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / dim)) {
      return std::nullopt;
    } else {
      product *= static_cast<std::uint64_t>(dim);
    }
  }
  return zero ? 0 : product;
}

std::uint32_t littleEndian(const std::byte* p) {
  std::uint32_t value = 0;
  std::memcpy(&value, p, sizeof value);
  return value;
}

Status checkByteStrings(const TensorSpec& spec, std::uint64_t elements, std::span<const std::byte> bytes) {
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < elements; ++i) {
    if (bytes.size() - at < 4)
      return badInput(spec, "element " + std::to_string(i) + " is beyond the tensor's " + std::to_string(bytes.size()) + " bytes");
    const std::uint32_t length = littleEndian(bytes.data() + at);
    at += 4;
    if (bytes.size() - at < length)
      return badInput(spec, "element " + std::to_string(i) + " says it has " + std::to_string(length) + " bytes, beyond the tensor");
    at += length;
  }
  if (at != bytes.size()) return badInput(spec, std::to_string(bytes.size() - at) + " bytes follow the last element");
  return {};
}

Status fillStrings(const OrtApi& api, OrtValue* value, std::uint64_t elements, std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  for (std::uint64_t i = 0; i < elements; ++i) {
    const std::uint32_t length = littleEndian(at);
    char* buffer = nullptr;
    if (Status s = toStatus(api, api.GetResizedStringTensorElementBuffer(value, static_cast<std::size_t>(i), length, &buffer)); !s.ok()) return s;
    std::memcpy(buffer, at + 4, length);
    at += 4 + length;
  }
  return {};
}

}  // namespace

Status checkTensor(const TensorSpec& spec, std::span<const std::int64_t> dims, std::span<const std::byte> bytes) {
  if (!spec.shape.empty()) {
    bool fits = dims.size() == spec.shape.size();
    for (std::size_t i = 0; fits && i < dims.size(); ++i) fits = spec.shape[i] == kDynamic || spec.shape[i] == dims[i];
    if (!fits) return badInput(spec, "shape " + text(dims) + " does not fit " + shapeText(spec.shape));
  }
  const auto elements = count(dims);
  if (!elements) return badInput(spec, "shape " + text(dims) + " has a negative dimension or too many elements");
  if (spec.type == ElementType::ByteString) return checkByteStrings(spec, *elements, bytes);
  const std::size_t size = elementSize(spec.type);
  if (*elements > std::numeric_limits<std::uint64_t>::max() / 2 / size || *elements * size != bytes.size()) {
    return badInput(spec, "shape " + text(dims) + " does not match its " + std::to_string(bytes.size()) + " bytes");
  }
  return {};
}

struct Runner::Scratch {
  OrtRunOptions* options{nullptr};
  std::vector<OrtValue*> inputs;
  std::vector<OrtValue*> outputs;
  std::vector<const char*> inputNames;
  std::vector<const char*> outputNames;
  std::vector<bool> placed;
  std::uint64_t used{0};  // bytes of the answer's memory that are spoken for
};

Runner::Runner(const Session& session) : session_(session), scratch_(std::make_unique<Scratch>()) {
  const OrtApi& api = *session.state().handles->api;
  ignore(api, api.CreateRunOptions(&scratch_->options));
}

Runner::~Runner() {
  releaseValues();
  if (scratch_->options != nullptr) session_.state().handles->api->ReleaseRunOptions(scratch_->options);
}

void Runner::releaseValues() {
  const OrtApi& api = *session_.state().handles->api;
  for (OrtValue* value : scratch_->inputs) {
    if (value != nullptr) api.ReleaseValue(value);
  }
  for (OrtValue* value : scratch_->outputs) {
    if (value != nullptr) api.ReleaseValue(value);
  }
  scratch_->inputs.clear();
  scratch_->outputs.clear();
}

void Runner::terminate() { ignore(*session_.state().handles->api, session_.state().handles->api->RunOptionsSetTerminate(scratch_->options)); }
void Runner::resetTerminate() { ignore(*session_.state().handles->api, session_.state().handles->api->RunOptionsUnsetTerminate(scratch_->options)); }

Status Runner::makeInputs(std::span<const Input> inputs) {
  const Session::State& state = session_.state();
  const OrtApi& api = *state.handles->api;
  const std::vector<TensorSpec>& specs = session_.signature().inputs;
  scratch_->inputNames.clear();
  if (inputs.size() != specs.size()) {
    return Error{Code::InvalidArgument, "BadInput",
                 std::to_string(inputs.size()) + " inputs were given, the model has " + std::to_string(specs.size())};
  }
  for (const Input& input : inputs) {
    if (input.input < 0 || static_cast<std::size_t>(input.input) >= specs.size()) return Error{Code::InvalidArgument, "BadInput", "no such input"};
    const TensorSpec& spec = specs[static_cast<std::size_t>(input.input)];
    const char* name = state.inputNames[static_cast<std::size_t>(input.input)].c_str();
    if (std::find(scratch_->inputNames.begin(), scratch_->inputNames.end(), name) != scratch_->inputNames.end()) return badInput(spec, "given twice");
    if (Status s = checkTensor(spec, input.dims, input.bytes); !s.ok()) return s;
    OrtValue* value = nullptr;
    OrtStatus* made = nullptr;
    if (spec.type == ElementType::ByteString) {
      made = api.CreateTensorAsOrtValue(state.handles->allocator, input.dims.data(), input.dims.size(), toOrt(spec.type), &value);
    } else {
      // The library takes inputs as mutable memory and never writes them; the pages are mapped read-only.
      auto* data = const_cast<std::byte*>(input.bytes.data());
      made = api.CreateTensorWithDataAsOrtValue(state.handles->memory, data, input.bytes.size(), input.dims.data(), input.dims.size(),
                                                toOrt(spec.type), &value);
    }
    if (Status s = toStatus(api, made); !s.ok()) return s;
    scratch_->inputs.push_back(value);
    scratch_->inputNames.push_back(name);
    if (spec.type == ElementType::ByteString) {
      if (Status s = fillStrings(api, value, count(input.dims).value_or(0), input.bytes); !s.ok()) return s;
    }
  }
  return {};
}

Status Runner::placeOutputs(std::span<const Input> inputs, std::span<const int> outputs, std::span<std::byte> memory, std::vector<Output>& answers) {
  const Session::State& state = session_.state();
  const OrtApi& api = *state.handles->api;
  answers.resize(outputs.size());
  scratch_->outputs.assign(outputs.size(), nullptr);
  scratch_->placed.assign(outputs.size(), false);
  scratch_->outputNames.clear();
  scratch_->used = 0;
  const bool inPlace = state.inPlace.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto index = static_cast<std::size_t>(outputs[i]);
    if (outputs[i] < 0 || index >= state.outputNames.size()) return Error{Code::InvalidArgument, "BadInput", "no such output"};
    scratch_->outputNames.push_back(state.outputNames[index].c_str());
    answers[i].output = outputs[i];
    const OutputPlan& plan = state.plans[index];
    if (!plan.predictable || !inPlace) continue;
    answers[i].dims.resize(plan.dims.size());
    for (std::size_t d = 0; d < plan.dims.size(); ++d) {
      const DimSource& source = plan.dims[d];
      if (source.input < 0) {
        answers[i].dims[d] = source.fixed;
        continue;
      }
      const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const Input& in) { return in.input == source.input; });
      answers[i].dims[d] = input->dims[static_cast<std::size_t>(source.dim)];
    }
    const ElementType type = session_.signature().outputs[index].type;
    const auto elements = count(answers[i].dims);
    const std::size_t size = elementSize(type);
    if (!elements || *elements > memory.size() / size || aligned(scratch_->used) + *elements * size > memory.size())
      return tooLarge(scratch_->used, memory.size());
    answers[i].offset = aligned(scratch_->used);
    answers[i].length = *elements * size;
    scratch_->used = answers[i].offset + answers[i].length;
    OrtStatus* made = api.CreateTensorWithDataAsOrtValue(state.handles->memory, memory.data() + answers[i].offset, answers[i].length,
                                                         answers[i].dims.data(), answers[i].dims.size(), toOrt(type), &scratch_->outputs[i]);
    if (Status s = toStatus(api, made); !s.ok()) return s;
    scratch_->placed[i] = true;
  }
  return {};
}

namespace {

Status readShape(const OrtApi& api, const OrtValue* value, std::vector<std::int64_t>& dims, ElementType wanted) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  if (Status s = toStatus(api, api.GetTensorTypeAndShape(value, &info)); !s.ok()) return s;
  std::size_t rank = 0;
  ONNXTensorElementDataType type{};
  Status status = toStatus(api, api.GetDimensionsCount(info, &rank));
  if (status.ok()) {
    dims.resize(rank);
    status = toStatus(api, api.GetDimensions(info, dims.data(), rank));
  }
  if (status.ok()) status = toStatus(api, api.GetTensorElementType(info, &type));
  api.ReleaseTensorTypeAndShapeInfo(info);
  if (status.ok() && type != toOrt(wanted)) return Error{Code::Internal, "ModelFailed", "the model gave another element type than it declares"};
  return status;
}

// Writes strings as length and bytes. Returns the bytes written, or the error.
Result<std::uint64_t> copyStrings(const OrtApi& api, const OrtValue* value, std::uint64_t elements, std::span<std::byte> memory) {
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < elements; ++i) {
    std::size_t length = 0;
    if (Status s = toStatus(api, api.GetStringTensorElementLength(value, static_cast<std::size_t>(i), &length)); !s.ok()) return s.error();
    if (length > std::numeric_limits<std::uint32_t>::max() || at + 4 + length > memory.size()) return tooLarge(at + 4 + length, memory.size());
    const auto prefix = static_cast<std::uint32_t>(length);
    std::memcpy(memory.data() + at, &prefix, sizeof prefix);
    if (Status s = toStatus(api, api.GetStringTensorElement(value, length, static_cast<std::size_t>(i), memory.data() + at + 4)); !s.ok())
      return s.error();
    at += 4 + length;
  }
  return at;
}

}  // namespace

Status Runner::collect(std::span<const int> outputs, std::span<std::byte> memory, std::vector<Output>& answers) {
  const OrtApi& api = *session_.state().handles->api;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (scratch_->placed[i]) continue;
    Output& answer = answers[i];
    const ElementType type = session_.signature().outputs[static_cast<std::size_t>(outputs[i])].type;
    if (Status s = readShape(api, scratch_->outputs[i], answer.dims, type); !s.ok()) return s;
    const std::uint64_t elements = count(answer.dims).value_or(0);
    answer.offset = std::min<std::uint64_t>(aligned(scratch_->used), memory.size());
    const std::span<std::byte> rest = memory.subspan(answer.offset);
    if (type == ElementType::ByteString) {
      const auto written = copyStrings(api, scratch_->outputs[i], elements, rest);
      if (!written.ok()) return written.error();
      answer.length = *written;
    } else {
      answer.length = elements * elementSize(type);
      if (answer.length > rest.size()) return tooLarge(answer.offset + answer.length, memory.size());
      void* data = nullptr;
      if (Status s = toStatus(api, api.GetTensorMutableData(scratch_->outputs[i], &data)); !s.ok()) return s;
      if (answer.length > 0) std::memcpy(rest.data(), data, answer.length);
    }
    scratch_->used = answer.offset + answer.length;
  }
  return {};
}

Status Runner::run(std::span<const Input> inputs, std::span<const int> outputs, std::span<std::byte> memory, std::vector<Output>& answers) {
  const Session::State& state = session_.state();
  const OrtApi& api = *state.handles->api;
  Status status = makeInputs(inputs);
  for (bool again = status.ok(); again;) {
    again = false;
    status = placeOutputs(inputs, outputs, memory, answers);
    if (!status.ok()) break;
    status = toStatus(api, api.Run(state.session, scratch_->options, scratch_->inputNames.data(), scratch_->inputs.data(), inputs.size(),
                                   scratch_->outputNames.data(), outputs.size(), scratch_->outputs.data()));
    if (status.ok()) {
      status = collect(outputs, memory, answers);
    } else if (status.error().message.find("shape verification failed") != std::string::npos && state.inPlace.load()) {
      session_.state().inPlace = false;  // its dimension names do not keep their word: copy from now on
      for (OrtValue*& value : scratch_->outputs) {
        if (value != nullptr) api.ReleaseValue(std::exchange(value, nullptr));
      }
      again = true;
    }
  }
  releaseValues();
  return status;
}

}  // namespace coterie::onnx
