#include "gateway/batching.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace coterie::gateway {
namespace {

using Inputs = std::vector<InputTensor>;
using Outputs = std::vector<oip::RequestOutput>;

TEST(BatchKey, OneForAllThatDifferInRowsOnly) {
  const Inputs two{{0, {2, 3}, 0, 24}, {1, {2}, 64, 16}};
  const Inputs five{{0, {5, 3}, 0, 60}, {1, {5}, 64, 40}};
  const Outputs outputs{{0, false}, {1, true}};
  EXPECT_NE(batchKey(two, outputs), 0U);
  EXPECT_EQ(batchKey(two, outputs), batchKey(five, outputs));
  EXPECT_EQ(batchKey(two, outputs), batchKey(two, {{0, true}, {1, true}})) << "how an answer is written is each one's own";
  const std::set<std::uint64_t> all{batchKey(two, outputs),
                                    batchKey(two, {{1, false}, {0, true}}),
                                    batchKey(two, {{0, false}}),
                                    batchKey({{0, {2, 4}, 0, 32}, {1, {2}, 64, 16}}, outputs),
                                    batchKey({{0, {2, 3, 1}, 0, 24}, {1, {2}, 64, 16}}, outputs),
                                    batchKey({{1, {2}, 64, 16}, {0, {2, 3}, 0, 24}}, outputs),
                                    batchKey({{0, {2, 3}, 0, 24}}, outputs),
                                    batchKey({{0, {2}, 0, 24}, {1, {2, 3}, 64, 16}}, outputs)};
  EXPECT_EQ(all.size(), 8U);
}

TEST(BatchKey, WhatHasNoRowsOfItsOwnRunsAlone) {
  const Outputs outputs{{0, false}};
  EXPECT_EQ(batchKey({}, outputs), 0U);
  EXPECT_EQ(batchKey({{0, {}, 0, 4}}, outputs), 0U);
  EXPECT_EQ(batchKey({{0, {0, 3}, 0, 0}}, outputs), 0U);
  EXPECT_EQ(batchKey({{0, {2, 3}, 0, 24}, {1, {3}, 64, 24}}, outputs), 0U) << "two rows here, three there";
  EXPECT_EQ(batchKey({{0, {2, 3}, 0, 24}, {1, {}, 64, 8}}, outputs), 0U);
}

class Whole final : public Answer {
 public:
  explicit Whole(bool& gone) : gone_(gone) {}
  Whole(const Whole&) = delete;
  Whole& operator=(const Whole&) = delete;
  ~Whole() override { gone_ = true; }
  [[nodiscard]] std::span<const OutputTensor> outputs() const override { return all; }
  [[nodiscard]] bool copied() const override { return copy; }
  bool copy{false};
  std::vector<std::uint16_t> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<OutputTensor> all{{0, {6, 2}, std::as_bytes(std::span(values))}, {3, {6}, std::as_bytes(std::span(values)).first(12)}};

 private:
  bool& gone_;
};

std::vector<std::uint16_t> read(const OutputTensor& output) {
  std::vector<std::uint16_t> values(output.data.size() / sizeof(std::uint16_t));
  std::memcpy(values.data(), output.data.data(), output.data.size());
  return values;
}

TEST(TakeApart, EachHasItsRowsWhereTheyLieAndTheWholeLivesAsLongAsTheLast) {
  bool gone = false;
  auto whole = std::make_shared<Whole>(gone);
  const std::byte* const begin = whole->all[0].data.data();
  const std::int64_t rows[] = {2, 1, 3};
  auto parts = takeApart(whole, rows);
  ASSERT_TRUE(parts.ok());
  whole.reset();
  ASSERT_EQ(parts->size(), 3U);
  const OutputTensor& second = (*parts)[1]->outputs()[0];
  EXPECT_EQ(second.data.data(), begin + 8) << "no copy";
  EXPECT_EQ(read(second), (std::vector<std::uint16_t>{5, 6}));
  EXPECT_EQ(second.shape, (Shape{1, 2}));
  EXPECT_EQ(read((*parts)[0]->outputs()[1]), (std::vector<std::uint16_t>{1, 2}));
  EXPECT_EQ((*parts)[0]->outputs()[1].output, 3);
  parts->erase(parts->begin(), parts->begin() + 2);
  EXPECT_FALSE(gone);
  EXPECT_EQ(read((*parts)[0]->outputs()[0]), (std::vector<std::uint16_t>{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(read((*parts)[0]->outputs()[1]), (std::vector<std::uint16_t>{4, 5, 6}));
  parts->clear();
  EXPECT_TRUE(gone);
}

TEST(KeepsRows, EveryOutputHasThem) {
  bool gone = false;
  Whole whole(gone);
  EXPECT_TRUE(keepsRows(whole, 6));
  EXPECT_FALSE(keepsRows(whole, 5));
  whole.all[1].shape = {};
  EXPECT_FALSE(keepsRows(whole, 6));
}

TEST(TakeApart, OneThatReadsSlowlyDoesNotHoldACopyOfAll) {
  bool gone = false;
  auto whole = std::make_shared<Whole>(gone);
  whole->copy = true;
  const std::int64_t rows[] = {2, 1, 3};
  auto parts = takeApart(whole, rows);
  ASSERT_TRUE(parts.ok());
  whole.reset();
  EXPECT_TRUE(gone);
  EXPECT_EQ(read((*parts)[1]->outputs()[0]), (std::vector<std::uint16_t>{5, 6}));
  EXPECT_EQ(read((*parts)[2]->outputs()[1]), (std::vector<std::uint16_t>{4, 5, 6}));
}

TEST(TakeApart, AnotherNumberOfRowsIsNotBelieved) {
  bool gone = false;
  const auto whole = std::make_shared<Whole>(gone);
  const std::int64_t five[] = {2, 1, 2};
  EXPECT_EQ(takeApart(whole, five).error().reason, "RowsDiffer");
  const std::int64_t six[] = {3, 3};
  EXPECT_TRUE(takeApart(whole, six).ok());
  whole->all[1].shape = {12};
  EXPECT_FALSE(takeApart(whole, six).ok()) << "of each output";
  whole->all[1].shape = {};
  EXPECT_FALSE(takeApart(whole, six).ok());
}

}  // namespace
}  // namespace coterie::gateway
