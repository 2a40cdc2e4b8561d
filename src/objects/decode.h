// From a tree of values to typed objects: every fault is listed with its path and line.
//
// A whole object is {apiVersion, kind, metadata, spec}. What only the server sets (metadata.uid, resourceVersion, generation, creationTimestamp,
// deletionTimestamp; status) is accepted, so that what `get -o yaml` printed can be applied again; of it only resourceVersion is used (optimistic
// concurrency). A quota or ceiling written as 0 is refused: it would read as "nothing may run" and mean "no limit"; no limit is the field left out.
// Thread-compatible, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/fault.h"
#include "model/objects.h"
#include "model/value.h"

namespace coterie::objects {

using AnySpec = std::variant<TenantSpec, ModelServiceSpec>;

struct AnyObject {
  Metadata metadata;
  AnySpec spec;
  std::optional<std::uint64_t> resourceVersion;  // as written; absent: whatever is stored
  int line{0};
  [[nodiscard]] std::string_view kind() const { return std::holds_alternative<TenantSpec>(spec) ? kTenantKind : kModelServiceKind; }
  // "Tenant audio", "ModelService audio/speech"
  [[nodiscard]] std::string title() const;
};

struct DecodeOptions {
  std::string defaultNamespace;  // for namespaced objects that name none; empty: that is a fault
};

struct Decoded {
  std::vector<AnyObject> objects;  // in the order written; only the sound ones
  Faults faults;                   // not empty: apply nothing
};

// All objects of a text's documents. The same object twice is a fault. A document of kind List is opened (its items are objects).
[[nodiscard]] Decoded decodeDocuments(const std::vector<Value>& documents, const DecodeOptions& options = {});

// Specs alone, as the store keeps them. Faults are appended with paths below `path`; nothing is returned if there is one.
[[nodiscard]] std::optional<TenantSpec> decodeTenantSpec(const Value& spec, Faults& faults, const std::string& path = "spec");
[[nodiscard]] std::optional<ModelServiceSpec> decodeModelServiceSpec(const Value& spec, Faults& faults, const std::string& path = "spec");

}  // namespace coterie::objects
