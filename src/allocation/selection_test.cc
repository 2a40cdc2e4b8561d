#include "allocation/selection.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "allocation/assignment.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

// Places `count` CPUs for a newcomer where only `free` is free.
CpuSet place(const Machine& machine, const CpuSet& free, int count, int chunk = 1 << 20) {
  const Layout layout = makeLayout(machine, {});
  Board board(layout, {TenantId(0), TenantId(1)});
  for (const int position : layout.toPositions(machine.online - free)) board.give(position, 1);
  board.grow(0, 0, count, std::min(chunk, count));
  return layout.toSet(board.owned(0));
}
CpuSet set(const char* list) { return CpuSet::parse(list).value(); }

// Rows of kubelet's own tables (kubernetes/kubernetes, cpu_assignment_test and issue 106599).
TEST(Selection, WholeNodesBeforeParts) {
  const Machine machine = testing::regularMachine("4x10", {4, 1, 0, 10, 2});
  EXPECT_EQ(place(machine, machine.online, 20), set("0-9,40-49"));
  EXPECT_EQ(place(machine, machine.online, 40), set("0-19,40-59"));
  EXPECT_EQ(place(machine, machine.online - set("0,40"), 60), set("10-39,50-79"));
}
TEST(Selection, WholeCoresInTheCacheThatHoldsThemAll) {
  const Machine machine = testing::regularMachine("2-caches", {1, 1, 2, 4, 2});
  EXPECT_EQ(place(machine, set("2-3,10-11,4-7,12-15"), 6), set("4-6,12-14"));
}
TEST(Selection, Kubernetes106599FewNodesAndWholeCoresFirst) {
  const Machine machine = testing::regularMachine("8x16", {2, 4, 0, 16, 2});
  const CpuSet free = set("0,128,30,31,158,159,43-47,171-175,62,63,190,191,75-79,203-207,94,96,222,223,101-111,229-239,126,127,254,255");
  const CpuSet got = place(machine, free, 28);
  ASSERT_EQ(got.count(), 28);
  EXPECT_TRUE(got.isSubsetOf(free));
  CpuSet nodes;
  int halves = 0;
  for (const int cpu : got) {
    halves += got.contains(cpu < 128 ? cpu + 128 : cpu - 128) ? 0 : 1;
    nodes.add(machine.findCpu(cpu)->node);
  }
  EXPECT_LE(nodes.count(), 2) << "node 6 has 23 of them, another the rest";
  EXPECT_LE(halves, 2) << "96, whose sibling is taken, and one for the odd number that is left";
}
TEST(Selection, Kubernetes123816TheTightestNodeSoThatTheNextOneFits) {
  const Machine machine = testing::regularMachine("2x32", {2, 1, 0, 32, 1});
  const CpuSet first = place(machine, machine.online, 27);
  EXPECT_EQ(first, set("0-26"));
  EXPECT_EQ(place(machine, machine.online - first, 27), set("32-58"));
  EXPECT_EQ(place(machine, machine.online - first, 5), set("27-31")) << "a small one fills the gap";
}
TEST(Selection, ContainersStayWholeWhereTheGroupMustSpread) {
  const Machine machine = testing::regularMachine("2-caches", {1, 1, 2, 4, 1});
  EXPECT_EQ(place(machine, set("0-2,4-6"), 4, 2), set("0-1,4-5")) << "2+2, not 3+1";
}
TEST(Selection, TheOddCpuOfACoreIsTakenBesideNobody) {
  const Machine machine = testing::regularMachine("smt", {1, 1, 1, 4, 2});
  EXPECT_EQ(place(machine, set("4,1-3,5-7"), 1), set("1")) << "not beside the stranger on CPU 0";
  EXPECT_EQ(place(machine, set("4"), 1), set("4")) << "unless there is nothing else";
}
TEST(Selection, GrowsNextToWhatItHolds) {
  const Machine machine = testing::machineNamed("8-nodes-caches");
  const Layout layout = makeLayout(machine, {});
  Board board(layout, {TenantId(0)});
  for (const int cpu : {12, 13}) board.give(layout.positionOf(cpu), 0);
  board.grow(0, 0, 2, 1);
  EXPECT_EQ(layout.toSet(board.owned(0)), set("12-15"));
}
TEST(Selection, ShedsTheFarthestFirst) {
  const Machine machine = testing::machineNamed("8-nodes-caches");
  const Layout layout = makeLayout(machine, {});
  Board board(layout, {TenantId(0)});
  for (const int cpu : {4, 5, 6, 7, 30}) board.give(layout.positionOf(cpu), 0);
  board.shed(0, 0, 1);
  EXPECT_EQ(layout.toSet(board.owned(0)), set("4-7"));
  board.shed(0, 0, 2);
  EXPECT_EQ(layout.toSet(board.owned(0)), set("4-5"));
}

// ---- container resource assignment ----
std::vector<CpuSet> assign(const Machine& machine, const CpuSet& cpus, const std::vector<CpuSet>& held) {
  const Layout layout = makeLayout(machine, {});
  std::vector<Positions> now;
  for (const CpuSet& one : held) now.push_back(layout.toPositions(one & cpus));
  std::vector<CpuSet> result;
  for (const Positions& one : assignContainers(layout, layout.toPositions(cpus), now)) result.push_back(layout.toSet(one));
  return result;
}
TEST(Assignment, Table) {
  const Machine machine = testing::regularMachine("2-caches", {1, 1, 2, 4, 1});
  using Sets = std::vector<CpuSet>;
  EXPECT_EQ(assign(machine, set("0-7"), {{}, {}}), (Sets{set("0-3"), set("4-7")})) << "a cache each";
  EXPECT_EQ(assign(machine, set("0-2,4-5"), {{}, {}}), (Sets{set("0-2"), set("4-5")}));
  EXPECT_EQ(assign(machine, set("0-4"), {set("3-4"), set("0-2")}), (Sets{set("3-4"), set("0-2")})) << "the larger share is kept";
  EXPECT_EQ(assign(machine, set("0-3"), {set("0-3"), {}}), (Sets{set("0-1"), set("2-3")}));
  EXPECT_EQ(assign(machine, set("0-1"), {{}, {}, {}, {}}), (Sets{set("0"), set("0"), set("1"), set("1")}))
      << "fewer CPUs than containers: shared evenly";
  EXPECT_EQ(assign(machine, set("0-1"), {set("1"), set("1"), set("1"), {}}), (Sets{set("1"), set("1"), set("0"), set("0")}));
}

}  // namespace
}  // namespace coterie::allocation
