#include "controller/tenants.h"

#include <algorithm>

#include "objects/decode.h"

namespace coterie::controller {

TenantDirectory::TenantDirectory(const std::vector<StoredObject>& objects) {
  std::vector<const StoredObject*> oldestFirst;
  for (const StoredObject& object : objects) oldestFirst.push_back(&object);
  std::sort(oldestFirst.begin(), oldestFirst.end(), [](const StoredObject* a, const StoredObject* b) {
    return a->creationTimeMicros != b->creationTimeMicros ? a->creationTimeMicros < b->creationTimeMicros : a->key.name < b->key.name;
  });
  for (const StoredObject* object : oldestFirst) {
    TenantView view;
    view.name = TenantName(object->key.name);
    std::optional<TenantSpec> spec = objects::decodeTenantSpec(object->spec, view.faults);
    if (spec) {
      for (const std::string& nameSpace : spec->namespaces) {
        const auto [owner, first] = owners_.emplace(nameSpace, view.name);
        if (first) {
          view.spec.namespaces.push_back(nameSpace);
        } else {
          view.conflicts.push_back({nameSpace, owner->second});
        }
      }
      view.spec.weight = spec->weight;
      view.spec.band = spec->band;
      view.spec.sharesBatches = spec->sharesBatches;
      view.spec.quota = spec->quota;
    }
    tenants_.emplace(view.name, std::move(view));
  }
}

const TenantView* TenantDirectory::ownerOf(const std::string& nameSpace) const {
  const auto owner = owners_.find(nameSpace);
  return owner == owners_.end() ? nullptr : &tenants_.at(owner->second);
}

}  // namespace coterie::controller
