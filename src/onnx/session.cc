#include "onnx/session.h"

#include <map>
#include <utility>

#include "onnx/session_state.h"

namespace coterie::onnx {

namespace {

struct DescribedTensor {
  TensorSpec spec;
  std::vector<std::string> symbols;  // "" for a dimension without a name
};

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// ONNX Runtime's wording of the faults that a model's owner can act on.
Error loadError(const Error& error) {
  const std::string& text = error.message;
  if (error.reason == "OutOfMemory") return {Code::ResourceExhausted, "OutOfMemory", "does not fit in the memory limit"};
  if (contains(text, "is not a registered function/op") || contains(text, "No Op registered for") ||
      contains(text, "Could not find an implementation")) {
    return {Code::InvalidArgument, "UnknownOperator", "uses an operator that ONNX Runtime does not know: " + text};
  }
  if (contains(text, "IR version") || contains(text, "opset"))
    return {Code::InvalidArgument, "UnsupportedVersion", "has a version that is not supported: " + text};
  if (contains(text, "Protobuf parsing failed")) return {Code::InvalidArgument, "NotOnnx", "is not a valid ONNX file"};
  return {Code::InvalidArgument, "BadModel", "cannot be loaded: " + text};
}

Result<DescribedTensor> describe(const OrtApi& api, const OrtTypeInfo* type, std::string name) {
  const OrtTensorTypeAndShapeInfo* info = nullptr;
  if (Status s = toStatus(api, api.CastTypeInfoToTensorInfo(type, &info)); !s.ok()) return s.error();
  if (info == nullptr) return Error{Code::InvalidArgument, "UnsupportedType", "\"" + name + "\" is not a tensor"};
  ONNXTensorElementDataType element{};
  std::size_t rank = 0;
  if (Status s = toStatus(api, api.GetTensorElementType(info, &element)); !s.ok()) return s.error();
  if (Status s = toStatus(api, api.GetDimensionsCount(info, &rank)); !s.ok()) return s.error();
  const auto ours = fromOrt(element);
  if (!ours) return Error{Code::InvalidArgument, "UnsupportedType", "\"" + name + "\" has an element type that the protocol does not carry"};
  DescribedTensor result;
  result.spec = {std::move(name), *ours, Shape(rank), false};
  std::vector<const char*> symbols(rank, nullptr);
  if (Status s = toStatus(api, api.GetDimensions(info, result.spec.shape.data(), rank)); !s.ok()) return s.error();
  if (Status s = toStatus(api, api.GetSymbolicDimensions(info, symbols.data(), rank)); !s.ok()) return s.error();
  for (std::size_t i = 0; i < rank; ++i) {
    if (result.spec.shape[i] < 0) result.spec.shape[i] = kDynamic;
    result.symbols.emplace_back(symbols[i] == nullptr ? "" : symbols[i]);
  }
  return result;
}

enum class Side { Input, Output };

Result<DescribedTensor> describe(const Session::State& state, Side side, std::size_t index) {
  const OrtApi& api = *state.handles->api;
  char* name = nullptr;
  OrtTypeInfo* type = nullptr;
  OrtStatus* named = side == Side::Input ? api.SessionGetInputName(state.session, index, state.handles->allocator, &name)
                                         : api.SessionGetOutputName(state.session, index, state.handles->allocator, &name);
  if (Status s = toStatus(api, named); !s.ok()) return s.error();
  std::string copy = name;
  ignore(api, api.AllocatorFree(state.handles->allocator, name));
  OrtStatus* typed =
      side == Side::Input ? api.SessionGetInputTypeInfo(state.session, index, &type) : api.SessionGetOutputTypeInfo(state.session, index, &type);
  if (Status s = toStatus(api, typed); !s.ok()) return s.error();
  auto result = describe(api, type, std::move(copy));
  api.ReleaseTypeInfo(type);
  return result;
}

OutputPlan plan(const DescribedTensor& output, const std::map<std::string, DimSource>& symbols) {
  // Rank 0 is a scalar or an unknown rank, which the library does not tell apart; BYTES have no size of their own.
  OutputPlan result;
  if (output.spec.shape.empty() || output.spec.type == ElementType::ByteString) return result;
  for (std::size_t i = 0; i < output.spec.shape.size(); ++i) {
    if (output.spec.shape[i] >= 0) {
      result.dims.push_back({output.spec.shape[i], -1, -1});
      continue;
    }
    const auto found = symbols.find(output.symbols[i]);
    if (output.symbols[i].empty() || found == symbols.end()) return {};
    result.dims.push_back(found->second);
  }
  result.predictable = true;
  return result;
}

Status readSignature(Session::State& state, ModelSignature& signature) {
  const OrtApi& api = *state.handles->api;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  if (Status s = toStatus(api, api.SessionGetInputCount(state.session, &inputs)); !s.ok()) return s;
  if (Status s = toStatus(api, api.SessionGetOutputCount(state.session, &outputs)); !s.ok()) return s;
  std::map<std::string, DimSource> symbols;
  for (std::size_t i = 0; i < inputs; ++i) {
    auto input = describe(state, Side::Input, i);
    if (!input.ok()) return Error{input.error().code, input.error().reason, "has an input that cannot be served: " + input.error().message};
    for (std::size_t d = 0; d < input->symbols.size(); ++d) {
      if (!input->symbols[d].empty()) symbols.emplace(input->symbols[d], DimSource{-1, static_cast<int>(i), static_cast<int>(d)});
    }
    state.inputNames.push_back(input->spec.name);
    signature.inputs.push_back(std::move(input->spec));
  }
  std::string skipped;
  for (std::size_t i = 0; i < outputs; ++i) {
    auto output = describe(state, Side::Output, i);
    if (!output.ok() && output.error().reason == "UnsupportedType") {
      skipped = output.error().message;
      continue;
    }
    if (!output.ok()) return output.error();
    state.plans.push_back(plan(*output, symbols));
    state.outputNames.push_back(output->spec.name);
    signature.outputs.push_back(std::move(output->spec));
  }
  if (signature.outputs.empty()) return Error{Code::InvalidArgument, "UnsupportedType", "has no output that can be served: " + skipped};
  return {};
}

// Adds the external files' bytes to the options; the library copies them while it loads.
Status addExternal(const OrtApi& api, OrtSessionOptions* options, const std::vector<ExternalFile>& files) {
  std::vector<const char*> names;
  std::vector<char*> buffers;
  std::vector<std::size_t> lengths;
  for (const ExternalFile& file : files) {
    names.push_back(file.name.c_str());
    buffers.push_back(reinterpret_cast<char*>(file.bytes.data()));
    lengths.push_back(file.bytes.size());
  }
  return toStatus(api, api.AddExternalInitializersFromFilesInMemory(options, names.data(), buffers.data(), lengths.data(), names.size()));
}

// ONNX Runtime's own format is the one that it can use without a copy.
Status configureForm(const OrtApi& api, OrtSessionOptions* options, const LoadOptions& wanted) {
  if (!wanted.saveTo.empty()) {
    if (Status s = toStatus(api, api.SetOptimizedModelFilePath(options, wanted.saveTo.c_str())); !s.ok()) return s;
    if (Status s = toStatus(api, api.AddSessionConfigEntry(options, "session.save_model_format", "ORT")); !s.ok()) return s;
    // It warns that the form is for this CPU, which is what it is for.
    return toStatus(api, api.SetSessionLogSeverityLevel(options, ORT_LOGGING_LEVEL_ERROR));
  }
  if (!wanted.inPlace) return {};
  if (Status s = toStatus(api, api.AddSessionConfigEntry(options, "session.load_model_format", "ORT")); !s.ok()) return s;
  for (const char* key : {"session.use_ort_model_bytes_directly", "session.use_ort_model_bytes_for_initializers", "session.disable_prepacking"}) {
    if (Status s = toStatus(api, api.AddSessionConfigEntry(options, key, "1")); !s.ok()) return s;
  }
  return {};
}

Status configure(const OrtApi& api, OrtSessionOptions* options, const LoadOptions& wanted) {
  if (Status s = toStatus(api, api.SetIntraOpNumThreads(options, wanted.threads)); !s.ok()) return s;
  if (Status s = toStatus(api, api.SetInterOpNumThreads(options, 1)); !s.ok()) return s;
  // A thread that spins takes a CPU from a neighbour; alone it gains 1-2 %.
  if (Status s = toStatus(api, api.AddSessionConfigEntry(options, "session.intra_op.allow_spinning", wanted.spin ? "1" : "0")); !s.ok()) return s;
  if (Status s = toStatus(api, api.AddSessionConfigEntry(options, "session.inter_op.allow_spinning", "0")); !s.ok()) return s;
  if (Status s = configureForm(api, options, wanted); !s.ok()) return s;
  if (!wanted.externalFiles.empty()) return addExternal(api, options, wanted.externalFiles);
  return {};
}

}  // namespace

Session::Session() : state_(std::make_unique<State>()) {}

Session::~Session() {
  if (state_->session != nullptr) state_->handles->api->ReleaseSession(state_->session);
}

Result<std::unique_ptr<Session>> Session::load(const Library& library, std::span<const std::byte> model, const LoadOptions& options) {
  const OrtApi& api = *library.handles().api;
  std::unique_ptr<Session> session(new Session());
  session->state_->handles = &library.handles();
  OrtSessionOptions* ortOptions = nullptr;
  if (Status s = toStatus(api, api.CreateSessionOptions(&ortOptions)); !s.ok()) return s.error();
  Status status = configure(api, ortOptions, options);
  if (status.ok()) {
    status = toStatus(api, api.CreateSessionFromArray(library.handles().env, model.data(), model.size(), ortOptions, &session->state_->session));
    if (!status.ok()) status = loadError(status.error());
  }
  api.ReleaseSessionOptions(ortOptions);
  if (!status.ok()) return status.error();
  if (Status s = readSignature(*session->state_, session->signature_); !s.ok()) return s.error();
  return session;
}

}  // namespace coterie::onnx
