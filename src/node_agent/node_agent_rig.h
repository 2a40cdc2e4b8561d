// What tests of the agent's loop stand on: a machine of four CPUs, a kernel and processes that are not there, and a log of what was written and told.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/drc_rig.h"
#include "node_agent/node_agent.h"
#include "testing/fake_cache_classes.h"
#include "testing/fake_container_meter.h"
#include "testing/fake_processes.h"

namespace coterie::node_agent {

inline constexpr const char* kTwo = R"(
groups:
  - {name: red/s, tenant: red, members: [{command: "red*"}], hints: {file: "/run/{pid}"}}
  - {name: blue/s, tenant: blue, members: [{command: "blue*"}], hints: {file: "/run/{pid}"}}
)";

// Parts of a file.
inline const std::string kRed = "  - {name: red/s, tenant: red, members: [{command: \"red*\"}], hints: {file: \"/run/{pid}\"}}\n";
inline const std::string kBlue = "  - {name: blue/s, tenant: blue, members: [{command: \"blue*\"}], hints: {file: \"/run/{pid}\"}}\n";
inline const std::string kGreen = "  - {name: green/s, tenant: green, members: [{command: \"green*\"}], hints: {file: \"/run/{pid}\"}}\n";
inline const std::string kGroups = "groups:\n";
inline const std::string kEnforced = "mode: enforce\n" + kGroups;

inline const std::string kRedCgroup = "/docker/" + std::string(64, 'a');

struct AgentRig {
  testing::ManualLoop loop;
  agent::MachineStub machine{agent::flatMachine(4)};
  testing::FakeProcesses processes;
  testing::FakeCpuController kernel{CpuSet::range(0, 3)};
  testing::FakeContainerMeter meter;
  CpuController* controller{nullptr};  // in the kernel's place
  agent::ManualApplier applier{loop};
  std::vector<std::string> log;         // "hint red 2 0-1", "write"
  std::map<int, int> threads;           // told last, by pid
  std::map<int, std::string> hintedBy;  // the file's pattern, of hints that are in force
  std::map<int, CpuSet> limits;         // by sets above, by pid, while it observes
  bool kubelet{false};
  std::optional<Error> refusal;                          // of whoever would enforce
  int tries{0};                                          // to, also those that were refused
  std::function<Result<std::optional<Millis>>()> claim;  // the machine; empty: nobody need be asked
  std::unique_ptr<testing::FakeCacheClasses> classes;
  std::unique_ptr<NodeAgent> node;

  void start(const std::string& yaml, Mode mode) {
    ReadAgentFile read = readAgentFile(yaml);
    ASSERT_TRUE(read.faults.empty()) << faultText(read.faults.front());
    read.file.mode = mode;
    NodeAgentConfig config;
    config.file = read.file;
    config.self = 1;
    NodeAgent::Ports ports{loop, processes, machine};
    ports.openActuators = [this](const AgentFile&) -> Result<NodeAgent::Actuators> {
      ++tries;
      if (refusal) return *refusal;
      log.push_back("open");
      return NodeAgent::Actuators{controller != nullptr ? controller : &kernel, &applier, classes.get()};
    };
    if (claim) ports.claimMachine = [this] { return claim(); };
    ports.closeActuators = [this] { log.push_back("close"); };
    ports.meter = &meter;
    ports.limitAbove = [this](const foreign::FoundContainer& one, const CpuSet& cpus) {
      const auto limit = limits.find(one.pid());
      return limit == limits.end() || cpus.isSubsetOf(limit->second) ? "" : "cgroup /docker allows only " + limit->second.toString();
    };
    ports.kubeletIsStatic = [this](const std::string& state) { return kubelet && state != "/none"; };
    ports.sendHint = [this](const HintSpec& spec, const foreign::FoundContainer& container, const ThreadHint& hint) -> Status {
      hintedBy[container.pid()] = hint.threads > 0 ? spec.file : "";
      log.push_back("hint " + container.processes.front().command + " " + std::to_string(hint.threads) + " " + hint.cpus.toString());
      threads[container.pid()] = hint.threads;
      return {};
    };
    applier.setAfterStep([this] { log.push_back("write"); });
    node = std::make_unique<NodeAgent>(std::move(ports), std::move(config));
    ASSERT_TRUE(node->start().ok());
    loop.runUntilIdle();
  }
  // The file has become this one, and that was noticed.
  void reload(const std::string& yaml) {
    ReadAgentFile read = readAgentFile(yaml);
    ASSERT_TRUE(read.faults.empty()) << faultText(read.faults.front());
    node->reconfigure(std::move(read.file));
    loop.advance(Millis(20));
  }
  // A server that the kernel knows, too.
  int begin(const std::string& command, int count = 4) {
    const int pid = kernel.spawn(InstanceId(1), 0, 0).pid;
    processes.begin(command, count, "/", pid);
    return pid;
  }
  // One in a container of docker's.
  int beginContained(const std::string& command, const std::string& cgroup, int count = 4) {
    const int pid = kernel.spawn(InstanceId(1), 0, 0).pid;
    static_cast<void>(meter.cgroup(cgroup));
    processes.begin(command, count, cgroup, pid);
    return pid;
  }
  void end(int pid) {
    processes.end(pid);
    kernel.endProcess(pid);
  }
  // Time passes, and each thread of each process runs and waits for these shares of it, in percent.
  void live(Seconds seconds, const std::map<int, std::pair<int, int>>& shares) {
    for (int tenth = 0; tenth < 10 * seconds.count(); ++tenth) {
      for (const auto& [pid, share] : shares) processes.run(pid, Millis(share.first), Millis(share.second));
      loop.advance(Millis(100));
    }
  }
  [[nodiscard]] ContainerReport container(std::size_t group) { return node->report().groups.at(group).containers.at(0); }
  [[nodiscard]] std::string reasons(std::size_t group) {
    std::string all;
    const AgentReport report = node->report();
    for (const std::string& sentence : report.groups.at(group).reasons) all += sentence + "\n";
    return all;
  }
  [[nodiscard]] std::map<std::string, CpuSet> homes() {
    std::map<std::string, CpuSet> all;
    for (const GroupReport& group : node->report().groups) {
      for (const ContainerReport& container : group.containers) all[container.command] = container.planned;
    }
    return all;
  }
  [[nodiscard]] CpuSet held(const std::string& command) {
    for (const GroupReport& group : node->report().groups) {
      for (const ContainerReport& container : group.containers) {
        const auto seen = kernel.observe(container.id);
        if (container.command == command && seen.ok()) return seen->home;
      }
    }
    return {};
  }
};

inline InstanceId idOf(const AgentRig& rig, const std::string& command) {
  for (const GroupReport& group : rig.node->report().groups) {
    for (const ContainerReport& container : group.containers) {
      if (container.command == command) return container.id;
    }
  }
  return InstanceId(-1);
}

}  // namespace coterie::node_agent
