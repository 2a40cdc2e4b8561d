// How people name objects on the command line, and how such a name becomes an object of the server.
//
//   types       tenant, tenants, t | modelservice, modelservices, service, services, ms
//   names       NAME, NAMESPACE/NAME, TYPE/NAME, TYPE/NAMESPACE/NAME
// A service without a namespace (none given, none in $COTERIE_NAMESPACE) is looked for in all; two of that name are an error that lists them.
// Errors: InvalidArgument/UnknownType, InvalidArgument/AmbiguousName, NotFound (names the nearest name), and those of the link. Thread-compatible.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/context.h"
#include "model/objects.h"
#include "model/value.h"

namespace coterie::cli {

struct Reference {
  std::string kind;                      // kTenantKind or kModelServiceKind
  std::optional<std::string> nameSpace;  // of a service, if given
  std::string name;
};

[[nodiscard]] Result<std::string> kindOf(std::string_view type);
// "tenant/audio", "modelservice/audio/speech"
[[nodiscard]] std::string shortName(const Value& object);
[[nodiscard]] std::string collectionPath(std::string_view kind, const std::optional<std::string>& nameSpace);
[[nodiscard]] std::string objectPath(std::string_view kind, const std::string& nameSpace, const std::string& name);
[[nodiscard]] std::string objectPath(const Value& object);
// defaultKind: of a name without a type.
[[nodiscard]] Result<Reference> parseReference(std::string_view text, std::string_view defaultKind, const std::optional<std::string>& nameSpace);
// The object as the server has it.
[[nodiscard]] Result<Value> fetch(Context& context, const Reference& reference);
// --namespace, else $COTERIE_NAMESPACE, else none.
[[nodiscard]] std::optional<std::string> namespaceOf(const Context& context, const std::string& option);

// metadata.name and the like
[[nodiscard]] std::string metadataText(const Value& object, std::string_view key);

}  // namespace coterie::cli
