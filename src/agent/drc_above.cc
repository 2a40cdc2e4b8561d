// What the controller of resources does where a set above does not allow what is planned.
#include <utility>

#include "agent/drc_impl.h"
#include "base/log.h"

namespace coterie::agent {

// What a set above does not allow no write brings about: said once, and none is made until it is allowed. Asked each time that one would be made, as
// whoever narrowed the set may widen it, and the plan may be another.
bool Drc::Impl::limitedFromAbove(ContainerRecord& container) {
  std::string limit = container.wanted.home.empty() ? std::string() : ports_.controller.limitAbove(container.id, container.wanted.home);
  const bool limited = !limit.empty();
  if (limit == container.limit) return limited;
  GroupRecord& group = groups_.at(container.group);
  const std::string who = group.spec.service.path() + ", instance " + std::to_string(container.id.value);
  if (limited) {
    if (container.limit.empty()) ++group.counters.conflicts;
    log::warning("agent",
                 who + " cannot have its plan, " + container.wanted.home.toString() + ": " + limit + "; it stays where it is until that is widened");
  } else {
    container.repairs.clear();
    container.refusedFromAbove = false;
    log::info("agent", who + " may have " + container.wanted.home.toString() + " now: " + container.limit + " no more");
  }
  container.limit = std::move(limit);
  if (container.announcedOnce) announced_.insert(container.group);
  return limited;
}

std::string Drc::Impl::limitOf(InstanceId instance) const {
  const auto found = containers_.find(instance);
  return found == containers_.end() ? std::string() : found->second.limit;
}

}  // namespace coterie::agent
