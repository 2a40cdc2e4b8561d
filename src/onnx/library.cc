#include "onnx/library.h"

#include <dlfcn.h>

#include <utility>

namespace coterie::onnx {

namespace {
constexpr std::array<std::pair<ElementType, ONNXTensorElementDataType>, kElementTypes> kTypes{{
    {ElementType::Bool, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL},
    {ElementType::Uint8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8},
    {ElementType::Uint16, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16},
    {ElementType::Uint32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32},
    {ElementType::Uint64, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64},
    {ElementType::Int8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8},
    {ElementType::Int16, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16},
    {ElementType::Int32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32},
    {ElementType::Int64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64},
    {ElementType::Fp16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16},
    {ElementType::Bf16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16},
    {ElementType::Fp32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
    {ElementType::Fp64, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE},
    {ElementType::ByteString, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING},
}};
}  // namespace

std::optional<ElementType> fromOrt(ONNXTensorElementDataType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  return std::nullopt;
}

ONNXTensorElementDataType toOrt(ElementType type) { return kTypes[static_cast<std::size_t>(type)].second; }

Status toStatus(const OrtApi& api, OrtStatus* status) {
  if (status == nullptr) return {};
  const OrtErrorCode code = api.GetErrorCode(status);
  std::string message = api.GetErrorMessage(status);
  api.ReleaseStatus(status);
  const bool memory = message.find("bad_alloc") != std::string::npos || message.find("Failed to allocate memory") != std::string::npos;
  if (memory) return Error{Code::Internal, "OutOfMemory", std::move(message)};
  if (message.find("terminate flag") != std::string::npos) return Error{Code::Cancelled, "Terminated", "the run was stopped"};
  if (code == ORT_INVALID_ARGUMENT) return Error{Code::InvalidArgument, "BadInput", std::move(message)};
  return Error{Code::Internal, "ModelFailed", std::move(message)};
}

Library::Library() : handles_(std::make_unique<Handles>()) {}

Library::~Library() {
  // The shared library stays open: its thread-local destructors may still run.
  if (handles_->memory != nullptr) handles_->api->ReleaseMemoryInfo(handles_->memory);
  if (handles_->env != nullptr) handles_->api->ReleaseEnv(handles_->env);
}

Result<std::unique_ptr<Library>> Library::open(const std::string& path) {
  std::unique_ptr<Library> library(new Library());
  Handles& handles = *library->handles_;
  handles.dl = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handles.dl == nullptr) return Error{Code::Unavailable, "NoRuntime", std::string("ONNX Runtime cannot be loaded: ") + ::dlerror()};
  const auto base = reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(handles.dl, "OrtGetApiBase"));
  if (base == nullptr) return Error{Code::Unavailable, "NoRuntime", path + " is not ONNX Runtime: it has no OrtGetApiBase"};
  handles.api = base()->GetApi(ORT_API_VERSION);
  library->version_ = base()->GetVersionString();
  if (handles.api == nullptr) {
    return Error{Code::Unavailable, "NoRuntime",
                 "ONNX Runtime " + library->version_ + " is too old: API " + std::to_string(ORT_API_VERSION) + " is needed"};
  }
  const OrtApi& api = *handles.api;
  if (Status s = toStatus(api, api.CreateEnv(ORT_LOGGING_LEVEL_FATAL, "coterie", &handles.env)); !s.ok()) return s.error();
  ignore(api, api.DisableTelemetryEvents(handles.env));
  if (Status s = toStatus(api, api.CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &handles.memory)); !s.ok()) return s.error();
  if (Status s = toStatus(api, api.GetAllocatorWithDefaultOptions(&handles.allocator)); !s.ok()) return s.error();
  return library;
}

}  // namespace coterie::onnx
