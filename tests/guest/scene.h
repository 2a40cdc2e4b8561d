// What the scenes in guests stand on: a node under the agent with real processes (tests/apply), and the kernel's own word on where they may run and
// where their memory lies. A scene prints its figures in lines that begin with FIGURE, which tools/guest.sh passes on. Times are the guest's, which
// is emulated: they are printed, never judged.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent_node.h"
#include "base/cpu_set.h"
#include "model/machine.h"

namespace coterie::guest {

constexpr const char* kCgroups = "/sys/fs/cgroup";

class Scene : public ::testing::Test {
 protected:
  void SetUp() override;  // skips outside a guest
  void TearDown() override { node_.reset(); }

  // The agent, as the product has it unless told otherwise.
  void begin(agent::DrcConfig config = {});
  // A service with so many containers, told in this turn of the loop. Ids of containers: 100 * service, and up.
  void add(const agent::GroupSpec& spec, int containers, int ownLanes = 2);
  void settle();

  [[nodiscard]] apply::AgentNode& node() { return *node_; }
  [[nodiscard]] const Machine& machine() { return node_->drc().machine(); }
  [[nodiscard]] static InstanceId container(int service, int index = 0) { return InstanceId(100 * service + index); }
  // CPUs that the kernel lets a service's containers run on.
  [[nodiscard]] CpuSet cpusOf(int service);
  [[nodiscard]] CpuSet usable();  // CPUs that services may have here

  // What holds at every rest: each container where the plan has it, none empty, none on a CPU that is offline, isolated or reserved, and no CPU owned
  // by two services that have whole ones.
  void expectSound();

 private:
  std::unique_ptr<apply::AgentNode> node_;
};

// "FIGURE Suite.Name: text"
void figure(const std::string& text);
[[nodiscard]] std::string secondsText(Nanos time);

// The kernel's word.
[[nodiscard]] CpuSet mayRunOn(int tid);
[[nodiscard]] std::string cgroupOf(int pid);  // its directory
[[nodiscard]] std::string textIn(const std::string& path);
void write(const std::string& path, std::string_view text);  // a test failure if it is refused
// Pages of a mapping by memory node (/proc/PID/numa_maps).
[[nodiscard]] std::map<int, std::int64_t> pagesByNode(int pid, std::uint64_t address);

// Memory nodes with CPUs that a set of CPUs touches.
[[nodiscard]] CpuSet nodesOf(const Machine& machine, const CpuSet& cpus);
// Ids of the domains of a level that a set touches, as indices into Machine::domains.
[[nodiscard]] CpuSet unitsOf(const Machine& machine, const CpuSet& cpus, DomainLevel level);

}  // namespace coterie::guest
