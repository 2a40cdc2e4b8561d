#include "oip/documents.h"

#include "oip/json_text.h"

namespace coterie::oip {

namespace {

void tensors(JsonWriter& json, std::string_view field, const std::vector<TensorSpec>* specs) {
  json.field(field).open('[');
  if (specs != nullptr) {
    for (const TensorSpec& spec : *specs) {
      if (spec.isState()) continue;
      json.open('{').field("name").text(spec.name).field("datatype").text(elementTypeName(spec.type)).field("shape").shape(spec.shape).close('}');
    }
  }
  json.close(']');
}

// The configuration's own names for element types.
std::string configType(ElementType type) { return type == ElementType::ByteString ? "TYPE_STRING" : "TYPE_" + std::string(elementTypeName(type)); }

void configTensors(JsonWriter& json, std::string_view field, const std::vector<TensorSpec>* specs) {
  json.field(field).open('[');
  if (specs != nullptr) {
    for (const TensorSpec& spec : *specs) {
      if (spec.isState()) continue;
      json.open('{')
          .field("name")
          .text(spec.name)
          .field("data_type")
          .text(configType(spec.type))
          .field("dims")
          .shape(spec.shape)
          .field("optional")
          .boolean(spec.optional)
          .close('}');
    }
  }
  json.close(']');
}

void total(JsonWriter& json, std::string_view field, const Total& value) {
  json.field(field).open('{').field("count").number(value.count).field("ns").number(value.nanos).close('}');
}

}  // namespace

std::string serverMetadata(std::string_view version) {
  std::string body;
  JsonWriter json(body);
  json.open('{').field("name").text("coterie").field("version").text(version).field("extensions").open('[');
  for (const std::string_view extension : {"binary_tensor_data", "model_repository", "model_configuration", "statistics", "parameters"})
    json.text(extension);
  json.close(']').close('}');
  return body;
}

std::string liveBody() { return R"({"live":true})"; }
std::string readyBody(bool ready) { return ready ? R"({"ready":true})" : R"({"ready":false})"; }

std::string modelReadyBody(std::string_view model, bool ready) {
  std::string body;
  JsonWriter(body).open('{').field("name").text(model).field("ready").boolean(ready).close('}');
  return body;
}

std::string modelMetadata(std::string_view model, const ModelSignature* signature) {
  std::string body;
  JsonWriter json(body);
  json.open('{').field("name").text(model).field("versions").open('[').text(kModelVersion).close(']').field("platform").text("onnxruntime_onnx");
  tensors(json, "inputs", signature == nullptr ? nullptr : &signature->inputs);
  tensors(json, "outputs", signature == nullptr ? nullptr : &signature->outputs);
  json.close('}');
  return body;
}

std::string modelConfig(std::string_view model, const ModelSignature* signature) {
  std::string body;
  JsonWriter json(body);
  json.open('{')
      .field("name")
      .text(model)
      .field("platform")
      .text("onnxruntime_onnx")
      .field("backend")
      .text("onnxruntime")
      .field("max_batch_size")
      .number(0);
  configTensors(json, "input", signature == nullptr ? nullptr : &signature->inputs);
  configTensors(json, "output", signature == nullptr ? nullptr : &signature->outputs);
  json.close('}');
  return body;
}

std::string repositoryIndex(std::span<const IndexEntry> entries) {
  std::string body;
  JsonWriter json(body);
  json.open('[');
  for (const IndexEntry& entry : entries) {
    json.open('{')
        .field("name")
        .text(entry.name)
        .field("version")
        .text(kModelVersion)
        .field("state")
        .text(entry.ready ? "READY" : "UNAVAILABLE")
        .field("reason")
        .text(entry.reason)
        .close('}');
  }
  json.close(']');
  return body;
}

std::string statistics(std::span<const ModelStatistics> models) {
  std::string body;
  JsonWriter json(body);
  json.open('{').field("model_stats").open('[');
  for (const ModelStatistics& model : models) {
    json.open('{').field("name").text(model.name).field("version").text(kModelVersion).field("last_inference").number(model.lastInferenceMillis);
    json.field("inference_count").number(model.success.count).field("execution_count").number(model.executions).field("inference_stats").open('{');
    total(json, "success", model.success);
    total(json, "fail", model.fail);
    total(json, "queue", model.queue);
    total(json, "compute_input", {});
    total(json, "compute_infer", model.run);
    total(json, "compute_output", {});
    json.close('}').field("batch_stats").open('[');
    for (const ModelStatistics::Batch& batch : model.batches) {
      json.open('{').field("batch_size").number(batch.requests);
      total(json, "compute_input", {});
      total(json, "compute_infer", batch.run);
      total(json, "compute_output", {});
      json.close('}');
    }
    json.close(']').close('}');
  }
  json.close(']').close('}');
  return body;
}

std::string errorBody(const Error& error, std::string_view limit, std::optional<Millis> retryAfter, std::string_view requestId) {
  std::string body;
  JsonWriter json(body);
  json.open('{').field("error").text(error.message).field("reason").text(error.reason);
  if (!limit.empty()) json.field("limit").text(limit);
  if (retryAfter) json.field("retryAfterMs").number(retryAfter->count());
  if (!requestId.empty()) json.field("requestId").text(requestId);
  json.close('}');
  return body;
}

}  // namespace coterie::oip
