#include "serve/explain_text.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "allocation/reason_text.h"
#include "allocation/width_text.h"
#include "controller/memory.h"

namespace coterie::serve {

using allocation::cpusText;
using allocation::Question;

ReasonTexts explainReasons(const std::vector<allocation::Reason>& reasons, const TenantName& tenant, const GroupNames& names) {
  ReasonTexts texts;
  for (const allocation::Reason& reason : reasons) {
    const std::string other = names && reason.other.valid() ? names(reason.other) : std::string();
    allocation::ReasonText text = allocation::reasonText(reason, tenant.value, other);
    auto& list = text.question == Question::WhyThese ? texts.whyThese : text.question == Question::WhyThisMany ? texts.whyThisMany : texts.whyNotMore;
    list.push_back({std::string(allocation::reasonName(reason.code)), std::move(text.sentence)});
  }
  return texts;
}

admin::WidthInfo explainWidth(const controller::ServiceSummary& summary) {
  admin::WidthInfo info;
  const controller::WidthSummary& width = summary.width;
  info.threads = width.inForce;
  if (!summary.spec.objective) {
    info.why.push_back({"NoObjective", "there is no objective, so what counts is how many requests its CPUs answer: a thread each answers most"});
    return info;
  }
  if (width.choice && width.question) {
    info.proposedThreads = width.choice->chosen.width;
    info.proposedInstances = width.choice->containers;
    for (const allocation::WidthRating& rating : width.choice->ratings) {
      const bool endless = rating.latency == allocation::kEndless;
      info.judged.push_back({rating.width, rating.servers, endless ? Nanos{} : rating.wait, endless ? Nanos{} : rating.latency, endless,
                             static_cast<double>(rating.capacity) / 1000, rating.feasible});
    }
    info.why.push_back({std::string(allocation::widthReasonName(width.choice->reason)),
                        allocation::widthReasonText(*width.choice, width.question->objective, width.question->quantile)});
    info.why.push_back(
        {"Seen", fmt::format("in the last window of some seconds {:.1f} requests arrived per second, and {} at most were there at once",
                             static_cast<double>(width.question->arrivals.value) / 1000, width.question->mostAtOnce.value_or(0))});
  } else {
    const bool one = summary.spec.maxCpus.value > 0 && summary.spec.maxCpus.value <= 1000;
    info.why.push_back(one ? admin::Because{"OneCpuAtMost", "maxCpus lets it have one CPU at most: a request is run by 1 thread"}
                           : admin::Because{"NothingSeenYet", "its load has not been watched for a whole window yet"});
  }
  if (!width.curve.empty()) info.why.push_back({"RunTimes", allocation::curveText(width.curve)});
  if (width.curve.size() == 1 && width.choice && !width.choice->chosen.feasible && width.question && width.question->cpus > 1 && width.held.empty())
    info.why.push_back(
        {"NotMeasured", "its run times by more threads are measured when it is idle for a while and no request waits on this machine"});
  if (width.choice && width.question && width.choice->chosen.width > 1) {
    const int carried = width.question->cpus / width.choice->chosen.width;
    if (carried > width.choice->chosen.servers)
      info.why.push_back({"OneServerAnInstance", fmt::format("an instance runs one wide request at a time: its {} CPUs "
                                                             "would carry {} servers, with maxInstances {}",
                                                             width.question->cpus, carried, carried)});
  }
  if (width.shared.value > 0)
    info.why.push_back({"WeightsShared", fmt::format("its instances have one copy of its weights in memory, {}, whatever their width",
                                                     controller::memoryText(width.shared))});
  if (!width.held.empty()) info.why.push_back({"Held", width.held});
  return info;
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
