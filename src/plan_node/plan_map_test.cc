#include "plan_node/plan_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "plan_node/cpu_owners.h"
#include "plan_node/map_layout.h"
#include "plan_node/map_style.h"
#include "plan_node/plan_rig.h"
#include "testing/machine_generator.h"
#include "testing/xml_tree.h"
#include "text/text.h"

namespace coterie::plan_node {
namespace {

using testing::XmlElement;

std::vector<Machine> allMachines() {
  std::vector<Machine> machines;
  for (const std::string_view name : testing::machineNames()) machines.push_back(testing::machineNamed(name));
  for (const int cpus : {8, 64, 128, 256, 512}) machines.push_back(testing::bigMachine(cpus));
  return machines;
}

XmlElement parsed(const std::string& svg) {
  auto root = testing::parseXml(svg);
  EXPECT_TRUE(root.ok()) << root.error().message;
  EXPECT_EQ(text::firstBadUtf8Line(svg), 0);
  return root.ok() ? std::move(*root) : XmlElement{};
}

std::string titleOf(const XmlElement& element) {
  const auto titles = element.all("title");
  return titles.empty() ? "" : titles.front()->text;
}

TEST(PlanMap, ShowsEveryCpuOnceAndEveryGroupOfEveryMachine) {
  for (const Machine& machine : allMachines()) {
    const GroupsFile file = groupsFor(machine);
    const NodePlan plan = planNode(machine, file, {});
    const XmlElement svg = parsed(planMap(plan));
    EXPECT_EQ(svg.name, "svg");
    std::set<std::string> ids;
    for (const XmlElement* cell : svg.all("g", "cpu")) {
      EXPECT_TRUE(ids.insert(cell->attribute("id")).second) << machine.name << " " << cell->attribute("id");
      EXPECT_FALSE(titleOf(*cell).empty());
    }
    EXPECT_EQ(ids.size(), machine.cpus.size()) << machine.name;
    for (const Cpu& cpu : machine.cpus) EXPECT_TRUE(ids.contains("cpu-" + std::to_string(cpu.id))) << machine.name;
    const auto groups = svg.all("g", "group");
    ASSERT_EQ(groups.size(), file.groups.size()) << machine.name;
    for (std::size_t g = 0; g < groups.size(); ++g)
      EXPECT_NE(groups[g]->all("text").front()->text.find(file.groups[g].name), std::string::npos) << machine.name;
    EXPECT_EQ(svg.all("g", "tenant").size(), file.tenants.size());
    EXPECT_EQ(svg.all("rect", "memory").size(), static_cast<std::size_t>(std::count_if(machine.memoryNodes.begin(), machine.memoryNodes.end(),
                                                                                       [](const MemoryNode& node) { return node.cpus.empty(); })));
  }
}

TEST(PlanMap, EveryFillThatIsUsedIsDefinedAndEveryIdIsUnique) {
  for (const Machine& machine : allMachines()) {
    const GroupsFile file = groupsFor(machine);
    const XmlElement svg = parsed(planMap(planNode(machine, file, {})));
    std::set<std::string> ids;
    for (const XmlElement* element : svg.all("")) {
      const std::string id = element->attribute("id");
      EXPECT_TRUE(id.empty() || ids.insert(id).second) << id;
    }
    for (const XmlElement* element : svg.all("rect")) {
      const std::string fill = element->attribute("fill");
      EXPECT_TRUE(!fill.starts_with("url(#") || ids.contains(fill.substr(5, fill.size() - 6))) << fill;
    }
  }
}

TEST(PlanMap, ACellsFillAndTooltipAreItsOwners) {
  const Machine machine = testing::machineNamed("2x2-nodes");
  const GroupsFile file = groupsFor(machine);
  const NodePlan plan = planNode(machine, file, {});
  const XmlElement svg = parsed(planMap(plan));
  std::map<std::string, const XmlElement*> cells;
  for (const XmlElement* cell : svg.all("g", "cpu")) cells[cell->attribute("id")] = cell;
  int owned = 0;
  for (std::size_t g = 0; g < plan.plan.groups.size(); ++g) {
    if (plan.plan.groups[g].inPool) continue;
    for (const allocation::ContainerTarget& container : plan.plan.groups[g].containers) {
      for (const int cpu : container.home) {
        const XmlElement& cell = *cells.at("cpu-" + std::to_string(cpu));
        EXPECT_EQ(cell.all("rect").front()->attribute("fill"), groupFill(g));
        EXPECT_NE(titleOf(cell).find(file.groups[g].name), std::string::npos) << titleOf(cell);
        ++owned;
      }
    }
  }
  EXPECT_GT(owned, 0);
}

TEST(PlanMap, LoansAreStripedInTheBorrowersPattern) {
  const Machine machine = testing::machineNamed("smt-8");
  const GroupsFile file = groupsFor(machine);
  const NodePlan plan = planNode(machine, file, {});
  CpuSet lent;
  for (const allocation::ContainerTarget& container : plan.plan.groups[1].containers) lent |= container.loans;
  ASSERT_FALSE(lent.empty());
  const XmlElement svg = parsed(planMap(plan));
  for (const XmlElement* cell : svg.all("g", "cpu")) {
    const int cpu = std::stoi(cell->attribute("id").substr(4));
    const auto stripes = cell->all("rect", "loan");
    ASSERT_EQ(!stripes.empty(), lent.contains(cpu)) << cpu;
    if (stripes.empty()) continue;
    EXPECT_EQ(stripes.front()->attribute("fill"), loanFill(1));
    EXPECT_NE(titleOf(*cell).find("lent to audio/notes"), std::string::npos);
  }
}

TEST(PlanMap, OnlyCpusThatChangeHandsHaveACorner) {
  const Machine machine = testing::regularMachine("2 nodes", {2, 1, 1, 4, 1});
  const GroupsFile file = groupsFrom(
      "tenants: [{name: a}, {name: b}]\ngroups:\n  - {name: x, tenant: a, instances: [{home: \"0,2,4,6\"}]}\n"
      "  - {name: y, tenant: b, instances: [{home: \"1,3,5,7\"}]}\n");
  const NodePlan plan = planNode(machine, file, {});
  CpuSet changed;
  for (const ContainerMove& move : plan.moves) changed |= (move.from - move.to) | (move.to - move.from);
  ASSERT_FALSE(changed.empty());
  const XmlElement svg = parsed(planMap(plan));
  for (const XmlElement* cell : svg.all("g", "cpu")) {
    const int cpu = std::stoi(cell->attribute("id").substr(4));
    EXPECT_EQ(!cell->all("path", "moved").empty(), changed.contains(cpu)) << cpu;
    EXPECT_EQ(titleOf(*cell).find("now: ") != std::string::npos, changed.contains(cpu)) << titleOf(*cell);
  }
}

TEST(PlanMap, WhoComesToAFreeMachineMovesNobody) {
  for (const Machine& machine : allMachines()) {
    const GroupsFile file = groupsFor(machine);
    for (const CpuUse& use : cpuUses(planNode(machine, file, {}))) EXPECT_FALSE(use.changesHands) << machine.name << " " << use.cpu;
  }
}

TEST(PlanMap, WhatNobodyMayOwnSaysWhy) {
  Machine machine = testing::machineNamed("smt-8");
  machine.allowed -= CpuSet{1};
  machine.isolated = CpuSet{2};
  const GroupsFile file = groupsFor(machine);
  const NodePlan plan = planNode(machine, file, {allocation::PolicyName::Drc, CpuSet{0}});
  const std::vector<CpuUse> uses = cpuUses(plan);
  EXPECT_EQ(uses[0].closed, Closed::Reserved);
  EXPECT_EQ(uses[1].closed, Closed::NotAllowed);
  EXPECT_EQ(uses[2].closed, Closed::Isolated);
  EXPECT_EQ(uses[3].closed, Closed::No);
  const std::string svg = planMap(plan);
  (void)parsed(svg);
  for (const char* words : {">rsv<", ">n/a<", ">iso<", "nobody may own it"}) EXPECT_NE(svg.find(words), std::string::npos) << words;
}

TEST(PlanMap, TheSamePlanGivesTheSameBytes) {
  const Machine machine = testing::bigMachine(128);
  const GroupsFile file = groupsFor(machine);
  EXPECT_EQ(planMap(planNode(machine, file, {})), planMap(planNode(machine, file, {})));
}

TEST(PlanMap, AMachinesNameCannotBreakThePicture) {
  Machine machine = testing::machineNamed("flat-2");
  machine.name = "a<b>&\"c\" \x01\xff";
  const GroupsFile file = groupsFor(machine);
  const XmlElement svg = parsed(planMap(planNode(machine, file, {})));
  EXPECT_NE(svg.all("title").front()->text.find("a<b>&\"c\" ??"), std::string::npos);
}

// ---- layout ----
bool apart(const MapBox& a, const MapBox& b) {
  return a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
}

TEST(MapLayout, NothingOverlapsAndEverythingIsOnThePicture) {
  for (const Machine& machine : allMachines()) {
    const MapLayout layout = layOut(machine);
    ASSERT_EQ(layout.cells.size(), machine.cpus.size()) << machine.name;
    std::vector<MapBox> cells;
    for (const MapCell& cell : layout.cells)
      cells.push_back({DomainLevel::Core, cell.cpu, "", cell.x, cell.y, layout.cell.width, layout.cell.height});
    for (const auto& all : {cells, layout.boxes, layout.memory}) {
      for (const MapBox& box : all) {
        EXPECT_GE(box.x, 0);
        EXPECT_GE(box.y, 0);
        EXPECT_LE(box.x + box.width, layout.width) << machine.name;
        EXPECT_LE(box.y + box.height, layout.height) << machine.name;
      }
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      for (std::size_t j = i + 1; j < cells.size(); ++j)
        ASSERT_TRUE(apart(cells[i], cells[j])) << machine.name << " " << cells[i].id << " " << cells[j].id;
    }
    for (std::size_t i = 0; i < layout.boxes.size(); ++i) {
      for (std::size_t j = i + 1; j < layout.boxes.size(); ++j) {
        ASSERT_TRUE(layout.boxes[i].level != layout.boxes[j].level || apart(layout.boxes[i], layout.boxes[j])) << machine.name;
      }
    }
  }
}

TEST(MapLayout, ACpuLiesInTheBoxesOfItsDomains) {
  for (const Machine& machine : allMachines()) {
    const MapLayout layout = layOut(machine);
    for (const MapCell& cell : layout.cells) {
      const Cpu& cpu = *machine.findCpu(cell.cpu);
      std::map<DomainLevel, int> ids;
      for (const int domain : {cpu.core, cpu.cache, cpu.node, cpu.socket})
        ids[machine.domains[static_cast<std::size_t>(domain)].level] = machine.domains[static_cast<std::size_t>(domain)].id;
      std::size_t around = 0;
      for (const MapBox& box : layout.boxes) {
        const bool inside = cell.x >= box.x && cell.x + layout.cell.width <= box.x + box.width && cell.y >= box.y &&
                            cell.y + layout.cell.height <= box.y + box.height;
        if (!inside) continue;
        ++around;
        EXPECT_EQ(box.id, ids[box.level]) << machine.name << " CPU " << cell.cpu;
      }
      EXPECT_EQ(around, ids.size()) << machine.name << " CPU " << cell.cpu;
    }
  }
}

TEST(MapLayout, ACompactCellOf512CpusHoldsItsIdAndAMapFitsAWidePage) {
  const MapLayout layout = layOut(testing::bigMachine(512));
  EXPECT_LT(layout.cell.width, cellSizeFor(128).width);
  EXPECT_GE(layout.cell.width, 4 * layout.cell.idFont * 6 / 10) << "four digits";
  EXPECT_GE(layout.cell.height, layout.cell.idFont + layout.cell.ownerFont) << "two lines";
  EXPECT_LE(layout.width, 1600);
  EXPECT_LE(layout.height, 1000);
}

// ---- style ----
TEST(MapStyle, TwentyOneTenantsHaveColoursOfTheirOwn) {
  std::set<std::string> colours;
  for (std::size_t t = 0; t < 21; ++t) EXPECT_TRUE(colours.insert(tenantColour(t)).second) << t;
  EXPECT_EQ(tenantColour(0), "#e69f00");
  EXPECT_EQ(tenantColour(21), tenantColour(0));
}

TEST(MapStyle, TwentyTwoGroupsOfATenantHavePatternsOfTheirOwn) {
  std::string yaml = "tenants: [{name: a}]\ngroups:\n";
  for (int g = 0; g < 22; ++g) yaml += "  - {name: g" + std::to_string(g) + ", tenant: a}\n";
  const GroupsFile file = groupsFrom(yaml);
  const Machine machine = testing::machineNamed("smt-8");
  const std::string svg = planMap(planNode(machine, file, {}));
  std::set<std::string> tiles;
  const XmlElement root = parsed(svg);
  for (const XmlElement* pattern : root.all("pattern")) {
    std::string tile = pattern->attribute("width");
    for (const XmlElement* mark : pattern->all("")) {
      if (mark == pattern) continue;
      tile += " " + mark->name;
      for (const auto& [key, value] : mark->attributes) tile += " " + key + "=" + value;
    }
    EXPECT_TRUE(tiles.insert(tile).second) << tile;
  }
  EXPECT_EQ(tiles.size(), 22U);
}

}  // namespace
}  // namespace coterie::plan_node
