#include "cli/references.h"

#include <algorithm>
#include <array>
#include <vector>

#include "admin/reports.h"
#include "model/objects.h"
#include "objects/names.h"

namespace coterie::cli {

using admin::textAt;

Result<std::string> kindOf(std::string_view type) {
  static constexpr std::array<std::string_view, 3> kTenant{"tenant", "tenants", "t"};
  static constexpr std::array<std::string_view, 5> kService{"modelservice", "modelservices", "service", "services", "ms"};
  std::string lower(type);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (std::find(kTenant.begin(), kTenant.end(), lower) != kTenant.end()) return std::string(kTenantKind);
  if (std::find(kService.begin(), kService.end(), lower) != kService.end()) return std::string(kModelServiceKind);
  const auto near = objects::nearest(lower, {"tenant", "tenants", "modelservice", "modelservices", "service", "services"});
  return Error{Code::InvalidArgument, "UnknownType",
               "there is no type " + std::string(type) + (near ? "; did you mean " + *near + "?" : "; types are tenants and modelservices")};
}

std::string metadataText(const Value& object, std::string_view key) {
  const Value* metadata = object.find("metadata");
  return metadata == nullptr ? std::string() : textAt(*metadata, key);
}

std::string shortName(const Value& object) {
  const std::string nameSpace = metadataText(object, "namespace");
  const std::string type = textAt(object, "kind") == kTenantKind ? "tenant/" : "modelservice/";
  return type + (nameSpace.empty() ? "" : nameSpace + "/") + metadataText(object, "name");
}

std::string collectionPath(std::string_view kind, const std::optional<std::string>& nameSpace) {
  const std::string api = "/apis/" + std::string(kApiVersion) + "/";
  if (kind == kTenantKind) return api + "tenants";
  return nameSpace ? api + "namespaces/" + percentEncode(*nameSpace) + "/modelservices" : api + "modelservices";
}

std::string objectPath(std::string_view kind, const std::string& nameSpace, const std::string& name) {
  return collectionPath(kind, nameSpace) + "/" + percentEncode(name);
}
std::string objectPath(const Value& object) {
  return objectPath(textAt(object, "kind"), metadataText(object, "namespace"), metadataText(object, "name"));
}

Result<Reference> parseReference(std::string_view text, std::string_view defaultKind, const std::optional<std::string>& nameSpace) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const bool hollow = std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return part.empty(); });
  if (hollow || parts.size() > 3)
    return Error{Code::InvalidArgument, "BadName", "'" + std::string(text) + "' is no name; write NAME, NAMESPACE/NAME or TYPE/NAME"};
  Reference reference{std::string(defaultKind), nameSpace, parts.back()};
  const auto type = parts.size() >= 2 ? kindOf(parts[0]) : Result<std::string>(std::string(defaultKind));
  if (parts.size() == 3) {
    if (!type.ok()) return type.error();
    reference.kind = *type;
    reference.nameSpace = parts[1];
  } else if (parts.size() == 2) {
    // tenant/audio names a tenant; audio/speech a service.
    if (type.ok())
      reference.kind = *type;
    else
      reference.nameSpace = parts[0];
  }
  if (reference.kind == kTenantKind) reference.nameSpace.reset();
  return reference;
}

Result<Value> fetch(Context& context, const Reference& reference) {
  if (reference.kind == kTenantKind || reference.nameSpace) {
    auto found = context.server().get(objectPath(reference.kind, reference.nameSpace.value_or(""), reference.name));
    if (found.ok() || found.error().code != Code::NotFound) return found;
  }
  const auto list = context.server().get(collectionPath(reference.kind, reference.nameSpace));
  if (!list.ok()) return list.error();
  std::vector<const Value*> matches;
  std::vector<std::string> names;
  for (const Value& item : *list->find("items")->asList()) {
    names.push_back(metadataText(item, "name"));
    if (names.back() == reference.name) matches.push_back(&item);
  }
  if (matches.size() == 1) return *matches.front();
  if (matches.size() > 1) {
    std::string all;
    for (const Value* match : matches) all += (all.empty() ? "" : ", ") + metadataText(*match, "namespace") + "/" + reference.name;
    return Error{Code::InvalidArgument, "AmbiguousName", "there are several: " + all + "; add the namespace"};
  }
  const auto near = objects::nearest(reference.name, std::vector<std::string_view>(names.begin(), names.end()));
  const std::string type = reference.kind == kTenantKind ? "tenant " : "service ";
  const std::string where = reference.nameSpace && !reference.nameSpace->empty() ? " in namespace " + *reference.nameSpace : "";
  const std::string advice = near                            ? "; did you mean " + *near + "?"
                             : reference.kind == kTenantKind ? "; coterie get tenants lists them"
                                                             : "; coterie get modelservices lists them";
  return Error{Code::NotFound, "NotFound", "there is no " + type + reference.name + where + advice};
}

std::optional<std::string> namespaceOf(const Context& context, const std::string& option) {
  if (!option.empty()) return option;
  auto fromEnvironment = context.terminal.environment("COTERIE_NAMESPACE");
  if (fromEnvironment && fromEnvironment->empty()) fromEnvironment.reset();
  return fromEnvironment;
}

}  // namespace coterie::cli
