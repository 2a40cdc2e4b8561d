// The contract of ModelBackend as tests: each adapter instantiates them with one instance of two lanes that gives its FP32 input, [-1,-1],
// back.
//
//   INSTANTIATE_TEST_SUITE_P(Fake, ModelBackendContract, ::testing::Values(BackendUnderTest{"fake", makeFake}), backendName);
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ports/model_backend.h"

namespace coterie::contract {

struct ModelBackendHarness {
  ModelBackend* backend{nullptr};
  std::function<bool(const std::function<bool()>& done)> runUntil;  // lets the loop work until `done`; false if it gives up
  std::size_t largestCell{0};
  std::shared_ptr<void> keep;
};
struct BackendUnderTest {
  std::string name;
  std::function<ModelBackendHarness()> make;
  friend void PrintTo(const BackendUnderTest& backend, std::ostream* out) { *out << backend.name; }
};
inline std::string backendName(const ::testing::TestParamInfo<BackendUnderTest>& info) { return info.param.name; }

class ModelBackendContract : public ::testing::TestWithParam<BackendUnderTest>, public ModelBackend::Listener {
 protected:
  ModelBackendContract() { backend().setListener(this); }
  ~ModelBackendContract() override { backend().setListener(nullptr); }
  void laneReady(const LaneInfo& lane) override { lanes_[lane.ref] = lane.laneClass; }
  void laneGone(const LaneRef& lane) override { lanes_.erase(lane); }

  ModelBackend& backend() { return *harness_.backend; }
  [[nodiscard]] LaneRef lane(std::size_t index) const { return std::next(lanes_.begin(), static_cast<std::ptrdiff_t>(index))->first; }

  struct Sent {
    int completions{0};
    std::optional<Error> error;
    std::unique_ptr<Answer> answer;
    std::function<void()> whenDone;
  };
  // Rows of floats: as many as are wanted of each member, one row counts from `first` on.
  struct Rows {
    int rows{1};
    int count{1};
    float first{0};
  };
  std::shared_ptr<Sent> send(const LaneRef& lane, int count, float first, std::function<void()> whenDone = {}) {
    return send(lane, std::vector<Rows>{{1, count, first}}, std::move(whenDone));
  }
  std::shared_ptr<Sent> send(const LaneRef& lane, const std::vector<Rows>& members, std::function<void()> whenDone = {}) {
    auto sent = std::make_shared<Sent>();
    sent->whenDone = std::move(whenDone);
    RunRequest request;
    for (const Rows& member : members) {
      const std::vector<float> values = row(member.rows * member.count, member.first);
      auto cell = backend().allocate(values.size() * sizeof(float));
      EXPECT_TRUE(cell.ok());
      if (!cell.ok()) return sent;
      std::memcpy((*cell)->bytes().data(), values.data(), values.size() * sizeof(float));
      request.members.push_back({std::move(*cell), {{0, {member.rows, member.count}, 0, values.size() * sizeof(float)}}});
    }
    request.outputs = {0};
    request.maxRun = Seconds(60);
    backend().run(lane, std::move(request), [sent](RunOutcome outcome) {
      ++sent->completions;
      if (outcome.answer.ok()) {
        sent->answer = std::move(*outcome.answer);
      } else {
        sent->error = outcome.answer.error();
      }
      if (sent->whenDone) sent->whenDone();
    });
    EXPECT_EQ(sent->completions, 0) << "never from inside run()";
    return sent;
  }
  static std::vector<float> row(int count, float first) {
    std::vector<float> values;
    for (int i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
    return values;
  }
  static std::vector<float> read(const Answer& answer) {
    const OutputTensor& output = answer.outputs().front();
    std::vector<float> values(output.data.size() / sizeof(float));
    std::memcpy(values.data(), output.data.data(), output.data.size());
    return values;
  }
  [[nodiscard]] bool runUntil(const std::function<bool()>& done) { return harness_.runUntil(done); }

  ModelBackendHarness harness_{GetParam().make()};
  std::map<LaneRef, LaneClass> lanes_;
};

TEST_P(ModelBackendContract, AListenerIsToldOfThePresentLanes) {
  ASSERT_EQ(lanes_.size(), 2U);
  EXPECT_EQ(lanes_.begin()->second, LaneClass::Own);
  lanes_.clear();
  backend().setListener(this);
  EXPECT_EQ(lanes_.size(), 2U);
  EXPECT_EQ(backend().signature().inputs.size(), 1U);
  EXPECT_EQ(backend().signature().outputs.size(), 1U);
}

TEST_P(ModelBackendContract, CellsAreAlignedAndLargeEnough) {
  for (const std::size_t bytes : {1U, 63U, 64U, 65U, 4096U, 100'000U}) {
    const auto cell = backend().allocate(bytes);
    ASSERT_TRUE(cell.ok()) << bytes;
    EXPECT_GE((*cell)->bytes().size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*cell)->bytes().data()) % 64, 0U);
    std::memset((*cell)->bytes().data(), 1, bytes);
  }
}

TEST_P(ModelBackendContract, ACellTooLargeIsRefusedAndRoomComesBack) {
  const auto refused = backend().allocate(harness_.largestCell + 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::TooLarge);
  std::vector<std::shared_ptr<InputCell>> cells;
  while (auto cell = backend().allocate(harness_.largestCell)) cells.push_back(std::move(*cell));
  EXPECT_FALSE(cells.empty());
  EXPECT_EQ(backend().allocate(harness_.largestCell).error().code, Code::ResourceExhausted);
  cells.pop_back();
  EXPECT_TRUE(backend().allocate(harness_.largestCell).ok());
}

TEST_P(ModelBackendContract, ARunAnswersOnceWithShapeAndBytes) {
  const auto sent = send(lane(0), 6, 1.5F);
  ASSERT_TRUE(runUntil([&] { return sent->completions > 0; }));
  ASSERT_NE(sent->answer, nullptr);
  ASSERT_EQ(sent->answer->outputs().size(), 1U);
  EXPECT_EQ(sent->answer->outputs().front().output, 0);
  EXPECT_EQ(sent->answer->outputs().front().shape, (Shape{1, 6}));
  EXPECT_EQ(read(*sent->answer), row(6, 1.5F));
  EXPECT_EQ(sent->completions, 1);
}

TEST_P(ModelBackendContract, MembersRunAsOneInTheirOrder) {
  ASSERT_GE(mostInBatch(backend().signature()), 3);
  const auto sent = send(lane(0), {{2, 3, 10}, {1, 3, 20}, {3, 3, 30}});
  ASSERT_TRUE(runUntil([&] { return sent->completions == 1; }));
  ASSERT_NE(sent->answer, nullptr) << sent->error->message;
  EXPECT_EQ(sent->answer->outputs().front().shape, (Shape{6, 3}));
  std::vector<float> all = row(6, 10);
  for (const float value : row(3, 20)) all.push_back(value);
  for (const float value : row(9, 30)) all.push_back(value);
  EXPECT_EQ(read(*sent->answer), all);
  const auto alone = send(lane(0), 3, 1);
  ASSERT_TRUE(runUntil([&] { return alone->completions == 1; }));
  EXPECT_EQ(read(*alone->answer), row(3, 1)) << "nothing is left of the batch";
}

TEST_P(ModelBackendContract, AsManyMembersAsTheModelMayTakeRunAsOne) {
  std::vector<Rows> members;
  for (int i = 0; i < mostInBatch(backend().signature()); ++i) members.push_back({1, 1, static_cast<float>(i)});
  const auto sent = send(lane(0), members);
  ASSERT_TRUE(runUntil([&] { return sent->completions == 1; }));
  ASSERT_NE(sent->answer, nullptr) << sent->error->message;
  EXPECT_EQ(read(*sent->answer), row(static_cast<int>(members.size()), 0));
}

TEST_P(ModelBackendContract, LanesRunBesideEachOther) {
  const auto first = send(lane(0), 3, 10);
  const auto second = send(lane(1), 3, 20);
  ASSERT_TRUE(runUntil([&] { return first->completions + second->completions == 2; }));
  EXPECT_EQ(read(*first->answer), row(3, 10));
  EXPECT_EQ(read(*second->answer), row(3, 20));
}

TEST_P(ModelBackendContract, ALaneMayBeUsedAgainFromWithinItsCompletion) {
  std::shared_ptr<Sent> second;
  const auto first = send(lane(0), 3, 10, [&] { second = send(lane(0), 3, 20); });
  ASSERT_TRUE(runUntil([&] { return second != nullptr && second->completions == 1; }));
  EXPECT_EQ(read(*second->answer), row(3, 20));
}

TEST_P(ModelBackendContract, AnAnswerStaysAsItWasWhileOthersRun) {
  const auto held = send(lane(0), 3, 10);
  ASSERT_TRUE(runUntil([&] { return held->completions == 1; }));
  for (int i = 0; i < 10; ++i) {
    const auto other = send(lane(0), 3, static_cast<float>(100 + i));
    ASSERT_TRUE(runUntil([&] { return other->completions == 1; }));
    EXPECT_EQ(read(*other->answer), row(3, static_cast<float>(100 + i)));
  }
  EXPECT_EQ(read(*held->answer), row(3, 10));
}

TEST_P(ModelBackendContract, StoppingAnIdleLaneDoesNothing) {
  backend().terminate(lane(0));
  const auto sent = send(lane(0), 3, 1);
  ASSERT_TRUE(runUntil([&] { return sent->completions == 1; }));
  EXPECT_TRUE(sent->answer != nullptr) << (sent->error ? sent->error->message : "");
}

TEST_P(ModelBackendContract, AStoppedRunStillCompletesOnce) {
  const auto sent = send(lane(0), 3, 1);
  backend().terminate(lane(0));
  ASSERT_TRUE(runUntil([&] { return sent->completions == 1; }));
  const auto after = send(lane(0), 3, 2);
  ASSERT_TRUE(runUntil([&] { return after->completions == 1; }));
  EXPECT_EQ(sent->completions, 1) << "answered or stopped, never both";
}

}  // namespace coterie::contract
