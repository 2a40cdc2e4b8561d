// Requests that run as one in a real worker: each is answered what it is answered alone, bit for bit.
#include <gtest/gtest.h>

#include <cstring>

#include "rig.h"

namespace coterie::worker_test {
namespace {

struct Asked {
  std::vector<std::int64_t> ids;
  std::vector<float> x;  // four to each id
};

Asked asked(std::int64_t first, int rows) {
  Asked made;
  for (int i = 0; i < rows; ++i) {
    made.ids.push_back((first + 3 * i) % 16);
    for (int k = 0; k < 4; ++k) made.x.push_back(static_cast<float>(first) + static_cast<float>(i) / 4 + static_cast<float>(k));
  }
  return made;
}

RunMember memberOf(Rig& rig, const Asked& what) {
  const std::size_t ids = what.ids.size() * sizeof(std::int64_t);
  const std::size_t x = what.x.size() * sizeof(float);
  const std::size_t xAt = (ids + 63) / 64 * 64;
  auto cell = rig.backend->allocate(xAt + x).value();
  std::memcpy(cell->bytes().data(), what.ids.data(), ids);
  std::memcpy(cell->bytes().data() + xAt, what.x.data(), x);
  const auto rows = static_cast<std::int64_t>(what.ids.size());
  return {std::move(cell), {{0, {rows}, 0, ids}, {1, {rows, 4}, xAt, x}}};
}

std::shared_ptr<Reply> run(Rig& rig, const std::vector<Asked>& all) {
  auto reply = std::make_shared<Reply>();
  RunRequest request;
  for (const Asked& each : all) request.members.push_back(memberOf(rig, each));
  request.outputs = {1, 0};
  request.maxRun = Seconds(60);
  rig.backend->run(Rig::lane(1), std::move(request), [reply](RunOutcome outcome) {
    reply->done = true;
    if (!outcome.answer.ok()) {
      reply->error = outcome.answer.error();
      return;
    }
    for (const OutputTensor& output : (*outcome.answer)->outputs()) {
      reply->outputs.emplace_back(output.data.begin(), output.data.end());
      reply->shapes.push_back(output.shape);
    }
  });
  EXPECT_TRUE(rig.waitFor([&] { return reply->done; }));
  return reply;
}

class Batch : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("lookup")))) << rig.ends[1].message; }

  Folder folder;
  Rig rig;
};

TEST_F(Batch, EachHasTheRowsThatItHasAlone) {
  ASSERT_EQ(mostInBatch(rig.backend->signature()), 64);
  for (const std::vector<int>& sizes : {std::vector{1, 1}, {2, 1, 7}, {5, 16, 1, 1, 3, 40}, std::vector(64, 1), std::vector(64, 3)}) {
    std::vector<Asked> all;
    std::int64_t rows = 0;
    std::vector<std::byte> same;
    std::vector<std::byte> found;
    for (const int size : sizes) {
      all.push_back(asked(rows, size));
      rows += size;
      const auto alone = run(rig, {all.back()});
      ASSERT_FALSE(alone->error.has_value()) << alone->error->message;
      EXPECT_EQ(alone->shapes, (std::vector<Shape>{{size}, {size, 4}}));
      EXPECT_EQ(alone->outputs[0], bytesOf(all.back().ids));
      same.insert(same.end(), alone->outputs[0].begin(), alone->outputs[0].end());
      found.insert(found.end(), alone->outputs[1].begin(), alone->outputs[1].end());
    }
    const auto together = run(rig, all);
    ASSERT_FALSE(together->error.has_value()) << together->error->message;
    EXPECT_EQ(together->shapes, (std::vector<Shape>{{rows}, {rows, 4}}));
    EXPECT_EQ(together->outputs[0], same);
    EXPECT_EQ(together->outputs[1], found);
  }
  EXPECT_TRUE(rig.idle());
}

TEST_F(Batch, OneThatCannotBeRunFailsAllAndTheWorkerGoesOn) {
  Asked bad = asked(0, 2);
  bad.ids[1] = 99;
  const auto together = run(rig, {asked(0, 2), bad, asked(1, 1)});
  ASSERT_TRUE(together->error.has_value());
  EXPECT_TRUE(run(rig, {bad})->error.has_value());
  EXPECT_FALSE(run(rig, {asked(0, 2), asked(1, 1)})->error.has_value());
  EXPECT_TRUE(rig.ends.empty());
}

TEST_F(Batch, RequestsThatDoNotAgreeAreRefusedByTheWorker) {
  RunRequest request;
  request.members = {memberOf(rig, asked(0, 2)), memberOf(rig, asked(0, 2))};
  std::swap(request.members[1].inputs[0], request.members[1].inputs[1]);
  request.outputs = {0};
  request.maxRun = Seconds(60);
  std::optional<Error> error;
  rig.backend->run(Rig::lane(1), std::move(request), [&](RunOutcome outcome) { error = outcome.answer.ok() ? Error{} : outcome.answer.error(); });
  ASSERT_TRUE(rig.waitFor([&] { return error.has_value(); }));
  EXPECT_EQ(error->reason, "BadRequest") << error->message;
}

TEST_F(Batch, MoreThanAMessageHoldsIsRefusedHere) {
  RunRequest request;
  for (int i = 0; i < 65; ++i) request.members.push_back(memberOf(rig, asked(i, 1)));
  request.outputs = {0};
  std::optional<RunOutcome> outcome;
  rig.backend->run(Rig::lane(1), std::move(request), [&](RunOutcome told) { outcome = std::move(told); });
  ASSERT_TRUE(rig.waitFor([&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->answer.error().reason, "BadRequest");
  EXPECT_TRUE(outcome->neverStarted);
}

}  // namespace
}  // namespace coterie::worker_test
