#include "scene.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "linux/files.h"

namespace coterie::guest {

void Scene::SetUp() {
  if (std::getenv("COTERIE_IN_GUEST") == nullptr) GTEST_SKIP() << "changes the whole machine: in a guest only (./dev guest)";
}

void Scene::begin(agent::DrcConfig config) {
  apply::NodeOptions options;
  options.drc = std::move(config);
  options.drc.writeDeadline = Seconds(5);  // emulation is slow: no write counts as stuck
  node_ = std::make_unique<apply::AgentNode>(std::move(options));
  const Status started = node_->start();
  ASSERT_TRUE(started.ok()) << started.error().message;
  ASSERT_EQ(node_->drc().view().controller, "cgroup-v2");
}

void Scene::add(const agent::GroupSpec& spec, int containers, int ownLanes) {
  node_->drc().setGroup(spec);
  for (int i = 0; i < containers; ++i) node_->ready(container(spec.id.value, i), apply::makeContainer(spec.id, ownLanes, 0));
}

void Scene::settle() {
  ASSERT_TRUE(node_->passUntil([this] { return node_->drc().settled(); }, Seconds(60))) << "a plan is not in force";
}

CpuSet Scene::cpusOf(int service) {
  CpuSet cpus;
  for (const auto& [id, one] : node_->containers()) {
    if (one.group == GroupId(service)) cpus |= node_->seen(id).effective;
  }
  return cpus;
}

CpuSet Scene::usable() { return (machine().allowed & machine().online) - machine().isolated - node_->drc().view().reserved; }

void Scene::expectSound() {
  std::map<int, GroupId> owners;
  for (const auto& [id, one] : node_->containers()) {
    const CpuSet home = node_->drc().plannedHome(id);
    const ObservedContainer seen = node_->seen(id);
    EXPECT_FALSE(home.empty()) << id.value;
    EXPECT_EQ(seen.effective, home) << id.value << ": " << seen.effective.toString() << ", planned " << home.toString();
    EXPECT_TRUE(seen.uniform) << id.value;
    EXPECT_TRUE(home.isSubsetOf(usable())) << id.value << ": " << home.toString() << " of " << usable().toString();
    for (const int tid : linux::threadsOf(one.process->pid())) EXPECT_TRUE(mayRunOn(tid).isSubsetOf(home)) << mayRunOn(tid).toString();
    for (const int cpu : home) {
      const auto [owner, first] = owners.try_emplace(cpu, one.group);
      const bool pooled = node_->drc().view().pool.contains(cpu);
      EXPECT_TRUE(first || pooled || owner->second == one.group) << "CPU " << cpu << " of " << owner->second.value << " and " << one.group.value;
    }
  }
}

void figure(const std::string& text) {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::printf("FIGURE %s.%s: %s\n", test->test_suite_name(), test->name(), text.c_str());
  std::fflush(stdout);
}

std::string secondsText(Nanos time) { return fmt::format("{:.2f} s", static_cast<double>(time.count()) / 1e9); }

CpuSet mayRunOn(int tid) { return linux::affinityOf(tid).value_or(CpuSet{}); }

std::string cgroupOf(int pid) {
  std::istringstream lines(textIn("/proc/" + std::to_string(pid) + "/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("0::", 0) == 0) return kCgroups + line.substr(3);
  }
  return {};
}

std::string textIn(const std::string& path) {
  std::string text = linux::readText(path).value_or("");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void write(const std::string& path, std::string_view text) {
  EXPECT_EQ(linux::writeText(path, std::string(text)), 0) << "cannot write " << text << " to " << path;
}

std::map<int, std::int64_t> pagesByNode(int pid, std::uint64_t address) {
  std::map<int, std::int64_t> pages;
  std::ifstream lines("/proc/" + std::to_string(pid) + "/numa_maps");
  for (std::string line; std::getline(lines, line);) {
    if (std::strtoull(line.c_str(), nullptr, 16) != address) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      if (word[0] == 'N' && equals != std::string::npos) pages[std::atoi(word.c_str() + 1)] += std::strtoll(word.c_str() + equals + 1, nullptr, 10);
    }
  }
  return pages;
}

CpuSet nodesOf(const Machine& machine, const CpuSet& cpus) {
  CpuSet nodes;
  for (const MemoryNode& node : machine.memoryNodes) {
    if (node.cpus.intersects(cpus)) nodes.add(node.id);
  }
  return nodes;
}

CpuSet unitsOf(const Machine& machine, const CpuSet& cpus, DomainLevel level) {
  CpuSet units;
  for (const int id : cpus) {
    const Cpu* cpu = machine.findCpu(id);
    if (cpu == nullptr) continue;
    units.add(level == DomainLevel::Node     ? cpu->node
              : level == DomainLevel::Cache  ? cpu->cache
              : level == DomainLevel::Socket ? cpu->socket
                                             : cpu->core);
  }
  return units;
}

}  // namespace coterie::guest
