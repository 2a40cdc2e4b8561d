#include "admin/can_i.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "http/message.h"
#include "model/objects.h"
#include "objects/decode.h"
#include "tenancy/authorization.h"

namespace coterie::admin {
namespace {

using tenancy::Kind;
using tenancy::Verb;

struct Subject {
  Role role{Role::PlatformAdmin};
  std::optional<TenantName> tenant;  // none: the platform's administrator
};

struct Question {
  Verb verb{Verb::Get};
  Kind kind{Kind::Tenant};
  std::string nameSpace;
  std::string name;  // empty: its own, whatever it is called
  [[nodiscard]] std::string thing() const { return nameSpace.empty() ? name : nameSpace + "/" + name; }
};

template <typename Enum>
std::string namesOf(const Enum& all, std::string_view (*name)(typename Enum::value_type)) {
  std::string out;
  for (const auto one : all) out += (out.empty() ? "" : ", ") + std::string(name(one));
  return out;
}

std::string parameter(std::string_view query, std::string_view name) { return http::queryParameter(query, name).value_or(""); }

Result<Question> questionOf(std::string_view query) {
  const std::string verb = parameter(query, "verb");
  const std::string kind = parameter(query, "kind");
  const auto knownVerb = tenancy::verbNamed(verb);
  if (!knownVerb)
    return Error{Code::InvalidArgument, "UnknownVerb",
                 "verb: there is none named \"" + verb + "\"; verbs are " + namesOf(tenancy::kAllVerbs, tenancy::verbName)};
  const auto knownKind = tenancy::kindNamed(kind);
  if (!knownKind)
    return Error{Code::InvalidArgument, "UnknownKind",
                 "kind: there is none named \"" + kind + "\"; kinds are " + namesOf(tenancy::kAllKinds, tenancy::kindName)};
  return Question{*knownVerb, *knownKind, parameter(query, "namespace"), parameter(query, "name")};
}

Result<Subject> subjectOf(const Caller& caller, std::string_view query, const ObjectStore& store) {
  const std::string tenant = parameter(query, "tenant");
  const std::string role = parameter(query, "role");
  if (tenant.empty() && role.empty()) return Subject{caller.role(), caller.tenant()};
  const auto known = roleNamed(role);
  if (!known || *known == Role::PlatformAdmin)
    return Error{Code::InvalidArgument, "UnknownRole", "role: keys have observe, infer or tenant-admin, not \"" + role + "\""};
  if (tenant.empty()) return Error{Code::InvalidArgument, "BadQuestion", "tenant: a key of role " + role + " is some tenant's; name it"};
  const bool shown = caller.tenant() ? *caller.tenant() == TenantName(tenant) : store.get({std::string(kTenantKind), "", tenant}).ok();
  if (!shown) return tenantNotFound(TenantName(tenant));
  return Subject{*known, TenantName(tenant)};
}

// At the gateway one's own is also what others opened to the tenant.
bool isConsumer(const TenantName& tenant, const ServiceName& service, const ObjectStore& store) {
  const auto object = store.get({std::string(kModelServiceKind), service.nameSpace, service.name});
  if (!object.ok()) return false;
  Faults faults;
  const auto spec = objects::decodeModelServiceSpec(object->spec, faults);
  return spec &&
         std::any_of(spec->consumers.begin(), spec->consumers.end(), [&](const std::string& one) { return one == "*" || one == tenant.value; });
}

bool isOwn(const Subject& subject, const Question& question, const ObjectStore& store, const AdminBackend& backend) {
  if (!subject.tenant) return true;
  const Sight sight(subject.tenant, store);
  if (question.name.empty() && question.nameSpace.empty()) return true;
  switch (question.kind) {
    case Kind::Tenant:
    case Kind::Limit: return sight.tenant(TenantName(question.name));
    case Kind::Key: {
      const auto keys = backend.listKeys(subject.tenant);
      return std::any_of(keys.begin(), keys.end(), [&](const identity::KeyInfo& key) { return key.id == question.name; });
    }
    case Kind::Model:
    case Kind::Statistics: return sight.nameSpace(question.nameSpace) || isConsumer(*subject.tenant, {question.nameSpace, question.name}, store);
    case Kind::ModelService:
    case Kind::Instance:
    case Kind::Explanation:
    case Kind::Event:
    case Kind::Log: return sight.nameSpace(question.nameSpace);
    case Kind::Usage:
    case Kind::Audit:
    case Kind::Metrics:
    case Kind::Controller:
    case Kind::Version: break;  // there is one
  }
  return true;
}

bool hasNamespace(Kind kind) {
  switch (kind) {
    case Kind::Tenant:
    case Kind::Key:
    case Kind::Usage:
    case Kind::Audit:
    case Kind::Limit:
    case Kind::Metrics:
    case Kind::Controller:
    case Kind::Version: return false;
    default: return true;
  }
}

}  // namespace

Result<Verdict> canI(const Caller& caller, std::string_view query, const ObjectStore& store, const AdminBackend& backend) {
  const auto question = questionOf(query);
  if (!question.ok()) return question.error();
  const auto subject = subjectOf(caller, query, store);
  if (!subject.ok()) return subject.error();
  if (hasNamespace(question->kind) && !question->name.empty() && question->nameSpace.empty()) {
    return Error{Code::InvalidArgument, "BadQuestion",
                 "namespace: " + question->name + " is in one; name it (coterie can-i ... NAMESPACE/" + question->name + ")"};
  }
  const std::string what = std::string(tenancy::verbName(question->verb)) + " " + std::string(tenancy::kindName(question->kind));
  const auto whose = isOwn(*subject, *question, store, backend) ? tenancy::Whose::Own : tenancy::Whose::Foreign;
  switch (tenancy::decide(subject->role, question->verb, question->kind, whose)) {
    case tenancy::Answer::Allowed: break;
    case tenancy::Answer::Forbidden: {
      Error refused = tenancy::refusal(subject->role, question->verb, question->kind);
      return Verdict{false, std::move(refused.reason), std::move(refused.message)};
    }
    case tenancy::Answer::Hidden:
      return Verdict{false, "NotItsOwn",
                     what + " " + question->thing() + ": it is not tenant " + subject->tenant->value + "'s, and answers as if it did not exist"};
  }
  const bool all = tenancy::reach(subject->role, question->verb, question->kind) == tenancy::Reach::All;
  return Verdict{true, "RoleAllows",
                 "role " + std::string(roleName(subject->role)) + " may " + what +
                     (!question->thing().empty() ? " " + question->thing()
                      : all                      ? ""
                                                 : " of its own tenant")};
}

}  // namespace coterie::admin
