// Cache classes of those who own CPUs, after each plan and each second.
#include "agent/drc_impl.h"

namespace coterie::agent {

void Drc::Impl::beginClasses() {
  if (ports_.cacheClasses != nullptr && config_.cacheClasses != CacheClassMode::Off) classes_.emplace(*ports_.cacheClasses, config_.cacheClasses);
}

void Drc::Impl::setCacheClasses(CacheClassMode mode) {
  if (mode == config_.cacheClasses) return;
  config_.cacheClasses = mode;
  if (classes_) classes_->shutDown();
  classes_.reset();
  beginClasses();
  followClasses();
}

// Who is loading has no threads that are known yet, and who is Pending is about to end.
void Drc::Impl::followClasses() {
  if (!classes_) return;
  const bool all = config_.cacheClasses == CacheClassMode::All;
  const auto isolated = [](const auto& entry) { return entry.second.spec.isolation != Isolation::None; };
  if (!all && classes_->idle() && std::none_of(groups_.begin(), groups_.end(), isolated)) return;  // the usual case
  std::vector<ClassedContainer> classed;
  for (const auto& [id, container] : containers_) {
    const GroupRecord& group = groups_.at(container.group);
    if (!container.ready || container.wanted.home.empty()) continue;
    std::vector<int> processes = ports_.processes ? ports_.processes(id) : std::vector<int>{container.threads.pid};
    classed.push_back({id, group.spec.tenant, group.spec.isolation, group.inPool, container.wanted.home, std::move(processes)});
  }
  classes_->follow(machine_, std::move(classed), ports_.loop.clock().now());
}

// Processes that came without a plan; what others did to the classes.
void Drc::Impl::checkClasses() {
  if (!classes_) return;
  followClasses();
  classes_->check(machine_, ports_.loop.clock().now());
}

std::string Drc::Impl::cacheClassOf(const GroupRecord& group) const {
  if (!classes_) return {};
  return classes_->textOf(group.spec.tenant, group.inPool ? ClassKeeper::Place::Pool : ClassKeeper::Place::OwnCpus);
}

}  // namespace coterie::agent
