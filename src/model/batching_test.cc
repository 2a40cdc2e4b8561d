#include "model/batching.h"

#include <gtest/gtest.h>

namespace coterie {
namespace {

TensorSpec open(const char* name) { return {name, ElementType::Fp32, {kDynamic, 3}, false}; }

TEST(Batching, WhatASignatureAllows) {
  EXPECT_EQ(mostInBatch({{open("x")}, {open("y")}}), 64);
  EXPECT_EQ(mostInBatch({std::vector(8, open("x")), {open("y")}}), 32) << "a message holds 256 tensors";
  EXPECT_EQ(whyNoBatches({{open("x")}, {open("y")}}), std::nullopt);
  struct Case {
    TensorSpec other;
    const char* why;
  };
  const Case cases[] = {{{"z", ElementType::ByteString, {kDynamic}, false}, "\"z\" is of type BYTES"},
                        {{"z", ElementType::Fp32, {}, false}, "\"z\" has no first dimension"},
                        {{"z", ElementType::Fp32, {4, kDynamic}, false}, "\"z\" has a fixed first dimension, 4"}};
  for (const Case& one : cases) {
    EXPECT_EQ(whyNoBatches({{open("x"), one.other}, {open("y")}}), std::string("input ") + one.why);
    EXPECT_EQ(whyNoBatches({{open("x")}, {open("y"), one.other}}), std::string("output ") + one.why);
    EXPECT_EQ(mostInBatch({{open("x")}, {one.other}}), 1);
  }
  EXPECT_EQ(mostInBatch({{}, {open("y")}}), 1);
  EXPECT_EQ(mostInBatch({{open("x")}, {}}), 1);
  EXPECT_EQ(mostInBatch({std::vector(200, open("x")), {open("y")}}), 1);
}

}  // namespace
}  // namespace coterie
