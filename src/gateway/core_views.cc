#include <algorithm>
#include <utility>

#include "gateway/core.h"

namespace coterie::gateway {

// As the tenant would write it: plain where that finds it.
std::string Gateway::Core::nameFor(const Tenant& tenant, const Service& service) const {
  const auto found = find(tenant, service.name.name);
  return found.get() == &service ? service.name.name : service.name.nameSpace + "." + service.name.name;
}

// What the tenant's own calls were: others' are not its business, whoever owns the service (who does sees all of them in the metrics).
oip::ModelStatistics Gateway::Core::statisticsOf(const Tenant& tenant, const Service& service, std::string name) {
  static const ServiceStatistics kNone;
  const auto found = service.callers.find(tenant.id);
  const ServiceStatistics& from = found == service.callers.end() ? kNone : found->second;
  oip::ModelStatistics to;
  to.name = std::move(name);
  to.lastInferenceMillis = from.lastInference.micros / 1000;
  to.success = {from.total.count(), from.total.sum()};
  to.fail = {from.requests.answered() - from.requests.of(200), from.failedNanos};
  to.queue = {from.queue.count(), from.queue.sum()};
  to.run = {from.run.count(), from.run.sum()};
  to.executions = from.runs.runs();
  for (int size = 1; size <= kMostBatch; ++size) {
    if (const RunCounts::Total& total = from.runs.of(size); total.runs > 0) to.batches.push_back({size, {total.runs, total.nanos}});
  }
  return to;
}

// Metadata, readiness, configuration and statistics of one model.
void Gateway::Core::answerModel(Call& call, Service& service) {
  const Deployment* deployment = service.current;
  const auto missing = [&] {
    return notReady(service.settings.notReadyReason,
                    service.settings.notReadyMessage.empty() ? "the model is not loaded yet" : service.settings.notReadyMessage);
  };
  if (call.target.endpoint == oip::Endpoint::ModelStatistics)
    return answer(call, oip::statistics(std::vector{statisticsOf(*call.tenant, service, call.target.model)}));
  if (deployment == nullptr) return refuse(call, missing());
  if (call.target.endpoint == oip::Endpoint::ModelReady) {
    if (!deployment->hasOpenLane()) return refuse(call, notReady("ServiceNotReady", "no instance of the service is running"));
    return answer(call, oip::modelReadyBody(call.target.model, true));
  }
  const ModelSignature& signature = deployment->backend.signature();
  answer(call, call.target.endpoint == oip::Endpoint::ModelConfig ? oip::modelConfig(call.target.model, &signature)
                                                                  : oip::modelMetadata(call.target.model, &signature));
}

void Gateway::Core::answerIndex(Call& call) {
  std::vector<oip::IndexEntry> entries;
  for (const auto& [name, service] : services_) {
    if (!maySee(*call.tenant, *service)) continue;
    const bool ready = service->current != nullptr && service->current->hasOpenLane();
    std::string why;
    if (!ready) why = service->current == nullptr ? service->settings.notReadyReason : "ServiceNotReady";
    entries.push_back({nameFor(*call.tenant, *service), ready, std::move(why)});
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  answer(call, oip::repositoryIndex(entries));
}

void Gateway::Core::answerStatistics(Call& call) {
  std::vector<oip::ModelStatistics> rows;
  for (const auto& [name, service] : services_) {
    if (maySee(*call.tenant, *service)) rows.push_back(statisticsOf(*call.tenant, *service, nameFor(*call.tenant, *service)));
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  answer(call, oip::statistics(rows));
}

}  // namespace coterie::gateway
