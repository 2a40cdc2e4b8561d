// The contract of ContainerRuntime as tests: each adapter instantiates them with a model that loads and one that does not.
//
//   INSTANTIATE_TEST_SUITE_P(Fake, ContainerRuntimeContract, ::testing::Values(RuntimeUnderTest{"fake", makeFake}), runtimeName);
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "ports/container_runtime.h"

namespace coterie::contract {

struct ContainerRuntimeHarness {
  ContainerRuntime* runtime{nullptr};
  std::function<bool(const std::function<bool()>& done)> runUntil;  // lets it work until `done`; false if it gives up
  InstanceSpec good;                                                // without an id
  InstanceSpec bad;
  std::shared_ptr<void> keep;
};
struct RuntimeUnderTest {
  std::string name;
  std::function<ContainerRuntimeHarness()> make;
  friend void PrintTo(const RuntimeUnderTest& runtime, std::ostream* out) { *out << runtime.name; }
};
inline std::string runtimeName(const ::testing::TestParamInfo<RuntimeUnderTest>& info) { return info.param.name; }

class ContainerRuntimeContract : public ::testing::TestWithParam<RuntimeUnderTest>, public ContainerRuntime::Listener {
 protected:
  ContainerRuntimeContract() { runtime().setListener(this); }
  ~ContainerRuntimeContract() override { runtime().setListener(nullptr); }
  void instanceProgress(InstanceId id, int percent) override {
    EXPECT_FALSE(ready_.contains(id)) << "progress is of loading";
    EXPECT_GE(percent, 0);
    EXPECT_LE(percent, 100);
  }
  void instanceReady(InstanceId id, const InstanceReady& ready) override {
    EXPECT_TRUE(ready_.emplace(id, ready).second) << "ready once";
    EXPECT_FALSE(ends_.contains(id)) << "nothing follows the end";
  }
  void instanceEnded(InstanceId id, const InstanceEnd& end) override { EXPECT_TRUE(ends_.emplace(id, end).second) << "an instance ends once"; }

  ContainerRuntime& runtime() { return *harness_.runtime; }
  InstanceId start(int id, InstanceSpec spec) {
    spec.id = InstanceId(id);
    const Status status = runtime().start(spec);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    EXPECT_FALSE(ready_.contains(spec.id) || ends_.contains(spec.id)) << "events come later";
    return spec.id;
  }
  [[nodiscard]] bool runUntil(const std::function<bool()>& done) { return harness_.runUntil(done); }

  ContainerRuntimeHarness harness_{GetParam().make()};
  std::map<InstanceId, InstanceReady> ready_;
  std::map<InstanceId, InstanceEnd> ends_;
};

TEST_P(ContainerRuntimeContract, AModelThatLoadsBecomesReadyAndEndsWhenStopped) {
  const InstanceId id = start(1, harness_.good);
  ASSERT_TRUE(runUntil([&] { return ready_.contains(id) || ends_.contains(id); }));
  ASSERT_TRUE(ready_.contains(id)) << ends_[id].message;
  EXPECT_GT(ready_[id].pid, 0);
  EXPECT_GT(ready_[id].steadyMemory, Bytes(0));
  EXPECT_GE(ready_[id].peakMemory, ready_[id].steadyMemory);
  runtime().stop(id, Millis(5000));
  EXPECT_FALSE(ends_.contains(id)) << "never from inside stop()";
  ASSERT_TRUE(runUntil([&] { return ends_.contains(id); }));
  EXPECT_EQ(ends_[id].reason, EndReason::Stopped) << ends_[id].message;
}

TEST_P(ContainerRuntimeContract, AModelThatDoesNotLoadEndsWithAReason) {
  const InstanceId id = start(1, harness_.bad);
  ASSERT_TRUE(runUntil([&] { return ends_.contains(id); }));
  EXPECT_FALSE(ready_.contains(id));
  EXPECT_EQ(ends_[id].reason, EndReason::LoadFailed) << ends_[id].message;
  EXPECT_FALSE(ends_[id].message.empty());
}

TEST_P(ContainerRuntimeContract, OneThatIsStoppedBeforeItIsReadyEndsOnce) {
  const InstanceId id = start(1, harness_.good);
  runtime().stop(id, Millis(5000));
  ASSERT_TRUE(runUntil([&] { return ends_.contains(id); }));
  EXPECT_EQ(ends_[id].reason, EndReason::Stopped) << ends_[id].message;
}

TEST_P(ContainerRuntimeContract, StoppingTwiceOrWhatIsNotThereDoesNothing) {
  runtime().stop(InstanceId(99), Millis(10));
  const InstanceId id = start(1, harness_.good);
  ASSERT_TRUE(runUntil([&] { return ready_.contains(id); }));
  runtime().stop(id, Millis(5000));
  runtime().stop(id, Millis(5000));
  ASSERT_TRUE(runUntil([&] { return ends_.contains(id); }));
  runtime().stop(id, Millis(10));
  EXPECT_EQ(ends_.size(), 1U);
}

TEST_P(ContainerRuntimeContract, InstancesEndEachForItself) {
  const InstanceId good = start(1, harness_.good);
  const InstanceId bad = start(2, harness_.bad);
  const InstanceId other = start(3, harness_.good);
  ASSERT_TRUE(runUntil([&] { return ready_.contains(good) && ready_.contains(other) && ends_.contains(bad); }));
  runtime().stop(good, Millis(5000));
  ASSERT_TRUE(runUntil([&] { return ends_.contains(good); }));
  EXPECT_FALSE(ends_.contains(other));
  runtime().stop(other, Millis(5000));
  ASSERT_TRUE(runUntil([&] { return ends_.contains(other); }));
}

}  // namespace coterie::contract
