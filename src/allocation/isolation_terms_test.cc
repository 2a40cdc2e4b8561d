#include "allocation/isolation_terms.h"

#include <gtest/gtest.h>

#include "model/machine_generator.h"

namespace coterie::allocation {
namespace {

bool says(const IsolationTerms& terms, const char* words) { return gapsText(terms).find(words) != std::string::npos; }

TEST(IsolationTerms, SaysOnlyWhatIsTrueHere) {
  IsolationSetting smt;
  smt.units = {{2, 8, 16}, 16, 4, 2};
  smt.reserved = true;
  const IsolationTerms core = isolationTerms(Isolation::Core, smt);
  EXPECT_EQ(core.unitCpus, 2);
  EXPECT_EQ(core.units, 16);
  EXPECT_TRUE(says(core, "the last-level cache and memory bandwidth stay shared"));
  EXPECT_FALSE(says(core, "Coterie's own threads")) << "they have CPUs of their own";
  EXPECT_FALSE(says(core, "virtual machine"));
  const IsolationTerms cache = isolationTerms(Isolation::Cache, smt);
  EXPECT_EQ(cache.unitCpus, 8);
  EXPECT_FALSE(says(cache, "last-level cache"));
  EXPECT_TRUE(says(isolationTerms(Isolation::Node, smt), "whatever memory of others lies on its nodes"));

  smt.cacheWays = true;
  smt.othersBandwidth = 50;
  EXPECT_TRUE(says(isolationTerms(Isolation::Core, smt), "but for the ways that its tenant has to itself"));
  EXPECT_FALSE(says(isolationTerms(Isolation::Core, smt), "held to")) << "only a whole cache or node asks for that";
  EXPECT_TRUE(says(isolationTerms(Isolation::Cache, smt), "held to 50 %"));
  EXPECT_TRUE(says(isolationTerms(Isolation::Node, smt), "lies on its nodes, of which each core of another tenant"));

  IsolationSetting small;
  small.units = {{1, 1, 2}, 2, 2, 1};
  small.virtualMachine = true;
  const IsolationTerms here = isolationTerms(Isolation::Core, small);
  EXPECT_FALSE(says(here, "last-level cache")) << "a core has one of its own";
  EXPECT_TRUE(says(here, "Coterie's own threads"));
  EXPECT_TRUE(says(here, "virtual machine"));
  EXPECT_EQ(isolationTerms(Isolation::None, small).unitCpus, 0);
}

TEST(IsolationTerms, OnePartOfTheTextFollowsWhoseCpusAreSet) {
  IsolationSetting setting;
  setting.units = {{1, 4, 4}, 4, 1, 1};
  EXPECT_EQ(isolationText(Isolation::Cache, isolationTerms(Isolation::Cache, setting)),
            "isolation cache keeps other tenants off its last-level caches. Shared all the same: memory bandwidth stays shared. Not kept away: "
            "Coterie's own threads, workers that are loading a model, and programs that Coterie did not start");
  setting.managed = Managed::Groups;
  EXPECT_EQ(
      isolationTerms(Isolation::Cache, setting).gaps,
      (std::vector<std::string>{"memory bandwidth stays shared", "Not kept away: Coterie's own threads, and programs that belong to no group"}));
  setting.reserved = true;
  EXPECT_EQ(isolationTerms(Isolation::Cache, setting).gaps.back(), "Not kept away: programs that belong to no group");
}

TEST(IsolationTerms, UnitsAreThoseThatMayBeOwned) {
  const IsolationUnits units = isolationUnits(makeLayout(machineNamed("smt-8"), {}));
  EXPECT_EQ(units.cores, 4);
  EXPECT_EQ(units.sizes.core, 2);
  EXPECT_EQ(isolationUnits(makeLayout(machineNamed("smt-8"), CpuSet{0, 1, 2, 3, 4, 5, 6})).cores, 1);
}

}  // namespace
}  // namespace coterie::allocation
