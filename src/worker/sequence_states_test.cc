#include "worker/sequence_states.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace coterie::worker {
namespace {

ModelSignature signature() {
  return {{{"x", ElementType::Fp32, {1}, false}, {"h", ElementType::Fp32, {2, kDynamic}, false}, {"t", ElementType::ByteString, {1}, false}},
          {{"y", ElementType::Fp32, {1}, false}, {"hn", ElementType::Fp32, {2, kDynamic}, false}}};
}

channel::RunMessage message(std::uint64_t sequence, bool fresh, bool end = false) {
  channel::RunMessage run;
  run.outputCount = 2;
  run.outputs = {0, 1};
  run.sequence = sequence;
  run.fresh = fresh;
  run.end = end;
  run.stateBytes = 64;
  run.stateCount = 1;
  run.stateInputs[0] = 1;
  return run;
}

class SequenceStatesTest : public ::testing::Test {
 protected:
  Status keep(const channel::RunMessage& run, const std::vector<float>& values) {
    std::vector<std::byte> memory(64 + values.size() * sizeof(float));
    std::memcpy(memory.data() + 64, values.data(), values.size() * sizeof(float));
    const std::vector<onnx::Output> outputs{{0, {1}, 0, 4},
                                            {1, {2, static_cast<std::int64_t>(values.size() / 2)}, 64, values.size() * sizeof(float)}};
    std::vector<onnx::Input> inputs;
    const auto began = takeState(run, signature(), states, inputs);
    return began.ok() ? keepState(run, outputs, memory, *began, states) : Status(began.error());
  }
  std::vector<float> taken(const channel::RunMessage& run) {
    std::vector<onnx::Input> inputs;
    const auto state = takeState(run, signature(), states, inputs);
    if (!state.ok()) return {};
    EXPECT_EQ(inputs.size(), 1U);
    EXPECT_EQ(inputs[0].input, 1);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(inputs[0].bytes.data()) % 64, 0U) << "the library takes it where it lies";
    std::vector<float> values(inputs[0].bytes.size() / sizeof(float));
    std::memcpy(values.data(), inputs[0].bytes.data(), inputs[0].bytes.size());
    dims = std::vector<std::int64_t>(inputs[0].dims.begin(), inputs[0].dims.end());
    return values;
  }
  SequenceStates states;
  std::vector<std::int64_t> dims;
};

TEST_F(SequenceStatesTest, ASequenceBeginsWithZerosAndGoesOnWithWhatWasKept) {
  EXPECT_EQ(taken(message(1, true)), (std::vector<float>{0, 0}));
  EXPECT_EQ(dims, (std::vector<std::int64_t>{2, 1}));
  ASSERT_TRUE(keep(message(1, true), {1, 2, 3, 4}).ok());
  EXPECT_EQ(taken(message(1, false)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(dims, (std::vector<std::int64_t>{2, 2}));
  EXPECT_TRUE(taken(message(2, false)).empty()) << "never a fresh one in place of one that is not here";
}

TEST_F(SequenceStatesTest, AnEndAndAForgottenOneLeaveNothing) {
  ASSERT_TRUE(keep(message(1, true), {1, 2}).ok());
  ASSERT_TRUE(keep(message(2, true), {3, 4}).ok());
  ASSERT_TRUE(keep(message(1, false, true), {5, 6}).ok());
  states.forget(2);
  EXPECT_EQ(states.find(1, SequenceStates::Which::Last), nullptr);
  EXPECT_EQ(states.find(2, SequenceStates::Which::Last), nullptr);
  states.forget(3);
  ASSERT_TRUE(keep(message(3, true), {1, 2}).ok());
  EXPECT_EQ(states.find(3, SequenceStates::Which::Last), nullptr) << "forgotten while it ran";
}

TEST_F(SequenceStatesTest, WhatNobodyWasToldIsTakenBackByTheNextRun) {
  const auto back = [] {
    channel::RunMessage run = message(1, false);
    run.takesBack = true;
    return run;
  };
  ASSERT_TRUE(keep(message(1, true), {1, 2}).ok());
  ASSERT_TRUE(keep(message(1, false), {3, 4}).ok());
  EXPECT_EQ(taken(back()), (std::vector<float>{1, 2}));
  ASSERT_TRUE(keep(back(), {5, 6}).ok());
  EXPECT_EQ(taken(back()), (std::vector<float>{1, 2})) << "twice in a row";
  EXPECT_EQ(taken(message(1, false)), (std::vector<float>{5, 6}));
  ASSERT_TRUE(keep(message(1, false), {7, 8}).ok());
  EXPECT_EQ(taken(back()), (std::vector<float>{5, 6}));
}

TEST_F(SequenceStatesTest, MoreThanIsAllowedIsAnErrorAndTheOldStateStays) {
  ASSERT_TRUE(keep(message(1, true), {1, 2}).ok());
  const Status more = keep(message(1, false), std::vector<float>(18, 7));
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().reason, "SequenceStateTooLarge");
  EXPECT_EQ(taken(message(1, false)), (std::vector<float>{1, 2}));
}

TEST_F(SequenceStatesTest, WhatTheMessageSaysIsChecked) {
  channel::RunMessage strange = message(1, true);
  std::vector<onnx::Input> inputs;
  for (const int input : {3, 2, 65535}) {
    strange.stateInputs[0] = static_cast<std::uint16_t>(input);
    EXPECT_EQ(takeState(strange, signature(), states, inputs).error().reason, "BadRequest") << input;
  }
  channel::RunMessage small = message(1, true);
  small.stateBytes = 7;
  EXPECT_EQ(takeState(small, signature(), states, inputs).error().reason, "SequenceStateTooLarge");
  EXPECT_TRUE(inputs.empty());
}

}  // namespace
}  // namespace coterie::worker
