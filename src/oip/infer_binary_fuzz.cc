// Any bytes as a body with binary tensors: the first two say how long the JSON is. What is accepted must lie within its cell.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "oip/infer_request.h"
#include "oip/infer_response.h"

namespace {
using namespace coterie;

ModelSignature signatureOf() {
  return {{{"b", ElementType::ByteString, {kDynamic}, true},
           {"t", ElementType::Bool, {kDynamic}, true},
           {"f", ElementType::Fp32, {kDynamic, kDynamic}, true},
           {"h", ElementType::Fp16, {2}, true}},
          {}};
}

void readBack(const ModelSignature& signature, const oip::InferRequest& request, const std::vector<std::byte>& cell) {
  std::vector<oip::OutputView> views;
  for (const oip::RequestInput& input : request.inputs) {
    const TensorSpec& spec = signature.inputs[static_cast<std::size_t>(input.input)];
    views.push_back({&spec, &input.shape, std::span(cell).subspan(input.offset, input.length), spec.type == ElementType::Fp16});
  }
  oip::InferResponse response;
  const Status status = oip::writeInferResponse("m", "1", request.id, views, response);
  if (!status && status.error().code == Code::Internal) std::abort();  // what was checked on its way in must fit on its way out
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static const ModelSignature signature = signatureOf();
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t header = (data[0] | static_cast<std::size_t>(data[1]) << 8U) % (body.size() + 1);
  const std::string_view rest = body.substr(header);
  static const ModelSignature single{{{"b", ElementType::ByteString, {kDynamic}, false}}, {}};
  static_cast<void>(oip::rawInferRequest(single, rest.size()));
  const auto request = oip::parseInferRequest(body.substr(0, header), signature, rest.size());
  if (!request) return 0;
  std::vector<std::byte> cell(request->cellBytes);
  std::size_t at = 0;
  for (const oip::RequestInput& input : request->inputs) {
    if (input.source != oip::Source::Binary) continue;
    if (input.offset + input.length > cell.size() || at + input.length > rest.size()) std::abort();
    if (input.length > 0) std::memcpy(cell.data() + input.offset, rest.data() + at, input.length);
    at += input.length;
  }
  if (oip::checkBinary(*request, signature, cell) && oip::fillJson(*request, signature, cell)) readBack(signature, *request, cell);
  return 0;
}
