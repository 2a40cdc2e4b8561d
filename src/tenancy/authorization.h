// Who may do what: one table of verb x kind x role, asked by the gateway, by the admin API and by `coterie can-i`.
//
// A cell says how far a role reaches: nobody's, what belongs to its tenant, or everything. From it follows the answer:
//   Allowed    the role reaches that far
//   Forbidden  the role never may, whosever the thing is: the answer depends on role and verb alone, so it tells nothing about the thing
//   Hidden     it may with its own, and this is another tenant's, or nobody's: to be answered as if it did not exist, word for word
// Lists, watches and reports of kinds reached as Own are not refused but filtered to what is the tenant's. Whose a thing is, is the caller's to find
// out: a service and all that is told of it belong to the tenant that owns its namespace; at the gateway a model is also one's own where the service
// is open to the tenant (spec.consumers). Errors: PermissionDenied/RoleForbids from refusal(). O(1). Pure. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/role.h"

namespace coterie::tenancy {

enum class Verb : std::uint8_t { Get, List, Watch, Create, Update, Report, Delete, Infer, Rotate, Revoke };
inline constexpr std::array kAllVerbs{Verb::Get,    Verb::List,   Verb::Watch, Verb::Create, Verb::Update,
                                      Verb::Report, Verb::Delete, Verb::Infer, Verb::Rotate, Verb::Revoke};

enum class Kind : std::uint8_t {
  Tenant,
  ModelService,
  Key,
  Model,       // a service as the clients of the gateway see it: metadata, readiness, configuration, inference
  Statistics,  // what the tenant's own calls of models were, as the gateway tells it
  Instance,    // workers: process, CPUs, memory
  Explanation,
  Event,
  Log,
  Usage,       // `coterie top`
  Audit,       // the log of who did what, and who was refused
  Limit,       // of requests, with their use: `coterie limits`
  Metrics,     // Prometheus' page
  Controller,  // the dynamic resource controller's switch
  Version,
};
inline constexpr std::array kAllKinds{Kind::Tenant,   Kind::ModelService, Kind::Key,     Kind::Model,      Kind::Statistics,
                                      Kind::Instance, Kind::Explanation,  Kind::Event,   Kind::Log,        Kind::Usage,
                                      Kind::Audit,    Kind::Limit,        Kind::Metrics, Kind::Controller, Kind::Version};

enum class Reach : std::uint8_t {
  Senseless,  // no role: that is not done to things of this kind
  Nothing,
  Own,
  All,
};
enum class Whose : std::uint8_t { Own, Foreign };  // Foreign: another tenant's, or nobody's
enum class Answer : std::uint8_t { Allowed, Forbidden, Hidden };

[[nodiscard]] Reach reach(Role role, Verb verb, Kind kind);
[[nodiscard]] Answer decide(Role role, Verb verb, Kind kind, Whose whose);
// May a caller of this role make keys of the other? Never above its own, and nobody's key is the platform's.
[[nodiscard]] bool mayGrant(Role by, Role granted);

// Why Forbidden, and which role may.
[[nodiscard]] Error refusal(Role role, Verb verb, Kind kind);
// Of the role alone, before it is known whose the thing is: ok where it may with its own, else refusal().
[[nodiscard]] Status permits(Role role, Verb verb, Kind kind);

// "get", "ModelService"; report is a write of an object's status.
[[nodiscard]] std::string_view verbName(Verb verb);
[[nodiscard]] std::string_view kindName(Kind kind);
[[nodiscard]] std::optional<Verb> verbNamed(std::string_view name);
[[nodiscard]] std::optional<Kind> kindNamed(std::string_view name);  // in any case, and in the plural

}  // namespace coterie::tenancy
