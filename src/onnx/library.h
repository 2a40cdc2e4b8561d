// What an opened ONNX Runtime consists of. Private to this folder: the only header that shows ONNX Runtime's own.
#pragma once

#define ORT_API_MANUAL_INIT
#include <onnxruntime_c_api.h>

#include <array>
#include <optional>
#include <string>

#include "base/result.h"
#include "model/tensor.h"
#include "onnx/session.h"

namespace coterie::onnx {

struct Library::Handles {
  void* dl{nullptr};
  const OrtApi* api{nullptr};
  OrtEnv* env{nullptr};
  OrtMemoryInfo* memory{nullptr};
  OrtAllocator* allocator{nullptr};  // the default one; not owned
};

// Takes a status (null: fine) and frees it.
[[nodiscard]] Status toStatus(const OrtApi& api, OrtStatus* status);
inline void ignore(const OrtApi& api, OrtStatus* status) {
  if (status != nullptr) api.ReleaseStatus(status);
}
[[nodiscard]] std::optional<ElementType> fromOrt(ONNXTensorElementDataType type);
[[nodiscard]] ONNXTensorElementDataType toOrt(ElementType type);

}  // namespace coterie::onnx
