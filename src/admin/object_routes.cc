// The admin API's routes for objects: see admin_handler.h.
#include <string>
#include <utility>

#include "admin/admin_handler.h"
#include "admin/admission.h"
#include "admin/answers.h"
#include "admin/audited.h"
#include "admin/object_json.h"
#include "model/objects.h"
#include "objects/encode.h"

namespace coterie::admin {

// tenants[/NAME[/status]] | modelservices | namespaces/NS/modelservices[/NAME[/status]]
struct AdminHandler::Target {
  std::string kind;
  std::optional<std::string> nameSpace;  // absent: all namespaces
  std::string name;                      // empty: the collection
  bool status{false};

  [[nodiscard]] ObjectKey key() const { return {kind, nameSpace.value_or(""), name}; }

  static std::optional<Target> parse(const Segments& path) {
    Target target;
    std::size_t at = 0;
    if (path.size() >= 3 && path[0] == "namespaces") {
      target.nameSpace = path[1];
      at = 2;
    }
    const std::string& collection = path[at++];
    if (collection == "tenants" && !target.nameSpace) {
      target.kind = kTenantKind;
      target.nameSpace = "";
    } else if (collection == "modelservices") {
      target.kind = kModelServiceKind;
      // Without a namespace there is only the list of all.
      if (!target.nameSpace && at < path.size()) return std::nullopt;
    } else {
      return std::nullopt;
    }
    if (at < path.size()) target.name = path[at++];
    if (at < path.size() && path[at] == "status") {
      target.status = true;
      ++at;
    }
    if (at != path.size()) return std::nullopt;
    return target;
  }
};

namespace {
// What a request wants to do; none: nothing that is served.
std::optional<tenancy::Verb> verbOf(const http::RequestContext& request, bool collection, bool status) {
  using tenancy::Verb;
  if (isGet(request)) return !collection ? Verb::Get : isSet(request, "watch") ? Verb::Watch : Verb::List;
  switch (request.head().method) {
    case http::Method::Post: return collection ? std::optional(Verb::Create) : std::nullopt;
    case http::Method::Put: return collection ? std::nullopt : std::optional(status ? Verb::Report : Verb::Update);
    case http::Method::Patch: return collection || status ? std::nullopt : std::optional(Verb::Update);
    case http::Method::Delete: return collection || status ? std::nullopt : std::optional(Verb::Delete);
    default: return std::nullopt;
  }
}

// A namespace that is not the tenant's, whether there is one or not.
Error namespaceNotFound(const std::string& nameSpace, const TenantName& tenant) {
  return {Code::NotFound, "UnknownNamespace",
          "tenant " + tenant.value + " has no namespace " + nameSpace + "; `coterie get tenants` shows those that it has"};
}
}  // namespace

// Every right is asked for here; what comes after does what was asked.
void AdminHandler::objects(const Request& request, const Caller& caller, const Segments& path, const std::string& body) {
  using tenancy::Verb;
  const auto target = Target::parse(path);
  if (!target) return answer(*request, noSuchPath(*request));
  const auto verb = verbOf(*request, target->name.empty(), target->status);
  if (!verb || (*verb == Verb::Create && !target->nameSpace)) return answer(*request, noSuchPath(*request));
  const auto kind = target->kind == kTenantKind ? tenancy::Kind::Tenant : tenancy::Kind::ModelService;
  if (!allowed(request, caller, *verb, kind, objectText(target->key()))) return;
  if (*verb == Verb::List) return list(request, caller, *target);
  if (*verb == Verb::Watch) return watch(request, caller, *target);
  if (const Sight sight(caller.tenant(), store_); !sight.everything()) {
    if (*verb == Verb::Create && !sight.nameSpace(*target->nameSpace))
      return answer(*request, namespaceNotFound(*target->nameSpace, *caller.tenant()));
    if (*verb != Verb::Create && !sight.object(target->key())) return answer(*request, objectNotFound(target->key()));
  }
  switch (*verb) {
    case Verb::Create: return create(request, caller, *target, body);
    case Verb::Report: return status(request, caller, *target, body);
    case Verb::Delete: return remove(request, caller, *target);
    case Verb::Update:
      return request->head().method == http::Method::Put ? replace(request, caller, *target, body) : patch(request, caller, *target, body);
    default: break;
  }
  const auto object = store_.get(target->key());
  return object.ok() ? answer(*request, objectToValue(*object)) : answer(*request, object.error());
}

void AdminHandler::list(const Request& request, const Caller& caller, const Target& target) {
  auto found = store_.list(target.kind, target.nameSpace);
  if (!found.ok()) return answer(*request, found.error());
  const Sight sight(caller.tenant(), store_);
  std::erase_if(found->objects, [&](const StoredObject& object) { return !sight.object(object.key); });
  answer(*request, listToValue(target.kind, *found));
}

void AdminHandler::watch(const Request& request, const Caller& caller, const Target& target) {
  const auto since = numberParameter(*request, "resourceVersion");
  std::string first;
  std::uint64_t version = since.value_or(0);
  if (version == 0) {
    const auto found = store_.list(target.kind, target.nameSpace);
    if (!found.ok()) return answer(*request, found.error());
    version = found->resourceVersion;
    const Sight sight(caller.tenant(), store_);
    for (const StoredObject& object : found->objects) {
      if (sight.object(object.key)) first += text::printJson(changeToValue({ChangeType::Added, object})) + "\n";
    }
  }
  // The stream exists only once the store has accepted the watch, so that its refusal is still an ordinary answer.
  const auto stream = std::make_shared<std::shared_ptr<Streams::Stream>>();
  auto watched = store_.watch(target.kind, version, [this, stream, nameSpace = target.nameSpace, tenant = caller.tenant()](const Change& change) {
    if (!*stream || (nameSpace && change.object.key.nameSpace != *nameSpace)) return;
    // Seen now: a tenant's namespaces may change while somebody watches.
    if (Sight(tenant, store_).object(change.object.key)) streams_.push(*stream, text::printJson(changeToValue(change)) + "\n");
  });
  if (!watched.ok()) return answer(*request, watched.error());
  const auto opened = streams_.open(request, validity(caller));
  streams_.push(opened, first);
  if (!opened->open) return;
  *stream = opened;
  // Taken back when the stream ends: source -> watch -> callback -> stream would keep itself alive.
  opened->source = std::shared_ptr<Watch>(std::move(*watched));
}

Result<objects::AnyObject> AdminHandler::decode(const Value& value, const Target& target, Faults& faults) const {
  auto decoded = coterie::objects::decodeDocuments({value}, {target.nameSpace.value_or("")});
  faults = std::move(decoded.faults);
  if (!faults.empty()) return Error{Code::InvalidArgument, "InvalidObject", "the object has faults"};
  const auto wrong = [](const std::string& what) { return Error{Code::InvalidArgument, "WrongObject", what}; };
  if (decoded.objects.size() != 1) return wrong("send exactly one object");
  auto& object = decoded.objects.front();
  if (object.kind() != target.kind) return wrong("the object's kind is " + std::string(object.kind()) + ", the path's " + target.kind);
  if (object.metadata.nameSpace != target.nameSpace.value_or(""))
    return wrong("the object's namespace is " + object.metadata.nameSpace + ", the path's " + target.nameSpace.value_or(""));
  if (!target.name.empty() && object.metadata.name != target.name)
    return wrong("the object's name is " + object.metadata.name + ", the path's " + target.name);
  return std::move(object);
}

namespace {
Value specOf(const objects::AnyObject& object) {
  return std::visit([](const auto& spec) { return objects::encodeSpec(spec); }, object.spec);
}

bool dryRun(const http::RequestContext& request) { return http::queryParameter(request.head().query, "dryRun") == "All"; }

Error versionConflict(std::uint64_t wanted, const StoredObject& stored) {
  return {Code::Conflict, "ResourceVersionConflict",
          "the object was changed meanwhile (resourceVersion is " + std::to_string(stored.resourceVersion) + ", not " + std::to_string(wanted) +
              "); get it again and repeat the change"};
}
}  // namespace

void AdminHandler::create(const Request& request, const Caller& caller, const Target& target, const std::string& body) {
  const auto value = text::parseJson(body);
  if (!value.ok()) return answer(*request, value.error());
  Faults faults;
  auto object = decode(*value, target, faults);
  if (!faults.empty()) return answerFaults(*request, faults);
  if (!object.ok()) return answer(*request, object.error());
  StoredObject wanted;
  wanted.key = {target.kind, object->metadata.nameSpace, object->metadata.name};
  wanted.labels = coterie::objects::encodeLabels(object->metadata.labels);
  wanted.spec = specOf(*object);
  if (store_.get(wanted.key).ok()) {
    return answer(*request, Error{Code::Conflict, "AlreadyExists", object->title() + " exists already; change it with: coterie apply -f FILE"});
  }
  const Status admitted = admit(*object, store_, machineFacts(backend_));
  if (!admitted.ok()) return answer(*request, admitted.error());
  if (dryRun(*request)) return answer(*request, objectToValue(wanted), 201);
  auto begun = begin(caller, changeOf(tenancy::Verb::Create, wanted.key, Value(), writtenOf(wanted), store_));
  if (!begun.ok()) return answer(*request, begun.error());
  const auto created = store_.create(std::move(wanted));
  trail_.end(std::move(*begun), created.ok() ? Status() : Status(created.error()));
  return created.ok() ? answer(*request, objectToValue(*created), 201) : answer(*request, created.error());
}

void AdminHandler::replace(const Request& request, const Caller& caller, const Target& target, const std::string& body) {
  const auto value = text::parseJson(body);
  if (!value.ok()) return answer(*request, value.error());
  const auto old = store_.get(target.key());
  if (!old.ok()) return answer(*request, old.error());
  write(request, caller, target, *old, *value);
}

void AdminHandler::patch(const Request& request, const Caller& caller, const Target& target, const std::string& body) {
  const auto change = text::parseJson(body);
  if (!change.ok()) return answer(*request, change.error());
  const auto old = store_.get(target.key());
  if (!old.ok()) return answer(*request, old.error());
  Value wanted = objectToValue(*old);
  // Only a version that the patch itself names is a condition.
  wanted.find("metadata")->erase("resourceVersion");
  mergePatch(wanted, *change);
  write(request, caller, target, *old, wanted);
}

void AdminHandler::write(const Request& request, const Caller& caller, const Target& target, const StoredObject& old, const Value& wanted) {
  Faults faults;
  const auto object = decode(wanted, target, faults);
  if (!faults.empty()) return answerFaults(*request, faults);
  if (!object.ok()) return answer(*request, object.error());
  if (object->resourceVersion && *object->resourceVersion != old.resourceVersion)
    return answer(*request, versionConflict(*object->resourceVersion, old));
  const Status admitted = admit(*object, store_, machineFacts(backend_));
  if (!admitted.ok()) return answer(*request, admitted.error());
  StoredObject changed = old;
  changed.labels = coterie::objects::encodeLabels(object->metadata.labels);
  changed.spec = specOf(*object);
  if (dryRun(*request)) return answer(*request, objectToValue(changed));
  auto begun = begin(caller, changeOf(tenancy::Verb::Update, old.key, writtenOf(old), writtenOf(changed), store_));
  if (!begun.ok()) return answer(*request, begun.error());
  const auto updated = store_.update(std::move(changed));
  trail_.end(std::move(*begun), updated.ok() ? Status() : Status(updated.error()));
  return updated.ok() ? answer(*request, objectToValue(*updated)) : answer(*request, updated.error());
}

void AdminHandler::remove(const Request& request, const Caller& caller, const Target& target) {
  const auto old = store_.get(target.key());
  if (!old.ok()) return answer(*request, old.error());
  const std::uint64_t version = numberParameter(*request, "resourceVersion").value_or(0);
  if (version != 0 && version != old->resourceVersion) return answer(*request, versionConflict(version, *old));
  const Status admitted = admitRemoval(target.key(), store_);
  if (!admitted.ok()) return answer(*request, admitted.error());
  if (!dryRun(*request)) {
    auto begun = begin(caller, changeOf(tenancy::Verb::Delete, old->key, writtenOf(*old), Value(), store_));
    if (!begun.ok()) return answer(*request, begun.error());
    // Keys first: if the server dies in between, the tenant is still there and can be deleted again; the other way round its keys would outlive it.
    Status removed = target.kind == kTenantKind ? backend_.revokeAllKeys(TenantName(target.name)) : Status();
    if (removed.ok()) removed = store_.remove(target.key(), version);
    trail_.end(std::move(*begun), removed);
    if (!removed.ok()) return answer(*request, removed.error());
  }
  answer(*request, objectToValue(*old));
}

void AdminHandler::status(const Request& request, const Caller& caller, const Target& target, const std::string& body) {
  const auto value = text::parseJson(body);
  if (!value.ok()) return answer(*request, value.error());
  const Value* wanted = value->find("status");
  if (wanted == nullptr || wanted->asMap() == nullptr)
    return answer(*request, Error{Code::InvalidArgument, "InvalidObject", "status is missing or no map"});
  auto object = store_.get(target.key());
  if (!object.ok()) return answer(*request, object.error());
  auto begun = begin(caller, changeOf(tenancy::Verb::Report, object->key, object->status, *wanted, store_));
  if (!begun.ok()) return answer(*request, begun.error());
  object->status = *wanted;
  const auto updated = store_.updateStatus(std::move(*object));
  trail_.end(std::move(*begun), updated.ok() ? Status() : Status(updated.error()));
  return updated.ok() ? answer(*request, objectToValue(*updated)) : answer(*request, updated.error());
}

}  // namespace coterie::admin
