// Who owns which namespace: from all Tenant objects to one answer.
//
// A namespace that several tenants claim belongs to the one that was created first (at the same instant: the lesser
// name). The others keep their other namespaces and get a condition. What does not decode owns nothing. O(tenants * namespaces * log). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/fault.h"
#include "model/ids.h"
#include "model/objects.h"
#include "ports/object_store.h"

namespace coterie::controller {

struct NamespaceConflict {
  std::string nameSpace;
  TenantName owner;
};

struct TenantView {
  TenantName name;
  TenantSpec spec;  // namespaces: those it owns
  std::vector<NamespaceConflict> conflicts;
  Faults faults;  // not empty: the spec does not decode
};

class TenantDirectory {
 public:
  TenantDirectory() = default;
  explicit TenantDirectory(const std::vector<StoredObject>& tenants);

  [[nodiscard]] const std::map<TenantName, TenantView>& tenants() const { return tenants_; }
  // The owner of a namespace, or nullptr.
  [[nodiscard]] const TenantView* ownerOf(const std::string& nameSpace) const;

 private:
  std::map<TenantName, TenantView> tenants_;
  std::map<std::string, TenantName> owners_;
};

}  // namespace coterie::controller
