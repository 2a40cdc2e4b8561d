#include "allocation/unit_packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "allocation/unit_counts.h"
#include "base/rng.h"
#include "model/machine_generator.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

Layout layoutOf(const testing::MachineShape& shape, const char* offline) {
  testing::MachineShape with = shape;
  if (*offline != '\0') with.offline = CpuSet::parse(offline).value();
  return makeLayout(testing::regularMachine("m", with), {});
}

TEST(UnitCounts, OfOneSizeAreMultiples) {
  const Layout layout = layoutOf({1, 2, 0, 2, 2}, "");
  const UnitCounts counts(layout);
  EXPECT_TRUE(counts.even(Isolation::Core));
  EXPECT_EQ(counts.least(Isolation::Core, 3), 4);
  EXPECT_EQ(counts.most(Isolation::Core, 3), 2);
  EXPECT_EQ(counts.least(Isolation::Node, 5), 8);
  EXPECT_EQ(counts.least(Isolation::Node, 9), 12) << "more than there is is rounded up too";
  EXPECT_EQ(counts.least(Isolation::None, 3), 3);
}

TEST(UnitCounts, OfSeveralSizesAreTheSumsThatThereAre) {
  const Layout layout = makeLayout(shapeNamed("hybrid-3-kinds-22").value(), {});
  const UnitCounts counts(layout);  // caches of 2 and 20 CPUs
  EXPECT_FALSE(counts.even(Isolation::Cache));
  const std::int64_t least[][2] = {{0, 0}, {1, 2}, {2, 2}, {3, 20}, {20, 20}, {21, 22}, {22, 22}, {23, 40}};
  for (const auto& [asked, wanted] : least) EXPECT_EQ(counts.least(Isolation::Cache, asked), wanted) << asked;
  const std::int64_t most[][2] = {{0, 0}, {1, 0}, {2, 2}, {19, 2}, {20, 20}, {21, 20}, {22, 22}, {99, 22}};
  for (const auto& [asked, wanted] : most) EXPECT_EQ(counts.most(Isolation::Cache, asked), wanted) << asked;
}

// Every way to take whole units for one need after the other: the fewest CPUs.
class Enumeration {
 public:
  Enumeration(const Layout& layout, const std::vector<UnitNeed>& needs) : layout_(layout), needs_(needs), taken_(layout.ids.size(), false) {}
  std::optional<int> fewest() {
    next(0);
    return best_;
  }

 private:
  void next(std::size_t need) {
    const auto used = static_cast<int>(std::count(taken_.begin(), taken_.end(), true));
    if (best_ && used >= *best_) return;
    if (need == needs_.size()) {
      best_ = used;
    } else {
      take(need, 0, needs_[need].cpus);
    }
  }
  void take(std::size_t need, std::size_t branch, int missing) {
    if (missing <= 0) return next(need + 1);
    if (branch == layout_.branches.size()) return;
    const Layout::Branch& unit = layout_.branches[branch];
    const auto begin = taken_.begin() + unit.begin;
    const auto end = taken_.begin() + unit.end;
    if (unit.level == unitLevel(needs_[need].isolation) && std::none_of(begin, end, [](bool one) { return one; })) {
      std::fill(begin, end, true);
      take(need, branch + 1, missing - unit.size());
      std::fill(begin, end, false);
    }
    take(need, branch + 1, missing);
  }
  const Layout& layout_;
  const std::vector<UnitNeed>& needs_;
  std::vector<bool> taken_;
  std::optional<int> best_;
};

TEST(UnitPacking, TightestIsWhatEnumerationFinds) {
  struct Small {
    testing::MachineShape shape;
    const char* offline;
  };
  const Small shapes[] = {{{1, 1, 0, 4, 2}, ""},  {{1, 1, 0, 5, 2}, "7,9"},     {{1, 2, 0, 3, 2}, "6-7"},   {{1, 1, 2, 3, 2}, "11"},
                          {{1, 3, 0, 3, 1}, "8"}, {{1, 2, 2, 3, 1}, "5,10-11"}, {{2, 2, 1, 3, 1}, "4,7-8"}, {{1, 2, 2, 2, 2}, "3,9,12-13"}};
  int found = 0;
  int none = 0;
  for (int round = 0; round < 3000; ++round) {
    Rng rng(static_cast<std::uint64_t>(round));
    const Small& small = shapes[static_cast<std::size_t>(round) % std::size(shapes)];
    const Layout layout = layoutOf(small.shape, small.offline);
    const UnitCounts counts(layout);
    std::vector<UnitNeed> needs;
    for (std::int64_t n = rng.between(1, 4); n > 0; --n)
      needs.push_back({static_cast<Isolation>(rng.between(1, 3)), static_cast<int>(rng.between(1, rng.chance(50) ? 2 : 5)), {}});
    const std::optional<UnitPacking> packing = UnitPacker(layout, counts).packTightest(needs);
    const std::optional<int> fewest = Enumeration(layout, needs).fewest();
    ASSERT_EQ(packing.has_value(), fewest.has_value()) << "round " << round;
    if (!packing) {
      ++none;
      continue;
    }
    ++found;
    ASSERT_EQ(packing->cpus, *fewest) << "round " << round;
    EXPECT_EQ(std::accumulate(packing->cpusOf.begin(), packing->cpusOf.end(), 0), packing->cpus);
    std::vector<bool> taken(layout.ids.size(), false);
    for (std::size_t n = 0; n < needs.size(); ++n) {
      int cpus = 0;
      for (const int unit : packing->units[n]) {
        const Layout::Branch& branch = layout.branches[static_cast<std::size_t>(unit)];
        ASSERT_EQ(branch.level, unitLevel(needs[n].isolation));
        for (int position = branch.begin; position < branch.end; ++position, ++cpus) {
          ASSERT_FALSE(taken[static_cast<std::size_t>(position)]) << "a CPU given twice, round " << round;
          taken[static_cast<std::size_t>(position)] = true;
        }
      }
      ASSERT_GE(cpus, needs[n].cpus);
      ASSERT_EQ(cpus, packing->cpusOf[n]);
    }
  }
  EXPECT_GT(found, 1000);
  EXPECT_GT(none, 100);
}

TEST(UnitPacking, OfEqualUnitsEverybodyGetsWhatItHolds) {
  const Layout layout = layoutOf({1, 1, 0, 4, 2}, "");
  const UnitCounts counts(layout);
  const int second = layout.positionOf(1);
  const auto packing =
      UnitPacker(layout, counts).pack({{Isolation::Core, 2, {}}, {Isolation::Core, 1, {layout.positionOf(0)}}, {Isolation::Core, 1, {second}}}, 8);
  ASSERT_TRUE(packing);
  const Layout::Branch& kept = layout.branches[static_cast<std::size_t>(packing->units[2].front())];
  EXPECT_TRUE(kept.begin <= second && second < kept.end);
}

// Thirty-two nodes of as many sizes, and one group that needs almost all of them: all sets of nodes were tried.
TEST(UnitPacking, ManySizesAreNotAllTried) {
  Machine machine = shapeNamed("64-nodes-4096").value();
  CpuSet reserved;
  for (int node = 0; node < 32; ++node) {
    const std::vector<int> cpus = machine.memoryNodes[static_cast<std::size_t>(node)].cpus.toVector();
    for (int cpu = 0; cpu < node; ++cpu) reserved.add(cpus[static_cast<std::size_t>(cpu)]);
  }
  const Layout layout = makeLayout(machine, reserved);
  const UnitCounts counts(layout);
  for (const int floor : {layout.size(), layout.size() - 1, layout.size() / 2}) {
    const auto packing = UnitPacker(layout, counts).pack({{Isolation::Node, floor, {}}}, layout.size());
    ASSERT_TRUE(packing) << floor;
    EXPECT_GE(packing->cpus, floor);
  }
}

// Many sizes and a limit that cannot be met: it ends, and says that it found nothing.
TEST(UnitPacking, EndsWhereItWouldHaveToTryTooMuch) {
  const Layout layout = makeLayout(shapeNamed("uneven-caches-44").value(), {});
  const UnitCounts counts(layout);
  std::vector<UnitNeed> needs;
  for (int n = 0; n < 12; ++n) needs.push_back({n % 2 == 0 ? Isolation::Cache : Isolation::Core, 1 + n % 5, {}});
  EXPECT_FALSE(UnitPacker(layout, counts).pack(needs, 43));
}

}  // namespace
}  // namespace coterie::allocation
