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

// A machine of 2 x 512 MiB with huge pages, as its kernel shows it: it killed for want of memory with 24 MiB of a node free.
TEST(MemoryReader, WhatTheKernelKeepsForItselfCannotBeHad) {
  constexpr std::string_view kZones =
      "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 7\n  pages free     3840\n        boost    0\n        min      10\n"
      "        low      13\n        high     16\n        managed  3840\n    cpu: 0\n              count:    7\n              high:     65\n"
      "Node 0, zone    DMA32\n        min      100\n        low      200\n        high     300\n"
      "Node 1, zone   Normal\n        boost    4096\n        min      10000\n        low      11000\n        high     12000\n        highest 9\n"
      "Node 1, zone  Movable\n        high     32\nNode x, zone Normal\n        high     5\n        high\n";
  const std::map<int, Bytes> kept = keptByKernel(kZones, Bytes(4096));
  EXPECT_EQ(kept, (std::map<int, Bytes>{{0, Bytes(316 * 4096)}, {1, Bytes(7936 * 4096)}}));
  EXPECT_EQ(freeOfNode("Node 1 MemTotal: 524288 kB\nNode 1 MemFree: 40960 kB\n", kept.at(1)), Bytes(40960 * 1024 - 7936 * 4096));
  EXPECT_EQ(freeOfNode("Node 1 MemTotal: 524288 kB\nNode 1 MemFree: 24576 kB\n", kept.at(1)), Bytes(0)) << "less than is kept: nothing";
  EXPECT_TRUE(keptByKernel("", Bytes(4096)).empty());
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
    Bytes all;
    for (const NodeFree& one : free) all += one.free;
    EXPECT_GT(all, Bytes(0));
  }
}

}  // namespace
}  // namespace coterie::linux
