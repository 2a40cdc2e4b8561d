#include "tenancy/authorization.h"

#include <algorithm>
#include <cstddef>

namespace coterie::tenancy {

namespace {

constexpr Reach O = Reach::Own;
constexpr Reach A = Reach::All;
constexpr Reach N = Reach::Nothing;

struct Row {
  Kind kind;
  Verb verb;
  std::array<Reach, kAllRoles.size()> reach;  // observe, infer, tenant-admin, platform-admin
};

// What is not here is senseless. docs/security.md shows the same table, and a test compares them.
constexpr std::array kTable{
    Row{Kind::Tenant, Verb::Get, {O, N, O, A}},
    Row{Kind::Tenant, Verb::List, {O, N, O, A}},
    Row{Kind::Tenant, Verb::Watch, {O, N, O, A}},
    Row{Kind::Tenant, Verb::Create, {N, N, N, A}},
    Row{Kind::Tenant, Verb::Update, {N, N, N, A}},  // its quota, weight and namespaces are what it is held to
    Row{Kind::Tenant, Verb::Report, {N, N, N, A}},
    Row{Kind::Tenant, Verb::Delete, {N, N, N, A}},
    Row{Kind::ModelService, Verb::Get, {O, N, O, A}},
    Row{Kind::ModelService, Verb::List, {O, N, O, A}},
    Row{Kind::ModelService, Verb::Watch, {O, N, O, A}},
    Row{Kind::ModelService, Verb::Create, {N, N, O, A}},
    Row{Kind::ModelService, Verb::Update, {N, N, O, A}},
    Row{Kind::ModelService, Verb::Report, {N, N, N, A}},
    Row{Kind::ModelService, Verb::Delete, {N, N, O, A}},
    Row{Kind::Key, Verb::List, {N, N, O, A}},
    Row{Kind::Key, Verb::Create, {N, N, O, A}},
    Row{Kind::Key, Verb::Rotate, {N, N, O, A}},
    Row{Kind::Key, Verb::Revoke, {N, N, O, A}},
    // The gateway serves keys, and somebody pays for each inference: the platform's administrator makes a key of the tenant that shall.
    Row{Kind::Model, Verb::Get, {O, O, O, N}},
    Row{Kind::Model, Verb::List, {O, O, O, N}},
    Row{Kind::Model, Verb::Infer, {N, O, O, N}},
    Row{Kind::Statistics, Verb::Get, {O, O, O, N}},
    Row{Kind::Statistics, Verb::List, {O, O, O, N}},
    Row{Kind::Instance, Verb::List, {O, N, O, A}},
    Row{Kind::Explanation, Verb::Get, {O, N, O, A}},
    Row{Kind::Event, Verb::List, {O, N, O, A}},
    Row{Kind::Event, Verb::Watch, {O, N, O, A}},
    Row{Kind::Log, Verb::Get, {O, N, O, A}},
    Row{Kind::Log, Verb::Watch, {O, N, O, A}},
    Row{Kind::Usage, Verb::Get, {O, N, O, A}},
    Row{Kind::Audit, Verb::List, {N, N, O, A}},
    Row{Kind::Limit, Verb::List, {O, N, O, A}},
    Row{Kind::Metrics, Verb::Get, {O, N, O, A}},
    Row{Kind::Controller, Verb::Get, {N, N, N, A}},
    Row{Kind::Controller, Verb::Update, {N, N, N, A}},
    Row{Kind::Version, Verb::Get, {A, A, A, A}},
};

using Cells = std::array<std::array<std::array<Reach, kAllRoles.size()>, kAllVerbs.size()>, kAllKinds.size()>;

constexpr Cells spread() {
  Cells cells{};  // Senseless
  for (const Row& row : kTable) cells[static_cast<std::size_t>(row.kind)][static_cast<std::size_t>(row.verb)] = row.reach;
  return cells;
}
constexpr Cells kCells = spread();

bool equalsIgnoreCase(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

Reach reach(Role role, Verb verb, Kind kind) {
  return kCells[static_cast<std::size_t>(kind)][static_cast<std::size_t>(verb)][static_cast<std::size_t>(role)];
}

Answer decide(Role role, Verb verb, Kind kind, Whose whose) {
  switch (reach(role, verb, kind)) {
    case Reach::All: return Answer::Allowed;
    case Reach::Own: return whose == Whose::Own ? Answer::Allowed : Answer::Hidden;
    case Reach::Nothing:
    case Reach::Senseless: break;
  }
  return Answer::Forbidden;
}

bool mayGrant(Role by, Role granted) {
  if (std::find(kKeyRoles.begin(), kKeyRoles.end(), granted) == kKeyRoles.end()) return false;
  return by == Role::PlatformAdmin || by == Role::TenantAdmin;
}

Status permits(Role role, Verb verb, Kind kind) {
  if (decide(role, verb, kind, Whose::Own) == Answer::Allowed) return {};
  return refusal(role, verb, kind);
}

Error refusal(Role role, Verb verb, Kind kind) {
  std::string able;
  std::string makes;
  for (const Role other : kAllRoles) {
    const Reach reached = reach(other, verb, kind);
    if (reached != Reach::Own && reached != Reach::All) continue;
    able += (able.empty() ? "" : " or ") + std::string(roleName(other));
    if (other != Role::PlatformAdmin && makes.empty())
      makes = "; `coterie key create TENANT --role " + std::string(roleName(other)) + "` makes such a key";
  }
  const std::string what = std::string(verbName(verb)) + " " + std::string(kindName(kind));
  if (able.empty()) return {Code::PermissionDenied, "RoleForbids", what + ": there is no such right; docs/security.md lists them"};
  return {Code::PermissionDenied, "RoleForbids", "role " + std::string(roleName(role)) + " may not " + what + ": needed is role " + able + makes};
}

std::string_view verbName(Verb verb) {
  switch (verb) {
    case Verb::Get: return "get";
    case Verb::List: return "list";
    case Verb::Watch: return "watch";
    case Verb::Create: return "create";
    case Verb::Update: return "update";
    case Verb::Report: return "report";
    case Verb::Delete: return "delete";
    case Verb::Infer: return "infer";
    case Verb::Rotate: return "rotate";
    case Verb::Revoke: return "revoke";
  }
  return {};
}

std::string_view kindName(Kind kind) {
  switch (kind) {
    case Kind::Tenant: return "Tenant";
    case Kind::ModelService: return "ModelService";
    case Kind::Key: return "Key";
    case Kind::Model: return "Model";
    case Kind::Statistics: return "Statistics";
    case Kind::Instance: return "Instance";
    case Kind::Explanation: return "Explanation";
    case Kind::Event: return "Event";
    case Kind::Log: return "Log";
    case Kind::Usage: return "Usage";
    case Kind::Audit: return "Audit";
    case Kind::Limit: return "Limit";
    case Kind::Metrics: return "Metrics";
    case Kind::Controller: return "Controller";
    case Kind::Version: return "Version";
  }
  return {};
}

std::optional<Verb> verbNamed(std::string_view name) {
  for (const Verb verb : kAllVerbs) {
    if (verbName(verb) == name) return verb;
  }
  return std::nullopt;
}

std::optional<Kind> kindNamed(std::string_view name) {
  for (const Kind kind : kAllKinds) {
    if (equalsIgnoreCase(name, kindName(kind)) || equalsIgnoreCase(name, std::string(kindName(kind)) + "s")) return kind;
  }
  return std::nullopt;
}

}  // namespace coterie::tenancy
