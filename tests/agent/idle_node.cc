#include "idle_node.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/realtime_applier.h"
#include "base/cpu_clock.h"
#include "foreign/cgroup_path.h"
#include "http/asio_loop.h"
#include "linux/cgroup_meter.h"
#include "linux/cgroup_paths.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/foreign_controller.h"
#include "linux/live_machine.h"
#include "linux/proc_processes.h"
#include "node_agent/node_agent.h"
#include "testing/child_process.h"

namespace coterie::agent_bench {

namespace {

constexpr Seconds kSettles{12};  // until who is young is read no more than the others
constexpr int kGroups = 10, kThreads = 3;

std::string nameOf(int number) {
  const std::string digits = std::to_string(::getpid()) + "c" + std::to_string(number);
  return "docker-" + std::string(64 - digits.size(), 'd') + digits + ".scope";
}

class Fleet {
 public:
  ~Fleet() {
    for (const auto& child : children_) child->end();
    for (const std::string& directory : made_) {
      while (::rmdir(directory.c_str()) != 0 && errno == EBUSY) ::usleep(1000);
    }
  }
  Status make(int count) {
    const linux::CgroupDirectories own = linux::ownCgroupDirectories();
    std::vector<std::string> parents;
    for (const char* controller : {"cpuset", "cpu", "cpuacct", "memory"}) {
      if (const auto found = own.v1.find(controller); found != own.v1.end()) parents.push_back(found->second);
    }
    if (parents.empty() && own.v2) parents.push_back(*own.v2);
    for (int i = 0; i < count; ++i) {
      children_.push_back(std::make_unique<testing::ChildProcess>(kThreads));
      for (const std::string& parent : parents) {
        if (!put(parent, parent + "/" + nameOf(i), children_.back()->pid()))
          return Error{Code::Unavailable, "NoCgroups", "no cgroup can be made below " + parent};
      }
    }
    return parents.empty() ? Status(Error{Code::Unavailable, "NoCgroups", "no cgroups here"}) : Status();
  }

 private:
  bool put(const std::string& parent, const std::string& directory, int pid) {
    if (::mkdir(directory.c_str(), 0755) != 0) return false;
    made_.push_back(directory);
    for (const char* file : {"/cpuset.cpus", "/cpuset.mems"})
      static_cast<void>(linux::writeText(directory + file, linux::readText(parent + file).value_or("")));
    return linux::writeText(directory + "/cgroup.procs", std::to_string(pid)) == 0;
  }
  std::vector<std::unique_ptr<testing::ChildProcess>> children_;
  std::vector<std::string> made_;
};

node_agent::AgentFile configuration() {
  std::string text = "groups:\n";
  for (int i = 0; i < kGroups; ++i) {
    const std::string group = "g" + std::to_string(i);
    text += "  - {name: " + group + ", tenant: " + group + ", members: [{runtime: docker, container: \"*" + std::to_string(i) + "\"}]}\n";
  }
  return node_agent::readAgentFile(text).file;
}

double processSeconds() { return static_cast<double>(ownCpuTime().count()) / 1e9; }

}  // namespace

Result<IdleCost> measureIdle(int containers, node_agent::Mode mode, Seconds time, const std::string& folder) {
  linux::allowManyFiles();
  Fleet fleet;
  if (const Status made = fleet.make(containers); !made) return made.error();
  linux::LiveMachine machine;
  const auto shape = machine.read();
  if (!shape) return shape.error();
  http::AsioLoop loop;
  linux::ProcProcesses processes(loop.clock(), [](std::string_view path) { return !foreign::containerOf(path).id.empty(); });
  linux::CgroupMeter meter;
  std::unique_ptr<node_agent::NodeAgent> agent;
  linux::ForeignController controller(
      shape->allowed,
      [&](InstanceId id) {
        linux::ForeignPlace place;
        const foreign::FoundContainer* member = agent->member(id);
        if (member == nullptr) return place;
        place.cgroup = member->name.cgroup;
        for (const SeenProcess& process : member->processes) place.processes.push_back(process.pid);
        return place;
      },
      folder + "/idle-found");
  auto applier = agent::RealtimeApplier::create(loop, {linux::executeWrite});
  if (!applier) return applier.error();
  node_agent::NodeAgentConfig config;
  config.self = ::getpid();
  config.file = configuration();
  config.file.mode = mode;
  node_agent::NodeAgent::Ports ports{loop, processes, machine};
  ports.openActuators = [&](const node_agent::AgentFile&) -> Result<node_agent::NodeAgent::Actuators> {
    return node_agent::NodeAgent::Actuators{&controller, applier->get()};
  };
  ports.meter = &meter;
  agent = std::make_unique<node_agent::NodeAgent>(std::move(ports), std::move(config));
  if (const Status started = agent->start(); !started) return started.error();
  static_cast<void>(loop.runUntil([] { return false; }, kSettles));
  IdleCost cost;
  for (double* const percent : {&cost.percent, &cost.again}) {
    const double before = processSeconds();
    static_cast<void>(loop.runUntil([] { return false; }, time));
    *percent = 100 * (processSeconds() - before) / static_cast<double>(time.count());
  }
  for (const node_agent::GroupReport& group : agent->report().groups) {
    for (const node_agent::ContainerReport& one : group.containers) cost.containers += one.planned.empty() ? 0 : 1;
  }
  bool left = false;
  agent->stop([&] { left = true; });
  static_cast<void>(loop.runUntil([&] { return left; }, Seconds(5)));
  return cost;
}

}  // namespace coterie::agent_bench
