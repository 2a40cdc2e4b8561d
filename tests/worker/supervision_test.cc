// How instances end and what is told: crashes, model faults, memory, time limits.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>

#include "rig.h"
#include "testing/onnx_writer.h"

namespace coterie::worker_test {
namespace {

TEST(Crash, InFlightIsToldFromNeverStarted) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("slow_50ms"));
  spec.ownLanes = 2;
  ASSERT_TRUE(rig.startAndWait(spec));
  const std::vector<std::byte> row(64 * 4);
  const auto taken = rig.send(Rig::lane(1, 0), {1, 64}, row);
  // The first request is in its run before the worker is frozen; the second is still in its socket when it dies.
  (void)rig.loop.runUntil([] { return false; }, Millis(15));
  ASSERT_FALSE(taken->done);
  freeze(rig.ready[1].pid);
  const auto unread = rig.send(Rig::lane(1, 1), {1, 64}, row);
  ::kill(rig.ready[1].pid, SIGKILL);
  ASSERT_TRUE(rig.waitForEnd(1));
  ASSERT_TRUE(rig.waitFor([&] { return taken->done && unread->done; }));
  EXPECT_TRUE(taken->outcome.instanceCrashed);
  EXPECT_FALSE(taken->outcome.neverStarted);
  EXPECT_EQ(taken->error->code, Code::Unavailable);
  EXPECT_TRUE(unread->outcome.neverStarted);
  EXPECT_FALSE(unread->outcome.instanceCrashed);
  EXPECT_EQ(rig.ends[1].reason, EndReason::Crashed);
  EXPECT_NE(rig.ends[1].message.find("signal 9"), std::string::npos) << rig.ends[1].message;
  EXPECT_TRUE(rig.lanes.empty());
  EXPECT_TRUE(rig.idle());
}

TEST(Crash, TheNextInstanceServesFromTheSameArena) {
  const Folder folder;
  Rig rig;
  const std::string model = folder.model("identity_fp32");
  for (int id = 1; id <= 3; ++id) {
    ASSERT_TRUE(rig.startAndWait(rig.spec(id, model))) << rig.ends[id].message;
    EXPECT_EQ(rig.sendAndWait(Rig::lane(id), {1, 1}, bytesOf<float>({7}))->outputs.at(0), bytesOf<float>({7}));
    ::kill(rig.ready[id].pid, SIGKILL);
    ASSERT_TRUE(rig.waitForEnd(id));
    ASSERT_TRUE(rig.waitFor([&] { return rig.lanes.empty(); }));
  }
}

// Done-when 7 at this level: a service's worker dies again and again under load, the other service sees nothing.
TEST(Crash, KillsOfOneServicesWorkersAreNoErrorsOfAnothers) {
  const int kills = std::getenv("COTERIE_TEST_ALL") != nullptr ? 200 : 20;
  const Folder folder;
  Rig rig;
  auto arena = std::shared_ptr<channel::RequestArena>(channel::RequestArena::create({Bytes(1 << 20), Bytes(1 << 16)}).value());
  ASSERT_TRUE(rig.runtime->setRequestArena({"default", "other"}, arena->fd(), arena->size()).ok());
  const std::string model = folder.model("identity_fp32");
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, model)));

  std::int64_t good = 0;
  std::int64_t bad = 0;
  bool stop = false;
  std::function<void()> next = [&] {
    RunRequest request;
    request.members.push_back({rig.backend->allocate(4).value(), {{0, {1, 1}, 0, 4}}});
    request.outputs = {0};
    request.maxRun = Seconds(30);
    rig.backend->run(Rig::lane(1), std::move(request), [&](RunOutcome outcome) {
      (outcome.answer.ok() ? good : bad) += 1;
      if (!stop) next();
    });
  };
  next();

  int killed = 0;
  for (int id = 2; killed < kills; ++id) {
    InstanceSpec victim = rig.spec(id, model);
    victim.service = {"default", "other"};
    // Every third dies somewhere in its start, the others while they serve.
    if (id % 3 == 0) {
      ASSERT_TRUE(rig.start(victim).ok());
      ASSERT_TRUE(rig.waitFor([&] { return !rig.progress[id].empty() || rig.ends.contains(id); }));
      rig.runtime->violated(InstanceId(id), EndReason::Crashed, "killed by the test");
    } else {
      ASSERT_TRUE(rig.startAndWait(victim)) << rig.ends[id].message;
      const auto reply = rig.send(Rig::lane(id), {1, 1}, bytesOf<float>({1}));
      ::kill(rig.ready[id].pid, SIGKILL);
      ASSERT_TRUE(rig.waitFor([&] { return reply->done; }));
    }
    ++killed;
    ASSERT_TRUE(rig.waitForEnd(id));
  }
  stop = true;
  ASSERT_TRUE(rig.waitFor([&] { return rig.idle(); }));
  EXPECT_EQ(bad, 0);
  EXPECT_GT(good, kills);
}

TEST(Crash, WorkersDieWithTheirRuntime) {
  const Folder folder;
  int pid = 0;
  {
    Rig rig;
    ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("identity_fp32"))));
    pid = rig.ready[1].pid;
  }
  EXPECT_NE(::kill(pid, 0), 0) << pid;
}

struct ModelFault {
  const char* name;
  std::function<InstanceSpec(const Rig&, const Folder&)> spec;
  const char* says;
};

TEST(ModelFaults, AreNamedInPlainWords) {
  const std::string good = *testing::makeModel("mlp");
  const std::vector<ModelFault> faults = {
      {"truncated", [&](const Rig& rig, const Folder& folder) { return rig.spec(1, folder.write("m.onnx", good.substr(0, good.size() / 2))); },
       "m.onnx is truncated"},
      {"not ONNX", [](const Rig& rig, const Folder& folder) { return rig.spec(1, folder.write("m.onnx", "<html>404</html>")); },
       "m.onnx is not an ONNX file"},
      {"empty", [](const Rig& rig, const Folder& folder) { return rig.spec(1, folder.write("m.onnx", "")); }, "m.onnx is empty"},
      {"wrong checksum",
       [&](const Rig& rig, const Folder& folder) {
         InstanceSpec spec = rig.spec(1, folder.write("m.onnx", good));
         spec.sha256 = std::string(64, 'a');
         return spec;
       },
       "m.onnx has the wrong checksum: sha256 "},
      {"missing", [](const Rig& rig, const Folder& folder) { return rig.spec(1, folder.path() + "/m.onnx"); }, "m.onnx is missing"},
      {"a folder", [](const Rig& rig, const Folder& folder) { return rig.spec(1, folder.path()); }, "is not a file"},
      {"too big",
       [&](const Rig& rig, const Folder& folder) {
         InstanceSpec spec = rig.spec(1, folder.write("m.onnx", good + std::string()));
         spec.memoryLimit = Bytes(300'000);
         return spec;
       },
       "m.onnx"},
      {"external data outside",
       [](const Rig& rig, const Folder& folder) {
         folder.write("weights.bin", std::string(64, '\0'));
         return rig.spec(1, folder.write("inner/m.onnx", *testing::makeModel("external_outside")));
       },
       "m.onnx wants external data \"../weights.bin\", which is outside its folder"},
      {"external data through a link",
       [](const Rig& rig, const Folder& folder) {
         const std::string secret = folder.write("secret.bin", std::string(64, '\0'));
         const std::string model = folder.write("inner/m.onnx", *testing::makeModel("external_inside"));
         std::filesystem::create_symlink(secret, folder.path() + "/inner/weights.bin");
         return rig.spec(1, model);
       },
       "outside its folder or a link"},
      {"external data missing",
       [](const Rig& rig, const Folder& folder) { return rig.spec(1, folder.write("m.onnx", *testing::makeModel("external_inside"))); },
       "\"weights.bin\", which cannot be read: No such file"},
      {"unknown operator", [](const Rig& rig, const Folder& folder) { return rig.spec(1, folder.model("unknown_operator")); },
       "unknown_operator.onnx uses an operator that ONNX Runtime does not know"},
      {"outside the tenant's root",
       [](const Rig& rig, const Folder& folder) {
         folder.model("mlp");
         folder.write("root/x", "");
         InstanceSpec spec = rig.spec(1, folder.path() + "/root/../mlp.onnx");
         spec.modelRoot = folder.path() + "/root";
         return spec;
       },
       "mlp.onnx lies outside the tenant's model folder"},
      {"a probe that does not fit",
       [](const Rig& rig, const Folder& folder) {
         InstanceSpec spec = rig.spec(1, folder.model("mlp"));
         spec.probe.push_back({"input", {1, 10}});
         return spec;
       },
       "set probe.shapes"},
  };
  for (const ModelFault& fault : faults) {
    SCOPED_TRACE(fault.name);
    const Folder folder;
    Rig rig;
    EXPECT_FALSE(rig.startAndWait(fault.spec(rig, folder)));
    ASSERT_TRUE(rig.ends.contains(1));
    if (std::string_view(fault.name) == "too big") {
      // Where a memory group that small cannot even hold the process, the kernel ends it first.
      EXPECT_TRUE(rig.ends[1].reason == EndReason::LoadFailed || rig.ends[1].reason == EndReason::OutOfMemory) << rig.ends[1].message;
      continue;
    }
    EXPECT_EQ(rig.ends[1].reason, EndReason::LoadFailed) << endReasonName(rig.ends[1].reason) << ": " << rig.ends[1].message;
    EXPECT_NE(rig.ends[1].message.find(fault.says), std::string::npos) << rig.ends[1].message;
  }
}

TEST(ModelFaults, ExternalDataBesideTheModelIsServed) {
  const Folder folder;
  Rig rig;
  std::vector<float> weights(16);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
  folder.write("weights.bin", std::string(reinterpret_cast<const char*>(weights.data()), 64));
  InstanceSpec spec = rig.spec(1, folder.model("external_inside"));
  spec.modelRoot = folder.path();
  ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[1].message;
  EXPECT_EQ(rig.sendAndWait(Rig::lane(1), {1, 16}, std::vector<std::byte>(64))->outputs.at(0), bytesOf(weights));
}

TEST(ModelFaults, TooBigForItsMemoryIsSaidWithBothNumbers) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("resnet50"));
  spec.memoryLimit = Bytes(80 << 20);
  EXPECT_FALSE(rig.startAndWait(spec));
  EXPECT_EQ(rig.ends[1].reason, EndReason::LoadFailed) << rig.ends[1].message;
  EXPECT_NE(rig.ends[1].message.find("resnet50.onnx is too big: it has 102"), std::string::npos) << rig.ends[1].message;
}

TEST(Memory, AModelThatOutgrowsItsLimitEndsAsOutOfMemory) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("resnet50"));
  spec.memoryLimit = Bytes(130 << 20);
  EXPECT_FALSE(rig.startAndWait(spec));
  EXPECT_EQ(rig.ends[1].reason, EndReason::OutOfMemory) << endReasonName(rig.ends[1].reason) << ": " << rig.ends[1].message;
}

TEST(Memory, ALimitThatSufficesDoesNotDisturb) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model("mobilenet_v2"));
  spec.memoryLimit = Bytes(300LL << 20);
  ASSERT_TRUE(rig.startAndWait(spec)) << rig.ends[1].message;
  EXPECT_FALSE(rig.sendAndWait(Rig::lane(1), {1, 3, 224, 224}, std::vector<std::byte>(3 * 224 * 224 * 4))->error.has_value());
}

// Faster than the product's, so that a test need not wait: a look at whether workers stand still every 20 ms.
process::ProcessOptions watchful(Millis silentLimit = Millis(60'000)) {
  process::ProcessOptions options = workerOptions();
  options.stopCheck = Millis(20);
  options.silentLimit = silentLimit;
  options.soleLimit = silentLimit;
  return options;
}

TEST(Silence, AStoppedIdleWorkerLeavesTheRotationAndComesBack) {
  const Folder folder;
  Rig rig(watchful());
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("identity_fp32"))));
  ASSERT_TRUE(rig.startAndWait(rig.spec(2, folder.model("identity_fp32"))));
  freeze(rig.ready[1].pid);
  ASSERT_TRUE(rig.waitFor([&] { return !rig.silences[1].empty(); }));
  EXPECT_NE(rig.silences[1][0].find("a signal has stopped it"), std::string::npos) << rig.silences[1][0];
  EXPECT_FALSE(rig.lanes.contains(Rig::lane(1)));
  EXPECT_TRUE(rig.lanes.contains(Rig::lane(2))) << "only the one that is silent";
  const auto refused = rig.sendAndWait(Rig::lane(1), {1, 1}, bytesOf<float>({7}));
  EXPECT_TRUE(refused->outcome.neverStarted) << "nothing is sent to it";
  ::kill(rig.ready[1].pid, SIGCONT);
  ASSERT_TRUE(rig.waitFor([&] { return rig.returns[1] == 1; }));
  EXPECT_TRUE(rig.lanes.contains(Rig::lane(1)));
  EXPECT_EQ(rig.sendAndWait(Rig::lane(1), {1, 1}, bytesOf<float>({7}))->outputs.at(0), bytesOf<float>({7}));
  EXPECT_EQ(rig.silences[1].size(), 1U);
  EXPECT_TRUE(rig.silences[2].empty());
  EXPECT_TRUE(rig.ends.empty());
}

TEST(Silence, AWorkerThatStaysSilentIsEndedAsUnresponsive) {
  const Folder folder;
  Rig rig(watchful(Millis(200)));
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("identity_fp32"))));
  freeze(rig.ready[1].pid);
  ASSERT_TRUE(rig.waitForEnd(1));
  EXPECT_EQ(rig.ends[1].reason, EndReason::Unresponsive) << rig.ends[1].message;
  EXPECT_NE(rig.ends[1].message.find("it was silent for 1 s: a signal has stopped it"), std::string::npos) << rig.ends[1].message;
  EXPECT_TRUE(rig.lanes.empty());
}

// Whoever stopped it may let it go on; but while nobody else of its service works, each second is one of refusals.
TEST(Silence, AStoppedWorkerIsEndedSoonerWhereNobodyElseOfItsServiceWorks) {
  const Folder folder;
  process::ProcessOptions options = watchful();
  options.soleLimit = Millis(100);
  Rig rig(options);
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("identity_fp32"))));
  ASSERT_TRUE(rig.startAndWait(rig.spec(2, folder.model("identity_fp32"))));
  freeze(rig.ready[1].pid);
  ASSERT_TRUE(rig.waitFor([&] { return !rig.silences[1].empty(); }));
  (void)rig.loop.runUntil([&] { return rig.ends.count(1) > 0; }, Millis(300));
  EXPECT_TRUE(rig.ends.empty()) << "the other one works";
  freeze(rig.ready[2].pid);
  ASSERT_TRUE(rig.waitForEnd(1));
  ASSERT_TRUE(rig.waitForEnd(2));
  EXPECT_EQ(rig.ends[1].reason, EndReason::Unresponsive) << rig.ends[1].message;
  EXPECT_EQ(rig.ends[2].reason, EndReason::Unresponsive) << rig.ends[2].message;
}

// The kernel tells the supervisor too late here (a minute); the gateway finds out by the request that gets no answer.
TEST(Silence, ARequestThatAStoppedWorkerHasNotTakenMayGoElsewhereAndItsCellIsKept) {
  const Folder folder;
  process::ProcessOptions options = workerOptions();
  options.stopCheck = Millis(60'000);
  Rig rig(options, {.sweep = Millis(5), .killAfter = Millis(1000), .silentAfter = Millis(100)});
  InstanceSpec spec = rig.spec(1, folder.model("slow_50ms"));
  spec.ownLanes = 2;
  ASSERT_TRUE(rig.startAndWait(spec));
  const std::vector<std::byte> row(64 * 4);
  const auto taken = rig.send(Rig::lane(1, 0), {1, 64}, row);
  (void)rig.loop.runUntil([] { return false; }, Millis(15));
  ASSERT_FALSE(taken->done);
  freeze(rig.ready[1].pid);
  const auto unread = rig.send(Rig::lane(1, 1), {1, 64}, row);
  ASSERT_TRUE(rig.waitFor([&] { return unread->done; }));
  EXPECT_TRUE(unread->outcome.neverStarted);
  EXPECT_FALSE(unread->outcome.instanceCrashed);
  EXPECT_NE(rig.silences[1].at(0).find("uses no CPU time"), std::string::npos) << rig.silences[1][0];
  EXPECT_FALSE(taken->done) << "this one may still end well";
  EXPECT_FALSE(rig.lanes.contains(Rig::lane(1, 1)));
  EXPECT_FALSE(rig.idle()) << "the worker may yet read what it was given";
  // It goes on: the one in its run ends, the other's answer is dropped, both lanes are good again.
  ::kill(rig.ready[1].pid, SIGCONT);
  ASSERT_TRUE(rig.waitFor([&] { return taken->done && rig.idle() && rig.returns[1] == 1; }));
  EXPECT_FALSE(taken->error.has_value()) << taken->error->message;
  ASSERT_TRUE(rig.waitFor([&] { return rig.lanes.contains(Rig::lane(1, 0)) && rig.lanes.contains(Rig::lane(1, 1)); }));
  EXPECT_FALSE(rig.sendAndWait(Rig::lane(1, 1), {1, 64}, row)->error.has_value());
  EXPECT_TRUE(rig.ends.empty());
}

TEST(Silence, WhatIsUnderWayAtASilentEndIsTold) {
  const Folder folder;
  process::ProcessOptions options = watchful(Millis(300));
  Rig rig(options, {.sweep = Millis(5), .killAfter = Millis(1000), .silentAfter = Millis(100)});
  InstanceSpec spec = rig.spec(1, folder.model("slow_50ms"));
  ASSERT_TRUE(rig.startAndWait(spec));
  const std::vector<std::byte> row(64 * 4);
  const auto taken = rig.send(Rig::lane(1), {1, 64}, row);
  (void)rig.loop.runUntil([] { return false; }, Millis(15));
  ASSERT_FALSE(taken->done);
  freeze(rig.ready[1].pid);
  ASSERT_TRUE(rig.waitForEnd(1));
  ASSERT_TRUE(rig.waitFor([&] { return taken->done; }));
  EXPECT_TRUE(taken->outcome.instanceCrashed);
  EXPECT_EQ(rig.ends[1].reason, EndReason::Unresponsive);
  EXPECT_TRUE(rig.idle());
}

TEST(Silence, ALongRunIsNoSilence) {
  const Folder folder;
  Rig rig(watchful(), {.sweep = Millis(5), .killAfter = Millis(1000), .silentAfter = Millis(40)});
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("slow_50ms"))));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(rig.sendAndWait(Rig::lane(1), {1, 64}, std::vector<std::byte>(64 * 4))->error.has_value());
  EXPECT_TRUE(rig.silences[1].empty()) << rig.silences[1].front();
}

TEST(Start, AWorkerThatIsNeverReadyIsEndedInTime) {
  const Folder folder;
  process::ProcessOptions options = workerOptions();
  options.worker = "/bin/cat";  // reads nothing, says nothing, waits on /dev/null: ends at once
  Rig rig(options);
  EXPECT_FALSE(rig.startAndWait(rig.spec(1, folder.model("mlp"))));
  EXPECT_NE(rig.ends[1].reason, EndReason::Stopped);
  process::ProcessOptions slow = workerOptions();
  slow.startTimeout = Seconds(0);
  Rig late(slow);
  EXPECT_FALSE(late.startAndWait(late.spec(1, folder.model("mlp"))));
  EXPECT_EQ(late.ends[1].reason, EndReason::StartTimedOut);
}

TEST(Start, RefusesWhatCannotBe) {
  Rig rig;
  InstanceSpec spec = rig.spec(1, "/nowhere");
  spec.service = {"default", "unknown"};
  EXPECT_EQ(rig.start(spec).error().reason, "NoRequestArena");
  spec = rig.spec(1, "/nowhere");
  spec.ownLanes = 0;
  EXPECT_EQ(rig.start(spec).error().reason, "BadInstance");
  process::ProcessOptions broken = workerOptions();
  broken.launcher = "/nowhere/worker";
  Rig none(broken);
  EXPECT_EQ(none.start(none.spec(1, "/nowhere")).error().reason, "SpawnFailed");
}

}  // namespace
}  // namespace coterie::worker_test
