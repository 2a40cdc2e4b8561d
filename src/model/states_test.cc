#include "model/states.h"

#include <gtest/gtest.h>

namespace coterie {
namespace {

ModelSignature detector() {
  return {{{"input", ElementType::Fp32, {kDynamic, 576}, false}, {"state", ElementType::Fp32, {2, kDynamic, 128}, false}},
          {{"output", ElementType::Fp32, {kDynamic, 1}, false},
           {"stateN", ElementType::Fp32, {2, kDynamic, 128}, false},
           {"text", ElementType::ByteString, {1}, false},
           {"wide", ElementType::Fp32, {2, kDynamic, 129}, false},
           {"whole", ElementType::Int64, {2, kDynamic, 128}, false}}};
}

TEST(States, AreMarkedOnBothSides) {
  ModelSignature signature = detector();
  ASSERT_EQ(markStates({{"stateN", "state"}}, signature), std::nullopt);
  EXPECT_EQ(signature.inputs[1].carries, 1);
  EXPECT_EQ(signature.outputs[1].carries, 1);
  EXPECT_FALSE(signature.inputs[0].isState() || signature.outputs[0].isState());
  EXPECT_EQ(stateAtStart(signature.inputs[1]), (Shape{2, 1, 128}));
  EXPECT_EQ(stateBytes(signature), Bytes(2 * 128 * 4));
}

TEST(States, WhatCannotBeNamesTheTensorAndWhatTheModelHas) {
  struct Row {
    StatePairs states;
    const char* says;
  };
  const Row rows[] = {
      {{{"stateM", "state"}}, "the model has no output \"stateM\"; it gives \"output\" (FP32 [-1,1]), \"stateN\""},
      {{{"stateN", "stat"}}, "the model has no input \"stat\"; it takes \"input\" (FP32 [-1,576])"},
      {{{"stateN", "input"}}, "output \"stateN\" (FP32 [2,-1,128]) cannot be input \"input\" (FP32 [-1,576])"},
      {{{"wide", "state"}}, "cannot be input \"state\""},
      {{{"whole", "state"}}, "cannot be input \"state\""},
      {{{"text", "state"}}, "is text, which is no state"},
      {{{"stateN", "state"}, {"stateN", "input"}}, "output \"stateN\" is named twice"},
      {{{"stateN", "state"}, {"output", "state"}}, "input \"state\" is named twice"},
  };
  for (const Row& row : rows) {
    ModelSignature signature = detector();
    const auto fault = markStates(row.states, signature);
    ASSERT_TRUE(fault) << row.says;
    EXPECT_NE(fault->find(row.says), std::string::npos) << *fault;
    EXPECT_EQ(stateBytes(signature), Bytes(0)) << "left as it was";
  }
}

}  // namespace
}  // namespace coterie
