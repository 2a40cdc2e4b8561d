// What is too large is refused before anything is built, by the field that makes it so.
#include "linux/synthetic_limits.h"

#include <gtest/gtest.h>

#include <string>

#include "linux/machine_source_text.h"

namespace coterie::linux {
namespace {

TEST(SyntheticLimits, NameTheFieldThatPassesThem) {
  struct Row {
    const char* description;
    const char* said;  // empty: it may be built
  };
  const Row rows[] = {
      {"pack:2 core:4 pu:2", ""},
      {"pack:8 numa:8 core:64 pu:2", ""},
      {"4 8 256", ""},
      {"core:1024 pu:8", ""},
      {"pack:2 [numa(memory=16GB)] core:8 pu:2", ""},
      {"(memory=64GB) pack:2 numa:2(memory=4096000 indexes=2*2:1*2) l3:4(size=1MB) core:4 pu:1", ""},
      {"numa:1024 core:8 pu:1", ""},
      {"pack:2(memory=1024TB) core:2", ""},
      {"pack:2 numa:1(memory=0x10GB indexes=0,1) l3:1(size=32MB) pu:2", ""},
      {"what", ""},           // hwloc's to say
      {"core:x pu:2", ""},    //
      {"core:-3 pu:2", ""},   //
      {"pack:0 core:4", ""},  //
      {"", ""},
      {"pack:2 core:50000 pu:1", "\"core:50000\" makes it 50000 side by side: 1024 are the most that a described machine may have"},
      {"pack:4 core:1024 pu:3", "\"pu:3\" makes it 12288 CPUs or more: 8192 are the most that a described machine may have"},
      {"1025", "\"1025\" makes it 1025 side by side: 1024 are the most that a described machine may have"},
      {"pack:999999999999999999999999 pu:1",
       "\"pack:999999999999999999999999\" makes it too many side by side: 1024 are the most that a described "
       "machine may have"},
      {"pack:4000000000 core:4000000000 pu:4000000000",
       "\"pack:4000000000\" makes it 4000000000 side by side: 1024 are the most that a described machine may have"},
      {"pack:2 numa:600 pu:1", "\"numa:600\" makes it 1200 NUMA nodes: 1024 are the most that a described machine may have"},
      {"pack:64 NUMANode:32 pu:2", "\"NUMANode:32\" makes it 2048 NUMA nodes: 1024 are the most that a described machine may have"},
      {"pack:2 node:1024(memory=1GB) pu:1", "\"node:1024\" makes it 2048 NUMA nodes: 1024 are the most that a described machine may have"},
      {"group:1000 [numa] [numa(memory=1GB)] pu:2",
       "\"[numa(memory=1GB)]\" makes it 2000 NUMA nodes: 1024 are the most that a described machine may have"},
      {"numa:2(memory=99999999999999999999GB) core:2 pu:1",
       "\"memory=99999999999999999999GB\" is too much memory: 1024TB are the most that a node or a cache of a described machine may have"},
      {"numa:2(indexes=0,1 memory=1048577gb) core:2",
       "\"memory=1048577gb\" is too much memory: 1024TB are the most that a node or a cache of a described machine may have"},
      {"numa:2(memory=-1) core:2", "\"memory=-1\" is too much memory: 1024TB are the most that a node or a cache of a described machine may have"},
      {"pack:2 [numa(memory=1025TB)] core:2",
       "\"memory=1025TB\" is too much memory: 1024TB are the most that a node or a cache of a described machine may have"},
      {"pack:2 l3:1(size=0xffffffffffffffff) core:2",
       "\"size=0xffffffffffffffff\" is too much memory: 1024TB are the most that a node or a cache of a described machine may have"},
  };
  for (const Row& row : rows) {
    const Status checked = checkSyntheticSize(row.description);
    EXPECT_EQ(checked.ok() ? std::string() : checked.error().message, row.said) << row.description;
    if (!checked) {
      EXPECT_EQ(checked.error().reason, "MachineTooLarge");
    }
  }
}

TEST(SyntheticLimits, StandBeforeTheMachineOnTheCommandLine) {
  const auto refused = machineFromSource("synthetic:pack:2 core:50000 pu:1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "MachineTooLarge");
  EXPECT_NE(refused.error().message.find("core:50000"), std::string::npos) << refused.error().message;
  const auto threads = machineFromSource("synthetic:pack:16 core:512");  // people end with the cores
  ASSERT_TRUE(threads) << threads.error().message;
  EXPECT_EQ(threads->online.count(), 8192);
}

}  // namespace
}  // namespace coterie::linux
