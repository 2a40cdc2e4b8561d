#include "serve/explain_text.h"

#include <utility>

#include <fmt/format.h>

namespace coterie::serve {

namespace {
using allocation::Reason;
using allocation::ReasonCode;

enum class Question { These, ThisMany, NotMore };

struct Sentence {
  Question question;
  std::string text;
};

std::string_view levelName(std::int64_t level) {
  switch (static_cast<DomainLevel>(level)) {
    case DomainLevel::Machine: return "machine";
    case DomainLevel::Socket: return "socket";
    case DomainLevel::Node: return "NUMA node";
    case DomainLevel::Cache: return "cache cluster";
    case DomainLevel::Core: return "core";
  }
  return "domain";
}

Sentence sentence(const Reason& reason, const TenantName& tenant) {
  const auto cpus = [](std::int64_t milli) { return cpusText(MilliCpu(milli)); };
  switch (reason.code) {
    case ReasonCode::EntitledByWeight:
      return {Question::ThisMany,
              fmt::format("its weight entitles it to {} ({}.{} % of the machine's share)", cpus(reason.a), reason.b / 10, reason.b % 10)};
    case ReasonCode::RaisedToFloor: return {Question::ThisMany, fmt::format("minCpus guarantees {}", cpus(reason.a))};
    case ReasonCode::CappedAtCeiling: return {Question::NotMore, fmt::format("maxCpus ends at {}", cpus(reason.a))};
    case ReasonCode::CappedByQuota:
      return {Question::NotMore,
              fmt::format("quota.cpus of tenant {} is {}; its services are entitled to {} together", tenant.value, cpus(reason.a), cpus(reason.b))};
    case ReasonCode::PoolMember:
      return {Question::ThisMany, fmt::format("{} is less than a whole CPU, so it shares the pool in proportion to that", cpus(reason.a))};
    case ReasonCode::LeftoverKept: return {Question::ThisMany, fmt::format("it keeps the odd CPU {} that it had", reason.a)};
    case ReasonCode::LeftoverGranted: return {Question::ThisMany, fmt::format("it got the odd CPU {}: the largest remainder", reason.a)};
    case ReasonCode::LeftoverRefused:
      return {Question::NotMore, fmt::format("another service's claim on the odd CPU was larger ({} against {} thousandths)", reason.b, reason.a)};
    case ReasonCode::PlacedTogether: return {Question::These, fmt::format("they lie together in {} {}", levelName(reason.a), reason.b)};
    case ReasonCode::SpansDomains: return {Question::These, fmt::format("no single NUMA node has room: it spans {}", reason.a)};
    case ReasonCode::KeptInPlace:
      return {Question::These, fmt::format("it keeps {} CPU{} it had: moving costs more than it gains", reason.a, reason.a == 1 ? "" : "s")};
    case ReasonCode::MovedForBetterFit: return {Question::These, fmt::format("{} CPUs moved for a better fit (gain {})", reason.a, reason.b)};
    case ReasonCode::MoveDeferred:
      return {Question::These, fmt::format("a better place is known; the move waits {:.1f} s more", static_cast<double>(reason.a) / 1e9)};
    case ReasonCode::MovedOffline: return {Question::These, fmt::format("CPU {} went offline", reason.a)};
    case ReasonCode::PendingInsufficientCpu:
      return {Question::NotMore, fmt::format("it waits: minCpus needs {}, {} are free of guarantees", cpus(reason.a), cpus(reason.b))};
    case ReasonCode::LoanWoken:
      return {Question::ThisMany, fmt::format("requests wait, so {} loan lane{} run on idle CPUs of others", reason.a, reason.a == 1 ? "" : "s")};
    case ReasonCode::LoanParked:
      return {Question::NotMore, fmt::format("its queue is empty: {} loan lane{} sleep", reason.a, reason.a == 1 ? "" : "s")};
    case ReasonCode::LoanRefusedIsolation: return {Question::NotMore, "isolation forbids borrowing from a neighbour"};
    case ReasonCode::LendingOff: return {Question::NotMore, "lending is off"};
    case ReasonCode::SharesFloat: return {Question::These, "this policy pins nothing: it floats over all CPUs"};
  }
  return {Question::These, ""};
}
}  // namespace

std::string cpusText(MilliCpu cpus) {
  std::string number = fmt::format("{}.{:03}", cpus.value / 1000, cpus.value % 1000);
  while (number.back() == '0') number.pop_back();
  if (number.back() == '.') number.pop_back();
  return number + (cpus.value == 1000 ? " CPU" : " CPUs");
}

ReasonTexts explainReasons(const std::vector<Reason>& reasons, const TenantName& tenant) {
  ReasonTexts texts;
  for (const Reason& reason : reasons) {
    const Sentence one = sentence(reason, tenant);
    auto& list = one.question == Question::These ? texts.whyThese : one.question == Question::ThisMany ? texts.whyThisMany : texts.whyNotMore;
    list.push_back({std::string(allocation::reasonName(reason.code)), one.text});
  }
  return texts;
}

void leaveNothingOpen(admin::Explanation& explanation, const Situation& situation) {
  const std::string name = explanation.service.path();
  const bool nowhere = explanation.home.empty() && explanation.pool.empty();
  if (explanation.whyThese.empty()) {
    explanation.whyThese.push_back(nowhere ? admin::Because{"NoCpus", "it has none: CPUs go to services whose instances may run"}
                                           : admin::Because{"FirstFit", "they were free when it came, and nothing better is free now"});
  }
  if (explanation.whyThisMany.empty()) explanation.whyThisMany.push_back({"NoPlan", "no plan speaks of it yet: the next one comes within a second"});
  if (!explanation.whyNotMore.empty()) return;
  const auto because = [&explanation](std::string reason, std::string message) {
    explanation.whyNotMore.push_back({std::move(reason), std::move(message)});
  };
  if (situation.stopped) return because("Stopped", fmt::format("it is told to have no instance; `coterie scale {} --instances 1` starts one", name));
  if (nowhere)
    return because("NoInstance", fmt::format("none of its instances may run yet; `coterie describe service/{}` says what they wait for", name));
  if (explanation.entitlement >= situation.capacity) return because("WholeMachine", "it is entitled to the whole machine");
  if (explanation.ceiling.value > 0 && explanation.entitlement >= explanation.ceiling)
    return because("CappedAtCeiling", fmt::format("maxCpus ends at {}; a higher one lets it have more", cpusText(explanation.ceiling)));
  const std::size_t others = situation.services > 1 ? situation.services - 1 : 0;
  because("SharedMachine",
          others == 0 ? fmt::format("its instances cannot use more of the machine's {}", cpusText(situation.capacity))
                      : fmt::format("the machine's {} are shared by weight with {} other service{}; a higher weight or minCpus gives it more of them",
                                    cpusText(situation.capacity), others, others == 1 ? "" : "s"));
  if (explanation.demand <= explanation.entitlement) {
    because("DemandMet", fmt::format("its requests of the last seconds need {}, no more than its share",
                                     explanation.demand.value == 0 ? "nothing" : cpusText(explanation.demand)));
  } else {
    because("DemandAboveShare",
            fmt::format("its requests could use {}: while they wait, it borrows CPUs that others leave idle", cpusText(explanation.demand)));
  }
}

}  // namespace coterie::serve
