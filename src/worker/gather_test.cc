#include "worker/gather.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace coterie::worker {
namespace {

using channel::RunMessage;
using channel::TensorPlace;

const ModelSignature& signature() {
  static const ModelSignature made{{{"x", ElementType::Fp32, {kDynamic, 2}, false}, {"ids", ElementType::Int64, {kDynamic, kDynamic}, false}},
                                   {{"y", ElementType::Fp32, {kDynamic}, false}}};
  return made;
}

// An arena with requests in it, and the message that names them.
class GatherTest : public ::testing::Test {
 protected:
  template <typename T>
  TensorPlace put(int index, std::vector<std::int64_t> dims, const std::vector<T>& values) {
    TensorPlace place;
    place.index = static_cast<std::uint16_t>(index);
    place.rank = static_cast<std::uint16_t>(dims.size());
    std::copy(dims.begin(), dims.end(), place.dims.begin());
    place.offset = used_;
    place.length = values.size() * sizeof(T);
    if (place.length > 0) std::memcpy(arena.data() + used_, values.data(), place.length);
    used_ += (place.length + 63) / 64 * 64;
    return place;
  }
  void member(const TensorPlace& x, const TensorPlace& ids) {
    message.inputs[count_++] = x;
    message.inputs[count_++] = ids;
    message.memberCount = static_cast<std::uint16_t>(count_ / 2);
    message.inputCount = 2;
  }
  void threeMembers() {
    member(put<float>(0, {2, 2}, {1, 2, 3, 4}), put<std::int64_t>(1, {2, 1}, {10, 20}));
    member(put<float>(0, {1, 2}, {5, 6}), put<std::int64_t>(1, {1, 1}, {30}));
    member(put<float>(0, {3, 2}, {7, 8, 9, 10, 11, 12}), put<std::int64_t>(1, {3, 1}, {40, 50, 60}));
  }
  Status join() { return gather.join(message, arena, signature(), inputs); }
  template <typename T>
  std::vector<T> read(std::size_t input) {
    std::vector<T> values(inputs[input].bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), inputs[input].bytes.data(), inputs[input].bytes.size());
    return values;
  }

  std::vector<std::byte> arena = std::vector<std::byte>(std::size_t{4} << 20U);
  RunMessage message;
  Gather gather;
  std::vector<onnx::Input> inputs;

 private:
  std::size_t used_{0};
  std::size_t count_{0};
};

TEST_F(GatherTest, OneAloneIsNotCopied) {
  const TensorPlace x = put<float>(0, {1, 2}, {1, 2});
  member(x, put<std::int64_t>(1, {1, 1}, {3}));
  ASSERT_TRUE(join());
  EXPECT_EQ(inputs[0].bytes.data(), arena.data() + x.offset);
  EXPECT_EQ(inputs[1].bytes.data(), arena.data() + message.inputs[1].offset);
  EXPECT_EQ(gather.kept(), 0U);
}

TEST_F(GatherTest, RowsOfEachInputStandInTheOrderOfTheRequests) {
  threeMembers();
  ASSERT_TRUE(join());
  ASSERT_EQ(inputs.size(), 2U);
  EXPECT_EQ(read<float>(0), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(read<std::int64_t>(1), (std::vector<std::int64_t>{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(Shape(inputs[0].dims.begin(), inputs[0].dims.end()), (Shape{6, 2}));
  EXPECT_EQ(Shape(inputs[1].dims.begin(), inputs[1].dims.end()), (Shape{6, 1}));
  for (const onnx::Input& input : inputs) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(input.bytes.data()) % 64, 0U);
}

TEST_F(GatherTest, ARequestWithoutRowsHasNone) {
  member(put<float>(0, {0, 2}, {}), put<std::int64_t>(1, {0, 1}, {}));
  member(put<float>(0, {1, 2}, {5, 6}), put<std::int64_t>(1, {1, 1}, {30}));
  ASSERT_TRUE(join());
  EXPECT_EQ(read<float>(0), (std::vector<float>{5, 6}));
  EXPECT_EQ(inputs[0].dims[0], 1);
}

TEST_F(GatherTest, EveryNumberIsChecked) {
  struct Case {
    const char* what;
    std::function<void(RunMessage&)> change;
  };
  const std::vector<Case> cases = {
      {"beyond the arena", [&](RunMessage& m) { m.inputs[2].offset = arena.size(); }},
      {"an offset that wraps", [](RunMessage& m) { m.inputs[2].offset = ~0ULL - 7; }},
      {"a length beyond the arena", [&](RunMessage& m) { m.inputs[2].length = arena.size() + 1; }},
      {"another input", [](RunMessage& m) { m.inputs[2].index = 1; }},
      {"an input that there is not", [](RunMessage& m) { m.inputs[0].index = m.inputs[2].index = m.inputs[4].index = 2; }},
      {"another rank", [](RunMessage& m) { m.inputs[3].rank = 1; }},
      {"another row", [](RunMessage& m) { m.inputs[3].dims = {1, 2}; }},
      {"no rank", [](RunMessage& m) { m.inputs[0].rank = m.inputs[2].rank = m.inputs[4].rank = 0; }},
      {"a negative number of rows", [](RunMessage& m) { m.inputs[2].dims[0] = -1; }},
      {"rows that overflow", [](RunMessage& m) { m.inputs[2].dims[0] = INT64_MAX; }},
      // The sums of rows and of bytes are right, and a row of the first would be given to the second.
      {"lengths of other shapes", [](RunMessage& m) { m.inputs[0].length -= 8, m.inputs[2].length += 8; }},
  };
  threeMembers();
  ASSERT_TRUE(join());
  const RunMessage good = message;
  for (const Case& one : cases) {
    message = good;
    one.change(message);
    EXPECT_FALSE(join().ok()) << one.what;
  }
  message = good;
  EXPECT_TRUE(join());
}

TEST_F(GatherTest, RowsOfNoBytesCannotOverflow) {
  for (int i = 0; i < 2; ++i) member(put<float>(0, {1, 2}, {1, 2}), put<std::int64_t>(1, {INT64_MAX, 0}, {}));
  EXPECT_FALSE(join().ok());
}

TEST_F(GatherTest, TextIsNotJoined) {
  const ModelSignature text{{{"x", ElementType::ByteString, {kDynamic}, false}}, {}};
  message.memberCount = 2;
  message.inputCount = 1;
  message.inputs[0].rank = message.inputs[1].rank = 1;
  EXPECT_FALSE(gather.join(message, arena, text, inputs).ok());
}

TEST_F(GatherTest, LargeMemoryGoesWithItsRun) {
  threeMembers();
  ASSERT_TRUE(join());
  gather.release();
  EXPECT_GT(gather.kept(), 0U) << "a small one is used again";
  const std::vector<float> much(Gather::kKept / sizeof(float));
  const auto rows = static_cast<std::int64_t>(much.size() / 2);
  member(put<float>(0, {rows, 2}, much), put<std::int64_t>(1, {rows, 1}, std::vector<std::int64_t>(much.size() / 2)));
  ASSERT_TRUE(join());
  EXPECT_GT(gather.kept(), Gather::kKept);
  gather.release();
  EXPECT_EQ(gather.kept(), 0U);
}

}  // namespace
}  // namespace coterie::worker
