#include "linux/memory_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "testing/child_process.h"

namespace coterie::linux {
namespace {

constexpr Bytes kMebibyte{1 << 20};

TEST(MemoryReader, WhatCanBeHadOfANodeIsWhatIsFreeAndWhatNeedsOnlyBeDropped) {
  const struct {
    const char* what;
    const char* text;
    std::optional<std::int64_t> kibibytes;
  } rows[] = {
      {"free alone", "Node 0 MemTotal:        4000 kB\nNode 0 MemFree:         1000 kB\n", 1000},
      {"files' pages and the kernel's caches can be dropped",
       "\nNode 1 MemTotal:  9000 kB\nNode 1 MemFree:  1000 kB\nNode 1 Active:  700 kB\nNode 1 Inactive:  900 kB\nNode 1 Active(anon):  400 kB\n"
       "Node 1 Active(file):  300 kB\nNode 1 Inactive(file):  500 kB\nNode 1 Dirty:  0 kB\nNode 1 KReclaimable:  60 kB\nNode 1 SReclaimable:  50 "
       "kB\n",
       1850},
      {"what is not written yet cannot",
       "Node 0 MemFree: 100 kB\nNode 0 Inactive(file): 500 kB\nNode 0 Dirty: 200 kB\nNode 0 Writeback: 50 kB\nNode 0 WritebackTmp: 9 kB\n", 350},
      {"never less than what is free", "Node 0 MemFree: 100 kB\nNode 0 Dirty: 200 kB\n", 100},
      {"never more than there is", "Node 0 MemTotal: 100 kB\nNode 0 MemFree: 90 kB\nNode 0 Active(file): 20 kB\n", 100},
      {"no meminfo", "", std::nullopt},
      {"without its number", "Node 0 MemFree:", std::nullopt},
  };
  for (const auto& row : rows) {
    const auto free = freeOfNode(row.text);
    ASSERT_EQ(free.has_value(), row.kibibytes.has_value()) << row.what;
    EXPECT_EQ(free.value_or(Bytes(0)).value, row.kibibytes.value_or(0) * 1024) << row.what;
  }
  EXPECT_EQ(availableOf("MemTotal:  10 kB\nMemFree:  3 kB\nMemAvailable:   7 kB\n"), Bytes(7 * 1024));
  EXPECT_EQ(availableOf("MemTotal:  10 kB\n"), std::nullopt);
}

TEST(MemoryReader, PressureIsTheShareOfTheLastTenSecondsInWhichSomebodyWaited) {
  EXPECT_EQ(memoryPressureOf("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"), 0);
  EXPECT_EQ(memoryPressureOf("some avg10=12.34 avg60=1.00 avg300=0.10 total=55\n"), 123);
  EXPECT_EQ(memoryPressureOf("some avg10=100.00 avg60=1.00 avg300=0.10 total=55\n"), 1000);
  for (const char* broken : {"", "some", "some avg10=", "some avg10=x", "some avg10=-1.00", "some avg10=400.0", "full avg10=1.00"})
    EXPECT_EQ(memoryPressureOf(broken), std::nullopt) << broken;
}

TEST(MemoryReader, AProcessHasMemoryUntilItEnds) {
  EXPECT_GT(residentOf(::getpid()), kMebibyte);
  int pid = 0;
  {
    testing::ChildProcess child(1);
    pid = child.pid();
    const Bytes before = residentOf(pid);
    EXPECT_GT(before, Bytes(0));
    static_cast<void>(child.touch(Bytes(16) * 1048576));
    EXPECT_GE(residentOf(pid), before + kMebibyte * 15);
  }
  EXPECT_EQ(residentOf(pid), Bytes(0));
}

TEST(MemoryReader, EveryNodeWithMemoryIsRead) {
  NodeMemory memory;
  for (int look = 0; look < 2; ++look) {
    const std::vector<NodeFree> free = memory.free();
    ASSERT_FALSE(free.empty());
    for (const NodeFree& one : free) EXPECT_GT(one.free, Bytes(0)) << one.node;
  }
}

}  // namespace
}  // namespace coterie::linux
