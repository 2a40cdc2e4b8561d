#include "oip/infer_response.h"

#include "oip/json_text.h"
#include "oip/tensor_text.h"

namespace coterie::oip {

Status writeInferResponse(std::string_view model, std::string_view version, std::string_view id, std::span<const OutputView> outputs,
                          InferResponse& out) {
  out.json.clear();
  out.parts.clear();
  out.binary = false;
  std::uint64_t behind = 0;
  JsonWriter json(out.json);
  json.open('{').field("model_name").text(model).field("model_version").text(version);
  if (!id.empty()) json.field("id").text(id);
  json.field("outputs").open('[');
  for (const OutputView& output : outputs) {
    json.open('{')
        .field("name")
        .text(output.spec->name)
        .field("datatype")
        .text(elementTypeName(output.spec->type))
        .field("shape")
        .shape(*output.shape);
    if (output.binary) {
      json.field("parameters").open('{').field("binary_data_size").number(static_cast<std::int64_t>(output.data.size())).close('}');
      out.binary = true;
      behind += output.data.size();
      if (!output.data.empty()) out.parts.push_back(output.data);
    } else {
      json.field("data");
      if (const Status ok = appendTensor(out.json, *output.spec, *output.shape, output.data); !ok) return ok;
    }
    json.close('}');
  }
  json.close(']').close('}');
  out.bytes = out.json.size() + behind;
  return {};
}

}  // namespace coterie::oip
