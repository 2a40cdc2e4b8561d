#include "agent_node.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "linux/cpu_rivals.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "serve/choose_actuator.h"

namespace coterie::apply {

namespace {
constexpr Seconds kLongestApply{30};

Result<std::unique_ptr<CpuController>> chosenController(const CpuSet& allowed) {
  auto chosen = serve::chooseActuator(serve::Actuator::Auto, serve::actuatorsOfThisMachine(allowed));
  if (!chosen) return chosen.error();
  return std::move(chosen->controller);
}

InstanceReady readyOf(const Container& container) {
  InstanceReady said;
  said.pid = container.process->pid();
  const std::vector<int>& tids = container.process->tids();
  const auto own = static_cast<std::ptrdiff_t>(std::min<std::size_t>(tids.size(), static_cast<std::size_t>(container.ownLanes)));
  said.ownLaneThreads.assign(tids.begin(), tids.begin() + own);
  said.loanLaneThreads.assign(tids.begin() + own, tids.end());
  said.serviceThreads = {said.pid};
  return said;
}
}  // namespace

Container makeContainer(GroupId group, int ownLanes, int loanLanes) {
  return {group, ownLanes, std::make_shared<testing::ChildProcess>(ownLanes + loanLanes)};
}

agent::GroupSpec service(int id, std::optional<int> tenant) {
  agent::GroupSpec spec;
  spec.id = GroupId(id);
  spec.service = {"apply", "s" + std::to_string(id)};
  spec.tenant = TenantId(tenant.value_or(id));
  return spec;
}

AgentNode::AgentNode(NodeOptions options) : options_(std::move(options)), ownMask_(linux::affinityOf(0)) {}

AgentNode::~AgentNode() {
  if (drc_ != nullptr) drc_->shutDown();
  if (!ownMask_ || linux::affinityOf(0) == ownMask_) return;  // writing it back would cut CPUs that are offline
  for (const int tid : linux::threadsOf(::getpid())) static_cast<void>(linux::executeWrite(linux::affinityWrite(tid, *ownMask_)));
}

Status AgentNode::start() {
  linux::allowManyFiles();
  const auto sets = machine_.poll();
  if (!sets) return sets.error();
  auto controller = options_.controller != nullptr ? options_.controller() : chosenController(sets->allowed);
  if (!controller) return controller.error();
  controller_ = std::move(controller).value();
  auto applier = agent::RealtimeApplier::create(loop_, {linux::executeWrite});
  if (!applier) return applier.error();
  applier_ = std::move(applier).value();
  if (options_.journal.empty()) {
    journal_ = std::make_unique<agent::MemoryHomeJournal>();
  } else {
    journal_ = std::make_unique<serve::FileHomeJournal>(options_.journal);
  }
  drc_ = std::make_unique<agent::Drc>(
      agent::Drc::Ports{loop_, *controller_, machine_, *applier_, *journal_, *this, {}, [] { return linux::cpuRivals(::getpid()); }}, options_.drc);
  return drc_->start();
}

std::string AgentNode::actuator() const { return drc_->view().controller + ", applier " + applier_->policyText(); }

void AgentNode::ready(InstanceId id, Container container) {
  const InstanceReady said = readyOf(container);
  const GroupId group = container.group;
  containers_[id] = std::move(container);
  drc_->instanceStarting(group, id);
  drc_->instanceReady(group, id, said);
}

void AgentNode::ready(const Containers& containers) {
  for (const auto& [id, container] : containers) ready(id, container);
}

void AgentNode::ended(InstanceId id) {
  containers_.erase(id);
  lanes_.erase(id);
  drc_->instanceEnded(id);
}

void AgentNode::pass(Nanos time) {
  static_cast<void>(loop_.runUntil([] { return false; }, time));
}

bool AgentNode::passUntil(const std::function<bool()>& done, Nanos limit) { return loop_.runUntil(done, limit); }

Result<Applied> AgentNode::applied(const std::function<void()>& event) {
  const std::int64_t before = drc_->view().stepsApplied;
  const Instant from = loop_.clock().now();
  event();
  if (!loop_.runUntil([this] { return drc_->settled(); }, kLongestApply))
    return Error{Code::DeadlineExceeded, "NotApplied", "a plan was not in force after " + std::to_string(kLongestApply.count()) + " s"};
  return Applied{loop_.clock().now() - from, drc_->view().stepsApplied - before};
}

ObservedContainer AgentNode::seen(InstanceId id) const {
  const auto observed = controller_->observe(id);
  return observed ? *observed : ObservedContainer{};
}

int AgentNode::misplaced() const {
  int count = 0;
  for (const auto& [id, container] : containers_) {
    const ObservedContainer observed = seen(id);
    const CpuSet wanted = drc_->plannedHome(id);
    if (wanted.empty() || observed.effective != wanted || !observed.uniform) ++count;
  }
  return count;
}

void AgentNode::lanesChanged(GroupId, const std::vector<agent::LaneAllowance>& lanes) {
  for (const agent::LaneAllowance& lane : lanes) lanes_[lane.instance] = lane;
}

}  // namespace coterie::apply
