// Any bytes as YAML and as JSON, to typed objects. What decodes must encode, print, parse and decode to the same tree again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "objects/decode.h"
#include "objects/encode.h"
#include "text/text.h"

namespace {
using coterie::Value;
using coterie::objects::AnyObject;

void require(bool holds) {
  if (!holds) std::abort();
}

Value encode(const AnyObject& object) {
  if (const auto* tenant = std::get_if<coterie::TenantSpec>(&object.spec))
    return coterie::objects::encodeObject(coterie::Tenant{object.metadata, *tenant});
  return coterie::objects::encodeObject(coterie::ModelService{object.metadata, std::get<coterie::ModelServiceSpec>(object.spec)});
}

void check(const std::vector<Value>& documents) {
  for (const AnyObject& object : coterie::objects::decodeDocuments(documents).objects) {
    const Value tree = encode(object);
    const coterie::text::Documents again = coterie::text::parseYaml(coterie::text::printYaml(tree));
    require(again.faults.empty() && again.values.size() == 1);
    const coterie::objects::Decoded decoded = coterie::objects::decodeDocuments(again.values);
    require(decoded.faults.empty() && decoded.objects.size() == 1 && encode(decoded.objects[0]) == tree);
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const coterie::text::Documents yaml = coterie::text::parseYaml(text, {.bytes = 1 << 16});
  if (yaml.faults.empty()) check(yaml.values);
  const coterie::Result<Value> json = coterie::text::parseJson(text, {.bytes = 1 << 16});
  if (json.ok()) {
    const coterie::Result<Value> again = coterie::text::parseJson(coterie::text::printJson(*json));
    require(again.ok() && *again == *json);
    check({*json});
  }
  return 0;
}
