#include "serve/apply_manifests.h"

#include <utility>
#include <variant>

#include "admin/audited.h"
#include "objects/encode.h"

namespace coterie::serve {

namespace {
Status applyOne(const objects::AnyObject& object, ObjectStore& store, const admin::MachineFacts& facts, audit::Trail& trail) {
  StoredObject wanted;
  wanted.key = {std::string(object.kind()), object.metadata.nameSpace, object.metadata.name};
  wanted.labels = objects::encodeLabels(object.metadata.labels);
  wanted.spec = std::visit([](const auto& spec) { return objects::encodeSpec(spec); }, object.spec);
  const auto present = store.get(wanted.key);
  if (!present && present.error().code != Code::NotFound) return present.error();
  if (present && present->spec == wanted.spec && present->labels == wanted.labels) return {};
  if (const Status admitted = admin::admit(object, store, facts); !admitted) return admitted;
  if (present) wanted.resourceVersion = present->resourceVersion;
  auto begun = trail.begin(admin::changeOf(present ? tenancy::Verb::Update : tenancy::Verb::Create, wanted.key,
                                           present ? admin::writtenOf(*present) : Value(), admin::writtenOf(wanted), store));
  if (!begun) return begun.error();
  const auto written = present ? store.update(std::move(wanted)) : store.create(std::move(wanted));
  const Status ended = written ? Status{} : Status(written.error());
  trail.end(std::move(*begun), ended);
  return ended;
}
}  // namespace

Status applyObjects(const std::vector<objects::AnyObject>& objects, ObjectStore& store, const admin::MachineFacts& facts, audit::Trail& trail) {
  for (const auto& object : objects) {
    if (const Status applied = applyOne(object, store, facts, trail); !applied) {
      Error error = applied.error();
      error.message = object.title() + ": " + error.message;
      return error;
    }
  }
  return {};
}

}  // namespace coterie::serve
