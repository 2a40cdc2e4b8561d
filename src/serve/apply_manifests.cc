#include "serve/apply_manifests.h"

#include <variant>

#include "objects/encode.h"

namespace coterie::serve {

namespace {
Status applyOne(const objects::AnyObject& object, ObjectStore& store, const admin::MachineFacts& facts) {
  StoredObject wanted;
  wanted.key = {std::string(object.kind()), object.metadata.nameSpace, object.metadata.name};
  wanted.labels = objects::encodeLabels(object.metadata.labels);
  wanted.spec = std::visit([](const auto& spec) { return objects::encodeSpec(spec); }, object.spec);
  const auto present = store.get(wanted.key);
  if (!present && present.error().code != Code::NotFound) return present.error();
  if (present && present->spec == wanted.spec && present->labels == wanted.labels) return {};
  if (const Status admitted = admin::admit(object, store, facts); !admitted) return admitted;
  if (present) wanted.resourceVersion = present->resourceVersion;
  const auto written = present ? store.update(std::move(wanted)) : store.create(std::move(wanted));
  return written ? Status{} : Status(written.error());
}
}  // namespace

Status applyObjects(const std::vector<objects::AnyObject>& objects, ObjectStore& store, const admin::MachineFacts& facts) {
  for (const auto& object : objects) {
    if (const Status applied = applyOne(object, store, facts); !applied) {
      Error error = applied.error();
      error.message = object.title() + ": " + error.message;
      return error;
    }
  }
  return {};
}

}  // namespace coterie::serve
