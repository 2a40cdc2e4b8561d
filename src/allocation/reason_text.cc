#include "allocation/reason_text.h"

#include "allocation/isolation.h"
#include "base/count_text.h"

namespace coterie::allocation {

namespace {
std::string number(std::int64_t value) { return std::to_string(value); }
// "12.3" of 123 tenths.
std::string tenths(std::int64_t value) { return number(value / 10) + "." + number(value % 10); }
std::string milli(std::int64_t value) { return cpusText(MilliCpu(value)); }
// "1 CPU is", "0.5 CPUs are"
std::string milliAre(std::int64_t value) { return milli(value) + (value == 1000 ? " is" : " are"); }
// Gibibytes, as "12.3 GiB".
std::string gibibytes(std::int64_t bytes) {
  constexpr std::int64_t kPerTenth = (std::int64_t{1} << 30) / 10;
  return tenths((bytes + kPerTenth / 2) / kPerTenth) + " GiB";
}
std::string memoryKind(std::int64_t kind) { return std::string(memoryKindName(static_cast<MemoryKind>(kind))) + " memory"; }
std::string unitText(Isolation isolation) { return std::string(levelText(unitLevel(isolation))); }

std::string waitText(const Reason& reason) {
  if (reason.c != 0) return "it waits: there would be room for it, but isolated groups that cannot leave their units are in the way";
  return "it waits: it needs " + milli(reason.a) + " (minCpus, or what its init and sidecar containers need with it, in whole CPUs, 1 at least); " +
         milliAre(reason.b) + " free of guarantees";
}

std::string impossibleText(const Reason& reason) {
  const std::string unit = unitText(reason.isolation);
  const std::string head = "isolation " + std::string(isolationName(reason.isolation)) + " cannot be had: ";
  if (reason.c == 1) return head + "this machine is a single " + unit + ", and nobody else could run beside it";
  return head + "it needs " + counted(reason.a, unit) + " to itself, and of the " + number(reason.c) + " here the guarantees of others leave " +
         (reason.b == 0 ? "none" : number(reason.b));
}

std::string heldByText(const Reason& reason, std::string_view other) {
  std::string who = number(reason.b) + (reason.b == 1 ? " other group is" : " other groups are");
  if (reason.other.valid()) who = (other.empty() ? "another group" : std::string(other)) + " is";
  return who + " guaranteed " + milli(reason.a * 1000) + isolationSuffix(reason.isolation);
}

std::string remedyText(const Reason& reason) {
  std::string text = reason.b == 0 ? "no lower isolation would fit either; what would help: "
                     : reason.isolation == Isolation::None
                         ? "without isolation it would fit; what else would help: "
                         : "isolation " + std::string(isolationName(reason.isolation)) + " would fit; what else would help: ";
  if (reason.c != 0) text += "a smaller minCpus, ";
  return text + "guarantees of others (minCpus, isolation) that are " + milli(reason.a * 1000) + " less, or a larger machine";
}

std::string seconds(std::int64_t nanos) {
  constexpr std::int64_t kNanosPerTenth = 100'000'000;
  return tenths((nanos + kNanosPerTenth / 2) / kNanosPerTenth) + " s";
}
}  // namespace

std::string isolationSuffix(Isolation level) {
  return level == Isolation::None ? std::string() : " (isolation " + std::string(isolationName(level)) + ")";
}

std::string_view levelText(DomainLevel level) {
  switch (level) {
    case DomainLevel::Machine: return "machine";
    case DomainLevel::Socket: return "socket";
    case DomainLevel::Node: return "NUMA node";
    case DomainLevel::Cache: return "cache cluster";
    case DomainLevel::Core: return "core";
  }
  return "domain";
}

std::string cpusText(MilliCpu cpus) {
  std::string digits = number(cpus.value % 1000);
  digits.insert(0, 3 - digits.size(), '0');
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return number(cpus.value / 1000) + (digits.empty() ? "" : "." + digits) + (cpus.value == 1000 ? " CPU" : " CPUs");
}

ReasonText reasonText(const Reason& reason, std::string_view tenant, std::string_view other) {
  using enum Question;
  const std::int64_t a = reason.a;
  const std::int64_t b = reason.b;
  switch (reason.code) {
    case ReasonCode::EntitledByWeight:
      return {WhyThisMany, "its weight entitles it to " + milli(a) + " (" + tenths(b) + " % of the machine's share)"};
    case ReasonCode::RaisedToFloor: return {WhyThisMany, "minCpus guarantees " + milli(a)};
    case ReasonCode::CappedAtCeiling: return {WhyNotMore, "maxCpus ends at " + milli(a)};
    case ReasonCode::CappedByQuota:
      return {WhyNotMore,
              "quota.cpus of tenant " + std::string(tenant) + " is " + milli(a) + "; its services are entitled to " + milli(b) + " together"};
    case ReasonCode::PoolMember: return {WhyThisMany, milli(a) + " is less than a whole CPU, so it shares the pool in proportion to that"};
    case ReasonCode::IsolationCharged:
      return {WhyThisMany, "isolation gives it whole units, " + counted(a, "CPU") + "; by its share it would have " + milli(b)};
    case ReasonCode::IsolationBlocked:
      return {WhyNotMore, "it stays on " + counted(a, "CPU") + " of the " + number(b) +
                              " that it is entitled to: nobody can make room first without standing beside another tenant"};
    case ReasonCode::LeftoverKept: return {WhyThisMany, "it keeps the odd CPU " + number(a) + " that it had"};
    case ReasonCode::LeftoverGranted: return {WhyThisMany, "it got the odd CPU " + number(a) + ": the largest remainder"};
    case ReasonCode::LeftoverRefused:
      return {WhyNotMore, "another service's claim on the odd CPU was larger (" + number(b) + " against " + number(a) + " thousandths)"};
    case ReasonCode::PlacedTogether:
      return {WhyThese, "they lie together in " + std::string(levelText(static_cast<DomainLevel>(a))) + " " + number(b)};
    case ReasonCode::SpansDomains: return {WhyThese, "no single NUMA node has room: it spans " + number(a)};
    case ReasonCode::KeptInPlace: return {WhyThese, "it keeps " + counted(a, "CPU") + " it had: moving costs more than it gains"};
    case ReasonCode::MovedForBetterFit: return {WhyThese, counted(a, "CPU") + " moved for a better fit (gain " + number(b) + ")"};
    case ReasonCode::MoveDeferred: return {WhyThese, "a better place is known; the move waits " + seconds(a) + " more"};
    case ReasonCode::MovedOffline:
      return {WhyThese, (b > 1 ? number(b) + " CPUs that it had, from CPU " + number(a) + " on, are" : "CPU " + number(a) + ", which it had, is") +
                            " not to be used any more: offline, reserved or not allowed"};
    case ReasonCode::PendingInsufficientCpu: return {WhyNotMore, waitText(reason)};
    case ReasonCode::IsolationImpossible: return {WhyNotMore, impossibleText(reason)};
    case ReasonCode::IsolationHeldBy: return {WhyNotMore, heldByText(reason, other)};
    case ReasonCode::IsolationRemedy: return {WhyNotMore, remedyText(reason)};
    case ReasonCode::LoanWoken:
      return {WhyThisMany, "requests wait, so " + number(a) + (a == 1 ? " loan lane runs" : " loan lanes run") + " on idle CPUs of others"};
    case ReasonCode::LoanParked: return {WhyNotMore, "its queue is empty: " + number(a) + (a == 1 ? " loan lane sleeps" : " loan lanes sleep")};
    case ReasonCode::LoanRefusedIsolation: return {WhyNotMore, "isolation forbids borrowing from a neighbour"};
    case ReasonCode::LendingOff: return {WhyNotMore, "lending is off"};
    case ReasonCode::SizedByInit:
      return {WhyThisMany, "its init container needs " + milli(a) + ", " + milliAre(b) + " needed afterwards: the rest is given back then"};
    case ReasonCode::SidecarsApart: return {WhyThisMany, "of its CPUs, " + number(a) + (a == 1 ? " is" : " are") + " its sidecars' alone"};
    case ReasonCode::MemoryWidened:
      return {WhyThese, "its memory nodes are wider by " + number(a) + ": those nearest to its CPUs have no room for all that is there"};
    case ReasonCode::MemoryUnderPressure:
      return {WhyThese, "its memory nodes are wider by " + number(a) + ": it waits for memory, or those nearest to its CPUs are nearly full"};
    case ReasonCode::MemoryShort: return {WhyNotMore, "no memory node that it may use has room for " + gibibytes(a) + " of what it needs"};
    case ReasonCode::MemoryTierAbsent: return {WhyThese, "it asks for " + memoryKind(a) + ", of which this machine has none"};
    case ReasonCode::MemoryOtherTier: return {WhyThese, "it has " + memoryKind(a) + " too: what it asks for is full"};
    case ReasonCode::MemoryNarrowDeferred:
      return {WhyThese, "its memory nodes are to be narrowed; " + gibibytes(b) + " of pages wait " + seconds(a) + " more for the budget of moves"};
    case ReasonCode::DeviceFar:
      return {WhyThese, "the device that it names is not on its NUMA nodes: they meet in the " + std::string(levelText(static_cast<DomainLevel>(a)))};
    case ReasonCode::DeviceUnknown:
      return {WhyThese, "this machine has no device " + (other.empty() ? "of the name that it asks for" : "\"" + std::string(other) + "\"") +
                            ", or does not say where it is"};
    case ReasonCode::SharesFloat:
      return {WhyThese, b == 1 ? "it has no CPU of its own under this policy: it floats over the pool, " + counted(a, "CPU")
                               : "this policy pins nothing: it floats over all CPUs"};
  }
  return {WhyThese, {}};
}

}  // namespace coterie::allocation
