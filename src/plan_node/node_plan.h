// What the product would do with a machine and groups: the snapshot of them, allocation::decide()'s plan for it, and what the plan changes.
//
// The snapshot is settled: the move bucket is full, nobody moved lately, loans that are not needed may be parked. GroupId and TenantId are the places
// in the file, so that plan.groups[i] is file.groups[i]; whoever stands first came first. A group without loanLanes has per container as many as
// maxCpus, or as there are usable CPUs, as the product's workers have. A container that is not placed yet has the kernel's weight (100); of one that
// runs and does not say its weight, none is planned. Cost: allocation/objective.h's J, of all groups and the pool. O(decide). Deterministic.
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocation/decide.h"
#include "allocation/isolation_terms.h"
#include "allocation/reason_text.h"
#include "allocation/width.h"
#include "plan_node/groups_file.h"

namespace coterie::plan_node {

// As --policy takes them; the product's own first.
[[nodiscard]] const std::vector<std::string>& policyNames();
[[nodiscard]] std::optional<allocation::PolicyName> policyNamed(std::string_view name);
[[nodiscard]] std::string_view policyText(allocation::PolicyName policy);
// Options of policy kubelet-static by kubelet's own names, with commas between them; empty: none. Nothing: one of them is not known.
[[nodiscard]] const std::string& kubeletOptionNames();  // with commas, too
[[nodiscard]] std::optional<allocation::KubeletStaticOptions> kubeletOptions(std::string_view list);

struct PlanRequest {
  allocation::PolicyName policy{allocation::PolicyName::Drc};
  CpuSet reserved;         // for Coterie itself: never in a set
  bool memoryNodes{true};  // false: they are not to be set, and nothing is said of them
  allocation::KubeletStaticOptions kubelet{};
};

// A container that had a home and gets another one.
struct ContainerMove {
  std::size_t group{0};      // index into the groups
  std::size_t container{0};  // index into its containers
  CpuSet from;
  CpuSet to;  // empty: its group is pending
};

// By how many threads a group's requests were best run, on the CPUs that it is to own.
struct WidthProposal {
  allocation::WidthQuestion question;
  allocation::WidthChoice choice;
};

// Refers to the machine and the file, which must outlive it.
struct NodePlan {
  const Machine* machine{nullptr};
  const GroupsFile* file{nullptr};
  PlanRequest request;
  allocation::Snapshot snapshot;  // groups in the file's order
  allocation::Plan plan;
  CpuSet usable;                                     // CPUs that anybody may own
  allocation::IsolationUnits units;                  // of them
  std::int64_t cost{0};                              // J in quarters, of the plan
  std::optional<std::int64_t> costNow;               // of what is held now; nothing if nobody holds a CPU
  std::vector<ContainerMove> moves;                  // by group, then container
  std::vector<std::size_t> pending;                  // groups that wait
  std::vector<std::optional<WidthProposal>> widths;  // of each group; none where the file has no run times, or the group waits
  [[nodiscard]] const TenantEntry& tenantOf(std::size_t group) const { return file->tenants[file->groups[group].tenant]; }
};

[[nodiscard]] NodePlan planNode(const Machine& machine, const GroupsFile& file, const PlanRequest& request);

// "12.25" of 49 quarters.
[[nodiscard]] std::string costText(std::int64_t quarters);
// "NarrowHome"
[[nodiscard]] std::string_view stepName(allocation::StepKind kind);
// Where an instance of the snapshot stands: the group, and its place among the group's containers.
[[nodiscard]] std::size_t containerIndex(const NodePlan& plan, std::size_t group, InstanceId instance);
// "1 group is pending: audio/speech", "(isolation node)" behind one that waits for that; empty if none is.
[[nodiscard]] std::string pendingText(const NodePlan& plan);
// The isolation for which a group waits, because it cannot be had; None: it does not wait, or for something else.
[[nodiscard]] Isolation waitsForIsolation(const NodePlan& plan, std::size_t group);
// "pending", "pending (isolation node)" of a group that waits.
[[nodiscard]] std::string waitText(const NodePlan& plan, std::size_t group);
// What a group's isolation does not keep away; empty: it has none, or it waits. Policies other than drc know no isolation, which is all of it then.
[[nodiscard]] std::vector<std::string> isolationGaps(const NodePlan& plan, std::size_t group);
// The same as a reason of the group; empty as above.
[[nodiscard]] std::string isolationReason(const NodePlan& plan, std::size_t group);
// A reason of a group of the plan as a sentence, with the names of the file.
[[nodiscard]] allocation::ReasonText textOf(const NodePlan& plan, const allocation::Reason& reason);
// "0", or "1 (sidecar)" of one that is no app.
[[nodiscard]] std::string containerText(const NodePlan& plan, std::size_t group, std::size_t container);
// Domains of that level that hold CPUs. A NUMA node over several sockets, which is a domain in each, is one.
[[nodiscard]] int domainCount(const Machine& machine, DomainLevel level);

}  // namespace coterie::plan_node
