// Any bytes as the JSON of an inference request, and as a request target: refused or read, never a crash; what is read fills its cell exactly.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "oip/infer_request.h"
#include "oip/target.h"

namespace {
coterie::ModelSignature everything() {
  coterie::ModelSignature signature;
  for (int i = 0; i < coterie::kElementTypes; ++i) {
    const auto type = static_cast<coterie::ElementType>(i);
    signature.inputs.push_back({std::string(1, static_cast<char>('a' + i)), type, {coterie::kDynamic, coterie::kDynamic}, true});
    signature.outputs.push_back({std::string(1, static_cast<char>('a' + i)), type, {coterie::kDynamic}, false});
  }
  return signature;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const coterie::ModelSignature signature = everything();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(coterie::oip::parseTarget(text));
  const auto request = coterie::oip::parseInferRequest(text, signature, std::nullopt);
  if (!request || request->cellBytes > 1U << 24U) return 0;
  if (request->cellBytes > 64 * size + 64 * 32) std::abort();  // a short request must not make a large cell
  std::vector<std::byte> cell(request->cellBytes);
  static_cast<void>(coterie::oip::fillJson(*request, signature, cell));
  return 0;
}
