// In-node scheduling: which part of the machine every container of every group owns.
//
// decide() maps a snapshot (machine, groups with demand, what everyone holds now, the time) to a plan (ordered steps from what is held to what shall
// be held) with reasons. Two layers: HOMES come from entitlements (weighted max-min fairness with floors and ceilings) and change only on membership,
// spec or machine events; LOANS come from demand and never move a home. Groups entitled to less than a CPU share the POOL. A tenant's cap ends what
// its groups own (homes by capacity, pool shares by entitlement); idle time that they borrow is not counted. See docs in each file: sizing.h (how
// much), roles.h (what inits, sidecars and pauses add), selection.h (group resource selection: which CPUs), assignment.h (container resource
// assignment), memory_fit.h (memory nodes), loans.h, plan_steps.h (order of steps). Guarantees: hard rules H1-H7 (below) hold after every step of
// every plan; decide(apply(decide(s))) is empty when nothing changed and the bucket is full; permuting the groups changes nothing. Complexity: O(n
// log n + n*g/64 + moves*n) for n CPUs and g groups; who asks again and again uses planner.h, which keeps what load does not change. Decisions in
// integers. Pure: no clock, no I/O, no randomness. Thread-compatible. Source: Liu & Guitart, IEEE CLOUD 2025 (group resource selection, container
// resource assignment, dynamic resource controller).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"
#include "base/units.h"
#include "model/band.h"
#include "model/container_role.h"
#include "model/ids.h"
#include "model/isolation.h"
#include "model/machine.h"

namespace coterie::allocation {

using coterie::Band;           // whose floors are met first
using coterie::ContainerRole;  // what a container does in its group (roles.h)
using coterie::Isolation;      // what no other tenant shares (isolation.h)
enum class Lend : std::uint8_t { WhenIdle, Never };
enum class PolicyName : std::uint8_t { NoneSingle, NoneMulti, CpuManagerSingle, CpuManagerMulti, KubeletStatic, Balloons, Drc };
// Which memory a group asks for. The memory of devices is never given.
enum class MemoryTier : std::uint8_t {
  Usual,          // the nearest; slow memory (CXL, persistent) only as the last resort
  Dram,           // DRAM, else high-bandwidth, else slow memory
  HighBandwidth,  // high-bandwidth memory, else DRAM, else slow memory
  Any,            // the nearest of whatever kind
};
inline constexpr std::size_t kMemoryTiers = 4;

struct ContainerState {
  InstanceId id;
  CpuSet home;         // read back, not remembered; empty: not placed yet
  CpuSet memoryNodes;  // read back
  CpuSet loans;        // CPU set of its loan lanes
  int awakeLoanLanes{0};
  Bytes resident;             // H6: memory nodes are never narrowed below it
  Bytes expected;             // what it will need once it is loaded, as far as that is known; counts where it is more than what is resident
  std::int64_t cpuWeight{0};  // read back; 0: the actuator has no weights, so no SetWeight is planned
  int memoryPressure{0};      // PSI "some" of memory, ten-second average, in permille; 0: none, or unknown
  ContainerRole role{ContainerRole::App};
  MilliCpu floor;  // of an init or a sidecar: what it needs; apps have the group's
};

struct GroupState {
  GroupId id;
  TenantId tenant;
  Band band{Band::Normal};
  std::int64_t tenantWeight{100};  // > 0
  std::int64_t weight{100};        // > 0, within the tenant
  MilliCpu tenantCap;              // of what the tenant's groups own together, borrowed time apart; 0: none. Where its groups differ, the least
  MilliCpu floor;                  // of its apps together; 0: none
  MilliCpu ceiling;                // > 0; larger than the machine: none
  bool latencyCritical{true};
  Lend lend{Lend::WhenIdle};
  Isolation isolation{Isolation::None};
  MemoryTier memory{MemoryTier::Usual};
  std::string device;                      // the name of one of the machine's that it is to be near to (J counts the way); empty: none
  int loanLanes{0};                        // loan lanes per container that exist (parked or not)
  Instant joined{};                        // for "the youngest becomes Pending"
  std::vector<ContainerState> containers;  // >= 1, ascending id

  // Load, as the gateway measured it. demand is the note's d before clamping.
  MilliCpu demand;
  bool queuedBeyondOwnLanes{false};
  std::optional<Instant> demandBelowEntitlementSince;  // loans are parked after 100 ms of it
  std::optional<Instant> lastOptionalMove;
};

// Tokens for optional moves, in milli-CPUs; depth max(2, |A|/8) CPUs, refilled in a minute.
struct MoveBucket {
  MilliCpu level;
  Instant updated{};
  friend bool operator==(const MoveBucket&, const MoveBucket&) = default;
};

// Tokens for narrowing memory nodes, which moves pages: at most a minute's worth. Negative after a move larger than that, until it is paid back.
struct MigrationBucket {
  Bytes level;
  Instant updated{};
  friend bool operator==(const MigrationBucket&, const MigrationBucket&) = default;
};

using coterie::NodeFree;  // what the kernel says of a memory node

struct Snapshot {
  const Machine* machine{nullptr};
  CpuSet reserved;  // never in a set
  std::vector<GroupState> groups;
  CpuSet pool;  // the shared pool's CPUs now: the last plan's, or after an interrupted plan replay.h's poolReadBack(); empty if unknown
  MoveBucket bucket;
  MigrationBucket migration;
  std::vector<NodeFree> memoryFree;  // ascending id; nodes that are not listed: unknown
  Instant now{};
};

// The options of kubelet's static policy that decide where a container goes (policy_kubelet_static.cc).
struct KubeletStaticOptions {
  bool fullPhysicalCpusOnly{false};
  bool distributeAcrossNuma{false};
  bool alignBySocket{false};
  bool preferUncoreCache{false};
  friend bool operator==(const KubeletStaticOptions&, const KubeletStaticOptions&) = default;
};

struct Config {
  PolicyName policy{PolicyName::Drc};
  KubeletStaticOptions kubelet;
  bool lending{true};                               // off: loans are never woken
  MilliCpu keepLeftover{250};                       // a holder keeps a leftover CPU unless a rival's remainder is larger by more than this
  Millis loanParkDelay{100};                        // demand below entitlement for this long parks loan lanes
  Seconds optionalMoveInterval{30};                 // per group
  std::int64_t optionalMoveGain{3};                 // J must fall by this much per moved CPU
  bool memoryNodes{true};                           // off: the actuator cannot set memory nodes, so no SetMemoryNodes is planned
  Bytes migrationPerMinute{std::int64_t{4} << 30};  // pages that narrower memory nodes may move; 0: no limit
  int narrowSlack{60};      // memory nodes are narrowed to the nearest once these have this much of their size to spare; permille
  int memoryPressure{100};  // from this on a container (ContainerState::memoryPressure) is given the next nearest node; permille; 0: never
  int nearlyFull{60};       // a node with less free than this much of its size is nearly full; permille; 0: none ever is
  friend bool operator==(const Config&, const Config&) = default;
};

enum class ReasonCode : std::uint8_t {
  EntitledByWeight,        // a = milli-CPUs entitled, b = weight share in permille
  RaisedToFloor,           // a = floor
  CappedAtCeiling,         // a = ceiling
  CappedByQuota,           // a = the tenant's cap, b = milli-CPUs its groups are entitled to together
  PoolMember,              // a = milli-CPUs entitled
  IsolationCharged,        // a = CPUs owned in whole units, b = milli-CPUs entitled before they were counted in units
  IsolationBlocked,        // a = CPUs it stays on, b = CPUs entitled: nobody can make room first without standing beside somebody
  LeftoverKept,            // a = CPU id
  LeftoverGranted,         // a = CPU id
  LeftoverRefused,         // a = own remainder, b = the winner's remainder
  PlacedTogether,          // a = domain level, b = domain id
  SpansDomains,            // a = number of nodes spanned
  KeptInPlace,             // a = CPUs kept
  MovedForBetterFit,       // a = CPUs moved, b = gain of J
  MoveDeferred,            // a = nanoseconds until it may happen
  MovedOffline,            // a = lowest CPU id lost, b = how many
  PendingInsufficientCpu,  // a = milli-CPUs wanted, b = milli-CPUs free; c = 1: they would do, but isolated groups cannot leave their units
  IsolationImpossible,     // isolation = the level; a = units that it needs, b = units that the others can leave, c = units of this machine
  IsolationHeldBy,         // a = CPUs guaranteed, b = groups that have them, other = the group if it is one, isolation = its level
  IsolationRemedy,       // a = CPUs by which others' guarantees are too large, b = 1: isolation = a level that would fit, c = 1: its own floor counts
  LoanWoken,             // a = lanes
  LoanParked,            // a = lanes
  LoanRefusedIsolation,  // other = the owner
  LendingOff,
  SizedByInit,           // a = milli-CPUs that its init needs, b = its floor without it
  SidecarsApart,         // a = CPUs that its sidecars own
  MemoryWidened,         // a = memory nodes beyond the nearest, which do not have room for all that is to be there
  MemoryUnderPressure,   // a = memory nodes beyond the nearest, because it waits for memory or those are nearly full
  MemoryShort,           // a = bytes for which no node that it may have has room
  MemoryTierAbsent,      // a = the MemoryKind that it asks for and the machine does not have
  MemoryOtherTier,       // a = the MemoryKind that it has beside what it asks for, which is full
  MemoryNarrowDeferred,  // a = nanoseconds until memory nodes may be narrowed, b = bytes that would move
  DeviceFar,             // a = the DomainLevel that holds both it and the device that it names
  DeviceUnknown,         // the machine has no device of that name, or does not say where it is
  SharesFloat,           // baseline policies: floats over all CPUs
};
[[nodiscard]] std::string_view reasonName(ReasonCode code);

struct Reason {
  GroupId group;
  ReasonCode code{ReasonCode::EntitledByWeight};
  std::int64_t a{0};
  std::int64_t b{0};
  GroupId other{};
  std::int64_t c{0};
  Isolation isolation{Isolation::None};
  friend bool operator==(const Reason&, const Reason&) = default;
};

struct ContainerTarget {
  InstanceId id;
  CpuSet home;
  CpuSet memoryNodes;
  CpuSet loans;
  int ownLanes{1};  // <= home.count(); 1 in the pool
  int awakeLoanLanes{0};
  friend bool operator==(const ContainerTarget&, const ContainerTarget&) = default;
};

struct GroupTarget {
  GroupId id;
  MilliCpu entitlement;
  bool inPool{false};
  bool pending{false};          // a floor that no longer fits (H-rules hold without it); it keeps no CPU
  std::int64_t cpuWeight{100};  // for cpu.weight / cpu.shares, proportional to entitlement; a SetWeight step divides it among the containers
  bool moved{false};            // CPUs were moved for a better fit: once applied, `now` is the group's lastOptionalMove
  std::vector<ContainerTarget> containers;
  friend bool operator==(const GroupTarget&, const GroupTarget&) = default;
};

// One write to one container's leaf. SetLoans: as many loan lanes are awake as it has CPUs; an empty set parks them all and leaves the kernel's set
// alone (an empty set is never written). SwapHome: a container steps aside and may share a CPU for this one step. Steps run in order; `waitsFor`
// lists the steps (indices) that must have succeeded before this one, so that a stuck write blocks only its takers.
enum class StepKind : std::uint8_t { WidenAncestors, NarrowHome, WidenHome, SwapHome, SetLoans, SetMemoryNodes, SetWeight, NarrowAncestors };
struct Step {
  StepKind kind{StepKind::NarrowHome};
  InstanceId container;  // invalid for ancestors
  GroupId group;
  CpuSet cpus;             // the set after this step
  CpuSet memoryNodes;      // for SetMemoryNodes
  std::int64_t weight{0};  // for SetWeight
  std::vector<int> waitsFor;
  friend bool operator==(const Step&, const Step&) = default;
};

struct Plan {
  std::vector<GroupTarget> groups;  // ascending id
  CpuSet pool;
  std::vector<Step> steps;  // empty: nothing to write
  std::vector<Reason> reasons;
  MoveBucket bucket;
  MigrationBucket migration;
  std::optional<Instant> decideAgainAt;  // something waits for time to pass (deferred move, loans to park)
  friend bool operator==(const Plan&, const Plan&) = default;
};

[[nodiscard]] Plan decide(const Snapshot& snapshot, const Config& config);

// Would a newcomer's floor fit beside the present ones (Admission)? The milli-CPUs missing, 0 if it fits.
[[nodiscard]] MilliCpu missingForFloor(const Snapshot& snapshot, const GroupState& newcomer);

}  // namespace coterie::allocation
