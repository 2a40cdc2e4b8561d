#include "manifests.h"

#include "model/tensor.h"

namespace coterie::fairness {

std::string tenantText(const std::string& name, int weight) {
  return "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata: {name: " + name + "}\nspec: {namespaces: [" + name +
         "], weight: " + std::to_string(weight) + "}\n---\n";
}

std::string serviceText(const std::string& path, const std::string& model, const std::string& more) {
  const std::size_t slash = path.find('/');
  return "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata: {name: " + path.substr(slash + 1) +
         ", namespace: " + path.substr(0, slash) + "}\nspec: {model: {uri: 'file:" + model + ".onnx'}, instances: 1" + more + "}\n---\n";
}

std::string request(const std::string& model, const std::string& key, int rows, const std::string& headers, int columns) {
  const Shape shape{rows, columns};
  const auto bytes = static_cast<std::size_t>(*tensorBytes(ElementType::Fp32, shape));
  const std::string json = R"({"inputs":[{"name":"INPUT0","shape":)" + shapeText(shape) + R"(,"datatype":"FP32","parameters":{"binary_data_size":)" +
                           std::to_string(bytes) + R"(}}],"parameters":{"binary_data_output":true}})";
  return "POST /v2/models/" + model + "/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + key + "\r\n" + headers +
         "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\nContent-Length: " + std::to_string(json.size() + bytes) +
         "\r\n\r\n" + json + std::string(bytes, '\0');
}

double solo(testing::HttpLoad& load, const BenchServer& server, const std::string& text) {
  static_cast<void>(load.begin({server.port(), 1, Seconds(2), 0, text, false, {}}));
  return static_cast<double>(load.finish()->latency.quantile(.5)) / 1e9;
}

double linkSeconds(testing::HttpLoad& load) {
  constexpr int kLinks = 60;
  BenchServer server({"a/slow_x60"});
  server.start();
  server.apply(tenantText("a") + serviceText("a/m", "slow_x60"));
  server.waitReady("a/m");
  return solo(load, server, request("m", server.key("a"), 1)) / kLinks;
}

}  // namespace coterie::fairness
