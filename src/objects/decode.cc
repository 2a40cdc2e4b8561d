#include "objects/decode.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "objects/fields.h"
#include "objects/names.h"

namespace coterie::objects {

namespace {
constexpr std::size_t kMostLabels = 64;

void decodeLabels(Fields& metadata, Metadata& into) {
  const Fields labels = metadata.map("labels");
  if (!labels.present()) return;
  if (labels.members()->size() > kMostLabels) return metadata.fault("labels", "at most " + std::to_string(kMostLabels) + " labels");
  for (const auto& [key, value] : *labels.members()) {
    const std::string path = labels.pathOf(key.substr(0, 100));
    const std::string* text = value.asString();
    if (const auto fault = labelKeyFault(key)) metadata.faultAt(path, value.line, "the label's key " + *fault);
    if (text == nullptr) {
      metadata.faultAt(path, value.line, "wanted text, found " + std::string(value.typeName()) + ": quote it");
    } else if (const auto fault = labelValueFault(*text)) {
      metadata.faultAt(path, value.line, "the label's value " + *fault);
    } else {
      into.labels.emplace_back(key, *text);
    }
  }
  std::sort(into.labels.begin(), into.labels.end());
}

// A resourceVersion is opaque text to clients; ours is a number.
std::optional<std::uint64_t> decodeVersion(Fields& metadata) {
  const std::optional<std::string> text = metadata.text("resourceVersion");
  if (!text) return std::nullopt;
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), version);
  if (error == std::errc{} && end == text->data() + text->size() && version > 0) return version;
  metadata.fault("resourceVersion", "is none that this store gave");
  return std::nullopt;
}

enum class Scope : std::uint8_t { Cluster, Namespaced };

void decodeMetadata(Fields& object, Scope scope, const DecodeOptions& options, AnyObject& into) {
  Fields metadata = object.map("metadata");
  if (!metadata.present()) {
    if (object.find("metadata") == nullptr) object.fault("metadata", "missing: metadata.name names the object");
    return;
  }
  if (metadata.require("name", "the object's name") != nullptr) {
    if (const std::optional<std::string> name = metadata.text("name")) {
      if (const auto fault = labelNameFault(*name)) metadata.fault("name", "the name " + *fault);
      into.metadata.name = *name;
    }
  }
  const std::optional<std::string> nameSpace = metadata.text("namespace");
  if (scope == Scope::Cluster) {
    if (nameSpace) metadata.fault("namespace", "a Tenant stands above namespaces: leave this out (it lists its own in spec.namespaces)");
  } else if (nameSpace || !options.defaultNamespace.empty()) {
    into.metadata.nameSpace = nameSpace.value_or(options.defaultNamespace);
    if (const auto fault = labelNameFault(into.metadata.nameSpace)) metadata.fault("namespace", "the namespace " + *fault);
  } else if (metadata.find("namespace") == nullptr) {
    metadata.fault("namespace", "missing: one of the tenant's namespaces");
  }
  decodeLabels(metadata, into.metadata);
  into.resourceVersion = decodeVersion(metadata);
  for (const std::string_view serverSet : {"uid", "generation", "creationTimestamp", "deletionTimestamp"}) (void)metadata.find(serverSet);
  metadata.finish();
}

std::optional<AnyObject> decodeObject(const Value& document, const std::string& path, const DecodeOptions& options, Faults& faults) {
  const std::size_t before = faults.size();
  if (document.asMap() == nullptr) {
    faults.push_back({path, document.line, "wanted an object with apiVersion, kind, metadata and spec, found " + std::string(document.typeName())});
    return std::nullopt;
  }
  Fields object(&document, path, 0, faults);
  AnyObject decoded;
  decoded.line = document.line;
  if (object.require("apiVersion", std::string("write apiVersion: ") + std::string(kApiVersion)) != nullptr) {
    const std::optional<std::string> version = object.text("apiVersion");
    if (version && *version != kApiVersion)
      object.fault("apiVersion", "unknown version \"" + version->substr(0, 60) + "\"; wanted " + std::string(kApiVersion));
  }
  std::optional<std::string> kind;
  if (object.require("kind", "Tenant or ModelService") != nullptr) kind = object.text("kind");
  if (!kind) return std::nullopt;
  if (*kind != kTenantKind && *kind != kModelServiceKind) {
    const std::optional<std::string> near = nearest(*kind, {kTenantKind, kModelServiceKind});
    object.fault("kind",
                 "unknown kind \"" + kind->substr(0, 60) + "\"; " + (near ? "did you mean " + *near + "?" : "known are Tenant and ModelService"));
    return std::nullopt;
  }
  const bool isTenant = *kind == kTenantKind;
  decodeMetadata(object, isTenant ? Scope::Cluster : Scope::Namespaced, options, decoded);
  (void)object.find("status");
  if (const Value* spec = object.require("spec", isTenant ? "what the tenant owns and may use" : "the model and its objective")) {
    if (isTenant) {
      if (auto tenant = decodeTenantSpec(*spec, faults, object.pathOf("spec"))) decoded.spec = std::move(*tenant);
    } else if (auto service = decodeModelServiceSpec(*spec, faults, object.pathOf("spec"))) {
      decoded.spec = std::move(*service);
    }
  }
  object.finish();
  if (faults.size() > before) return std::nullopt;
  return decoded;
}
}  // namespace

std::string AnyObject::title() const {
  const std::string prefix = metadata.nameSpace.empty() ? "" : metadata.nameSpace + "/";
  return std::string(kind()) + " " + prefix + metadata.name;
}

Decoded decodeDocuments(const std::vector<Value>& documents, const DecodeOptions& options) {
  constexpr std::size_t kMostFaults = 500;
  Decoded decoded;
  std::set<std::string> seen;
  const auto add = [&](const Value& value, const std::string& path) {
    std::optional<AnyObject> object = decodeObject(value, path, options, decoded.faults);
    if (!object) return;
    if (!seen.insert(object->title()).second) {
      decoded.faults.push_back({path.empty() ? "metadata.name" : path + ".metadata.name", object->line, object->title() + " is there twice"});
      return;
    }
    decoded.objects.push_back(std::move(*object));
  };
  for (const Value& document : documents) {
    const Value* kind = document.find("kind");
    const Value* items = document.find("items");
    const bool isList =
        kind != nullptr && kind->asString() != nullptr && *kind->asString() == "List" && items != nullptr && items->asList() != nullptr;
    if (!isList) {
      add(document, "");
    } else {
      for (std::size_t i = 0; i < items->asList()->size() && decoded.faults.size() <= kMostFaults; ++i)
        add((*items->asList())[i], "items[" + std::to_string(i) + "]");
    }
    if (decoded.faults.size() > kMostFaults) {
      decoded.faults.resize(kMostFaults);
      decoded.faults.push_back({"", document.line, "too many faults; the rest is not listed"});
      break;
    }
  }
  return decoded;
}

}  // namespace coterie::objects
