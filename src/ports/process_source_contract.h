// The contract of ProcessSource as tests: each adapter instantiates them with a way to begin and end a process that works for a moment.
//
//   INSTANTIATE_TEST_SUITE_P(Proc, ProcessSourceContract, ::testing::Values(ProcessSourceFactory{"proc", makeProc}), processSourceName);
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ports/process_source.h"

namespace coterie::contract {

struct ProcessSourceHarness {
  std::unique_ptr<ProcessSource> source;
  std::function<int(int threads)> begin;  // a process of the caller with that many threads; returns when they are there
  std::function<void(int pid)> work;      // it has used some CPU time when this returns
  std::function<void(int pid)> end;       // returns when it has gone
  std::shared_ptr<void> keep;
};
struct ProcessSourceFactory {
  std::string name;
  std::function<ProcessSourceHarness()> make;
  friend void PrintTo(const ProcessSourceFactory& factory, std::ostream* out) { *out << factory.name; }
};
inline std::string processSourceName(const ::testing::TestParamInfo<ProcessSourceFactory>& info) { return info.param.name; }

class ProcessSourceContract : public ::testing::TestWithParam<ProcessSourceFactory> {
 protected:
  // The process in a scan of now; pid 0 if it is not there.
  SeenProcess seen(int pid) {
    const auto all = harness_.source->scan();
    EXPECT_TRUE(all.ok());
    if (!all.ok()) return {};
    const std::vector<SeenProcess>& list = **all;
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), [](const SeenProcess& a, const SeenProcess& b) { return a.pid < b.pid; }));
    const auto found = std::find_if(list.begin(), list.end(), [&](const SeenProcess& one) { return one.pid == pid; });
    return found == list.end() ? SeenProcess{} : *found;
  }
  ProcessSourceHarness harness_{GetParam().make()};
};

TEST_P(ProcessSourceContract, WhoBeginsIsSeenAndWhoEndedIsNot) {
  const int pid = harness_.begin(1);
  const SeenProcess process = seen(pid);
  ASSERT_EQ(process.pid, pid);
  EXPECT_GT(process.parent, 0);
  EXPECT_GT(process.started, 0U);
  EXPECT_FALSE(process.command.empty());
  EXPECT_EQ(process.cgroup.substr(0, 1), "/");
  EXPECT_EQ(seen(pid), process) << "nothing changed";
  harness_.end(pid);
  EXPECT_EQ(seen(pid).pid, 0);
}

TEST_P(ProcessSourceContract, AScanIsTheSameThingExactlyAsLongAsNothingChanges) {
  const int pid = harness_.begin(1);
  // Others may come and go on a real machine: then it is another thing, and says something else.
  SeenProcesses last = *harness_.source->scan();
  const SeenProcesses first = last;
  const std::vector<SeenProcess> copy(first->begin(), first->end());  // as it was
  for (int scan = 0; scan < 20; ++scan) {
    SeenProcesses again = *harness_.source->scan();
    EXPECT_EQ(again == last, *again == *last) << "scan " << scan;
    last = std::move(again);
  }
  harness_.end(pid);
  EXPECT_NE(*harness_.source->scan(), first);
  EXPECT_EQ(*first, copy) << "what was handed out stays as it was";
}

TEST_P(ProcessSourceContract, ThreadsAndTheirTimes) {
  const int pid = harness_.begin(3);
  const std::vector<ThreadTimes> before = harness_.source->threads(pid);
  const Nanos machine = harness_.source->used();
  ASSERT_GE(before.size(), 3U);
  EXPECT_TRUE(std::is_sorted(before.begin(), before.end(), [](const ThreadTimes& a, const ThreadTimes& b) { return a.tid < b.tid; }));
  harness_.work(pid);
  const std::vector<ThreadTimes> after = harness_.source->threads(pid);
  ASSERT_EQ(after.size(), before.size());
  Nanos worked{};
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].tid, before[i].tid);
    EXPECT_GE(after[i].run, before[i].run);
    EXPECT_GE(after[i].waited, before[i].waited);
    worked += after[i].run - before[i].run;
  }
  EXPECT_GT(worked, Nanos{0});
  EXPECT_GE(harness_.source->runnable(), 0);
  EXPECT_GE(harness_.source->used(), machine);
}

TEST_P(ProcessSourceContract, WhoHasGoneIsAValue) {
  const int pid = harness_.begin(1);
  EXPECT_FALSE(harness_.source->cpus(pid).empty());
  EXPECT_GT(harness_.source->resident(pid), Bytes(0));
  harness_.end(pid);
  EXPECT_TRUE(harness_.source->threads(pid).empty());
  EXPECT_TRUE(harness_.source->cpus(pid).empty());
  EXPECT_EQ(harness_.source->resident(pid), Bytes(0));
}

}  // namespace coterie::contract
