// A machine under the resource controller with real processes that have nothing to do: the product's own parts, wired as `coterie serve` wires them
// (the CPU controller that choose_actuator picks, agent::RealtimeApplier, linux::LiveMachine, serve::FileHomeJournal), without workers and gateway.
//
// Time passes only inside pass(), passUntil() and applied(); between them nothing runs. Thread rule: one thread. Errors: those of the parts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/drc.h"
#include "agent/realtime_applier.h"
#include "http/asio_loop.h"
#include "linux/live_machine.h"
#include "serve/file_home_journal.h"
#include "testing/child_process.h"

namespace coterie::apply {

struct NodeOptions {
  std::string journal;  // the file of homes; empty: in memory
  agent::DrcConfig drc;
  std::function<Result<std::unique_ptr<CpuController>>()> controller{};  // none: what choose_actuator picks
};

// A process and how its threads are told to the controller.
struct Container {
  GroupId group;
  int ownLanes{1};
  std::shared_ptr<testing::ChildProcess> process;  // shared: a node that takes over from another one gets the same processes
};
using Containers = std::map<InstanceId, Container>;

// With so many own lanes, loan lanes and a service thread.
[[nodiscard]] Container makeContainer(GroupId group, int ownLanes, int loanLanes);

// A service of a tenant of its own, unless said otherwise.
[[nodiscard]] agent::GroupSpec service(int id, std::optional<int> tenant = std::nullopt);

struct Applied {
  Nanos took{};
  std::int64_t steps{0};  // written; 0: the event changed nothing
};

class AgentNode final : private agent::Drc::Listener {
 public:
  explicit AgentNode(NodeOptions options);
  ~AgentNode() override;
  AgentNode(const AgentNode&) = delete;
  AgentNode& operator=(const AgentNode&) = delete;

  [[nodiscard]] Status start();
  [[nodiscard]] std::string actuator() const;  // what it is, and how plans are applied

  // What the instance reconciler tells: a container answers, or its process has ended.
  void ready(InstanceId id, Container container);
  void ready(const Containers& containers);  // in one turn of the loop
  void ended(InstanceId id);

  void pass(Nanos time);
  [[nodiscard]] bool passUntil(const std::function<bool()>& done, Nanos limit);
  // The event, and the time until its plan is in force and read back. Error: DeadlineExceeded/NotApplied.
  [[nodiscard]] Result<Applied> applied(const std::function<void()>& event);

  // What the kernel says of it.
  [[nodiscard]] ObservedContainer seen(InstanceId id) const;
  // Containers that are not as planned, by the kernel's word.
  [[nodiscard]] int misplaced() const;

  [[nodiscard]] agent::Drc& drc() { return *drc_; }
  [[nodiscard]] http::AsioLoop& loop() { return loop_; }
  [[nodiscard]] CpuController& controller() { return *controller_; }
  [[nodiscard]] const Containers& containers() const { return containers_; }
  [[nodiscard]] const std::map<InstanceId, agent::LaneAllowance>& lanes() const { return lanes_; }  // as published

 private:
  void lanesChanged(GroupId group, const std::vector<agent::LaneAllowance>& lanes) override;
  void pendingChanged(GroupId, bool) override {}

  NodeOptions options_;
  std::optional<CpuSet> ownMask_;  // before the agent placed this process, too: the next node begins with it
  http::AsioLoop loop_;
  linux::LiveMachine machine_;
  std::unique_ptr<CpuController> controller_;
  std::unique_ptr<agent::RealtimeApplier> applier_;
  std::unique_ptr<agent::HomeJournal> journal_;
  std::unique_ptr<agent::Drc> drc_;
  Containers containers_;
  std::map<InstanceId, agent::LaneAllowance> lanes_;
};

}  // namespace coterie::apply
