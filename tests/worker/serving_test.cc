// A real model in a real worker, through LocalBackend: what comes back, lanes, answers that are held, stopping.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "rig.h"

namespace coterie::worker_test {
namespace {

std::string lower(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

TEST(Serving, AnIdentityModelReturnsTheBytesOfEveryElementType) {
  const Folder folder;
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    SCOPED_TRACE(elementTypeName(type));
    Rig rig;
    ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("identity_" + lower(elementTypeName(type)))))) << rig.ends[1].message;
    const InstanceReady& ready = rig.ready[1];
    ASSERT_EQ(ready.signature.inputs.size(), 1U);
    EXPECT_EQ(ready.signature.inputs[0].name, "INPUT0");
    EXPECT_EQ(ready.signature.inputs[0].type, type);
    EXPECT_GT(ready.speeds.at(0).mean.count(), 0);
    EXPECT_GT(ready.steadyMemory.value, 1 << 20);
    std::vector<std::byte> input(6 * elementSize(type));
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::byte>(type == ElementType::Bool ? i & 1 : i * 31);
    if (type == ElementType::ByteString) {
      const std::string strings("\3\0\0\0a\0\xff\0\0\0\0\1\0\0\0z\0\0\0\0\0\0\0\0\2\0\0\0\xc3\xa9", 30);
      input = bytesOf(std::vector<char>(strings.begin(), strings.end()));
    }
    const auto reply = rig.sendAndWait(Rig::lane(1), {2, 3}, input);
    ASSERT_FALSE(reply->error.has_value()) << reply->error->message;
    EXPECT_EQ(reply->outputs.at(0), input);
    EXPECT_EQ(reply->shapes.at(0), (Shape{2, 3}));
    EXPECT_GT(reply->outcome.held.count(), 0);
    EXPECT_GT(reply->outcome.cpu.count(), 0);
    const auto empty = rig.sendAndWait(Rig::lane(1), {0, 3}, {});
    ASSERT_FALSE(empty->error.has_value()) << empty->error->message;
    EXPECT_TRUE(empty->outputs.at(0).empty());
    EXPECT_TRUE(rig.idle());
  }
}

TEST(Serving, WidthsAreMeasuredBeforeItIsReadyAndItServesTheOneItHas) {
  const Folder folder;
  Rig rig;
  ASSERT_TRUE(rig.startAndWait(rig.spec(3, folder.model("slow_1ms"))));
  InstanceSpec spec = rig.spec(1, folder.model("slow_1ms"));
  spec.measureWidths = {2, 3};
  spec.measureTime = Millis(60'000);
  ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[1].message;
  const InstanceReady& ready = rig.ready[1];
  EXPECT_EQ(ready.width, 1);
  ASSERT_FALSE(ready.speeds.empty());
  ASSERT_LE(ready.speeds.size(), 3U) << "fewer where other programs used the CPUs meanwhile";
  for (std::size_t i = 0; i < ready.speeds.size(); ++i) {
    EXPECT_EQ(ready.speeds[i].width, static_cast<int>(i) + 1);
    EXPECT_GT(ready.speeds[i].mean.count(), 0);
  }
  EXPECT_EQ(ready.serviceThreads.size(), rig.ready[3].serviceThreads.size()) << "the threads of the widths that were measured are gone";
  const auto reply = rig.sendAndWait(Rig::lane(1), {1, 64}, std::vector<std::byte>(64 * 4));
  EXPECT_FALSE(reply->error.has_value());

  spec.id = InstanceId(2);
  spec.measureTime = Millis(0);
  ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[2].message;
  EXPECT_LE(rig.ready[2].speeds.size(), 2U) << "the first is always tried, the others while there is time";
}

TEST(Serving, AWideRunUsesSeveralThreadsOnOneLane) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("slow_1ms"));
  ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[1].message;
  spec.id = InstanceId(2);
  spec.width = 2;
  ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[2].message;
  EXPECT_EQ(rig.ready[2].width, 2);
  EXPECT_EQ(rig.ready[2].serviceThreads.size(), rig.ready[1].serviceThreads.size() + 1);
  const auto reply = rig.sendAndWait(Rig::lane(2), {1, 64}, std::vector<std::byte>(64 * 4));
  EXPECT_FALSE(reply->error.has_value());
}

TEST(Serving, BadRequestsAreRefusedAndTheWorkerLives) {
  const Folder folder;
  Rig rig;
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("mlp"))));
  const std::vector<std::byte> row(784 * 4);
  const auto shape = rig.sendAndWait(Rig::lane(1), {1, 783}, row);
  ASSERT_TRUE(shape->error.has_value());
  EXPECT_EQ(shape->error->code, Code::InvalidArgument);
  EXPECT_NE(shape->error->message.find("does not fit [-1,784]"), std::string::npos) << shape->error->message;
  const auto length = rig.sendAndWait(Rig::lane(1), {2, 784}, row);
  EXPECT_EQ(length->error->code, Code::InvalidArgument);
  const auto overflow = rig.sendAndWait(Rig::lane(1), {1LL << 61, 784}, row);
  EXPECT_EQ(overflow->error->code, Code::InvalidArgument);
  const auto rank = rig.sendAndWait(Rig::lane(1), Shape(17, 1), row);
  EXPECT_EQ(rank->error->code, Code::InvalidArgument);
  EXPECT_FALSE(rig.sendAndWait(Rig::lane(1), {1, 784}, row)->error.has_value());
  EXPECT_TRUE(rig.ends.empty());
}

TEST(Serving, AnAnswerBeyondItsLimitIsAnErrorNotACrash) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("identity_fp32"));
  spec.largestAnswer = Bytes(4096);
  ASSERT_TRUE(rig.startAndWait(spec));
  const auto reply = rig.sendAndWait(Rig::lane(1), {1, 1025}, std::vector<std::byte>(4100));
  ASSERT_TRUE(reply->error.has_value());
  EXPECT_EQ(reply->error->reason, "AnswerTooLarge");
  EXPECT_FALSE(rig.sendAndWait(Rig::lane(1), {1, 1024}, std::vector<std::byte>(4096))->error.has_value());
}

TEST(Serving, TheArenaRefusesWhatIsTooLargeAndWhatDoesNotFitNow) {
  const Folder folder;
  Rig rig;
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("identity_fp32"))));
  EXPECT_EQ(rig.backend->allocate((16 << 20) + 1).error().code, Code::TooLarge);
  std::vector<std::shared_ptr<InputCell>> cells;
  for (int i = 0; i < 4; ++i) cells.push_back(rig.backend->allocate(16 << 20).value());
  EXPECT_EQ(rig.backend->allocate(1).error().reason, "ArenaFull");
  cells.pop_back();
  EXPECT_TRUE(rig.backend->allocate(1).ok());
}

TEST(Lanes, OwnLanesAndLoanLanesHaveTheirKernelClassAndRunAtOnce) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("identity_fp32"));
  spec.ownLanes = 3;
  spec.loanLanes = 2;
  ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[1].message;
  ASSERT_EQ(rig.lanes.size(), 5U);
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/" + std::to_string(rig.ready[1].pid) + "/task"),
                                     std::filesystem::directory_iterator());
  EXPECT_EQ(static_cast<std::size_t>(threads), 5 + rig.ready[1].serviceThreads.size()) << "every thread is a lane or is named";
  EXPECT_EQ(rig.lanes[Rig::lane(1, 2)], LaneClass::Own);
  EXPECT_EQ(rig.lanes[Rig::lane(1, 3)], LaneClass::Loan);
  for (const int thread : rig.ready[1].ownLaneThreads) EXPECT_EQ(::sched_getscheduler(thread), SCHED_OTHER);
  for (const int thread : rig.ready[1].loanLaneThreads) EXPECT_EQ(::sched_getscheduler(thread), SCHED_IDLE);
  std::vector<std::shared_ptr<Reply>> replies;
  for (int round = 0; round < 50; ++round) {
    replies.clear();
    for (int lane = 0; lane < 5; ++lane)
      replies.push_back(rig.send(Rig::lane(1, lane), {1, 1}, bytesOf<float>({static_cast<float>(round * 5 + lane)})));
    ASSERT_TRUE(rig.waitFor([&] { return std::all_of(replies.begin(), replies.end(), [](const auto& r) { return r->done; }); }));
    for (int lane = 0; lane < 5; ++lane) {
      EXPECT_EQ(replies[static_cast<std::size_t>(lane)]->outputs.at(0), bytesOf<float>({static_cast<float>(round * 5 + lane)}));
    }
  }
}

TEST(Lanes, ABusyLaneTakesNoSecondRequest) {
  const Folder folder;
  Rig rig;
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("slow_1ms"))));
  const std::vector<std::byte> row(64 * 4);
  const auto first = rig.send(Rig::lane(1), {1, 64}, row);
  const auto second = rig.send(Rig::lane(1), {1, 64}, row);
  const auto nowhere = rig.send(Rig::lane(1, 7), {1, 64}, row);
  ASSERT_TRUE(rig.waitFor([&] { return first->done && second->done && nowhere->done; }));
  EXPECT_FALSE(first->error.has_value());
  EXPECT_EQ(second->error->reason, "LaneBusy");
  EXPECT_EQ(nowhere->error->reason, "LaneGone");
  EXPECT_TRUE(nowhere->outcome.neverStarted);
}

TEST(Answers, ThatAreHeldStayIntactAndDoNotStopTheLane) {
  const Folder folder;
  Rig rig;
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("identity_fp32"))));
  rig.keepAnswers = true;
  std::vector<std::shared_ptr<Reply>> kept;
  for (int i = 0; i < 10; ++i) kept.push_back(rig.sendAndWait(Rig::lane(1), {1, 2}, bytesOf<float>({static_cast<float>(i), 1})));
  rig.backend.reset();  // answers outlive even the backend
  for (int i = 0; i < 10; ++i) {
    const auto data = kept[static_cast<std::size_t>(i)]->answer->outputs()[0].data;
    EXPECT_EQ(std::vector<std::byte>(data.begin(), data.end()), bytesOf<float>({static_cast<float>(i), 1}));
  }
}

TEST(Answers, LargeOnesGiveTheirMemoryBack) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("identity_fp32"));
  spec.largestAnswer = Bytes(16 << 20);
  ASSERT_TRUE(rig.startAndWait(spec));
  const std::vector<std::byte> large(12 << 20, std::byte{1});
  ASSERT_FALSE(rig.sendAndWait(Rig::lane(1), {1, 3 << 20}, large)->error.has_value());
  const std::int64_t first = rig.runtime->residentMemory(InstanceId(1)).value;
  for (int i = 0; i < 5; ++i) ASSERT_FALSE(rig.sendAndWait(Rig::lane(1), {1, 3 << 20}, large)->error.has_value());
  EXPECT_LT(rig.runtime->residentMemory(InstanceId(1)).value, first + (4 << 20));
}

TEST(Stopping, ARunIsTerminatedOnRequestEvenIfTheSignalOvertakesIt) {
  const Folder folder;
  Rig rig(workerOptions(), {.sweep = Millis(1)});
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("slow_50ms"))));
  const std::vector<std::byte> row(64 * 4);
  bool cancelled = false;
  for (int attempt = 0; attempt < 50 && !cancelled; ++attempt) {  // on a busy machine a run may be over before the signal is read
    const auto reply = rig.send(Rig::lane(1), {1, 64}, row);
    rig.backend->terminate(Rig::lane(1));
    ASSERT_TRUE(rig.waitFor([&] { return reply->done; }));
    cancelled = reply->error.has_value() && reply->error->code == Code::Cancelled;
  }
  EXPECT_TRUE(cancelled);
  EXPECT_FALSE(rig.sendAndWait(Rig::lane(1), {1, 64}, row)->error.has_value()) << "the next run is not affected";
}

TEST(Stopping, ARunBeyondItsLimitIsAskedToStop) {
  const Folder folder;
  Rig rig(workerOptions(), {.sweep = Millis(2), .killAfter = Millis(20000)});
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("slow_50ms"))));
  bool stopped = false;
  for (int attempt = 0; attempt < 50 && !stopped; ++attempt) {
    const auto reply = rig.send(Rig::lane(1), {1, 64}, std::vector<std::byte>(64 * 4), Millis(4));
    ASSERT_TRUE(rig.waitFor([&] { return reply->done; }));
    stopped = reply->error.has_value() && reply->error->reason == "Terminated";
  }
  EXPECT_TRUE(stopped);
  EXPECT_TRUE(rig.ends.empty());
}

TEST(Stopping, AWorkerThatDoesNotStopIsKilledAndItsInputWasQuarantinedUntilThen) {
  const Folder folder;
  Rig rig(workerOptions(), {.sweep = Millis(5), .killAfter = Millis(50)});
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("identity_fp32"))));
  freeze(rig.ready[1].pid);
  const auto reply = rig.send(Rig::lane(1), {1, 1}, bytesOf<float>({1}), Millis(10));
  (void)rig.loop.runUntil([&] { return reply->done; }, Millis(30));
  EXPECT_FALSE(reply->done);
  EXPECT_GT(rig.backend->arena().used(), 0U) << "the worker may still read it";
  ASSERT_TRUE(rig.waitForEnd(1));
  EXPECT_EQ(rig.ends[1].reason, EndReason::RunTimedOut);
  EXPECT_TRUE(reply->done);
  EXPECT_TRUE(rig.idle());
}

TEST(Draining, FinishesWhatRunsAndThenSaysSo) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("slow_50ms"));
  spec.ownLanes = 2;
  ASSERT_TRUE(rig.startAndWait(spec));
  const std::vector<std::byte> row(64 * 4);
  const auto running = rig.send(Rig::lane(1, 0), {1, 64}, row);
  bool drained = false;
  rig.backend->drainInstance(InstanceId(1), [&] { drained = true; });
  EXPECT_FALSE(rig.lanes.contains(Rig::lane(1, 1))) << "the idle lane is gone at once";
  EXPECT_TRUE(rig.lanes.contains(Rig::lane(1, 0))) << "the busy lane once its run is complete";
  const auto late = rig.send(Rig::lane(1, 1), {1, 64}, row);
  ASSERT_TRUE(rig.waitFor([&] { return drained; }));
  EXPECT_FALSE(running->error.has_value());
  EXPECT_TRUE(late->outcome.neverStarted);
  EXPECT_TRUE(rig.lanes.empty());
  rig.runtime->stop(InstanceId(1), Millis(5000));
  ASSERT_TRUE(rig.waitForEnd(1));
  EXPECT_EQ(rig.ends[1].reason, EndReason::Stopped);
}

TEST(Draining, AnotherSignatureIsRefused) {
  const Folder folder;
  Rig rig;
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("identity_fp32"))));
  channel::InstanceEndpoint other;
  other.id = InstanceId(2);
  other.signature = {{{"INPUT0", ElementType::Fp64, {-1, -1}, false}}, {{"OUTPUT0", ElementType::Fp64, {-1, -1}, false}}};
  EXPECT_EQ(rig.backend->addInstance(std::move(other)).error().reason, "SignatureDiffers");
}

}  // namespace
}  // namespace coterie::worker_test
