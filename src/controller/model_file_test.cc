// What becomes of a service whose model's file is missing, wrong, too large or replaced, and of its inspection.
#include <gtest/gtest.h>

#include "controller/controller_fixture.h"

namespace coterie::controller {
namespace {

using ModelFiles = ControllerStory;

TEST_F(ModelFiles, AWrongChecksumIsNeverLoaded) {
  const std::string other(64, 'a');
  putService("a", [&](ModelServiceSpec& s) { s.sha256 = other; });
  EXPECT_TRUE(runtime.starts.empty());
  EXPECT_EQ(condition("a", "ModelLoaded"), "False/ChecksumMismatch");
  EXPECT_EQ(condition("a", "Ready"), "False/ChecksumMismatch");
  EXPECT_NE(message("a", "Ready").find("sum-a"), std::string::npos) << "both sums are named";
  files.put("a.onnx", other);
  loop.advance(Seconds(16));
  EXPECT_EQ(runtime.starts.size(), 1u) << "the file was put right";
}

TEST_F(ModelFiles, AMissingFileIsFoundWhenItComes) {
  putService("c");
  EXPECT_EQ(condition("c", "Ready"), "False/ModelNotFound");
  const int asked = files.asked;
  loop.advance(Seconds(60));
  EXPECT_LE(files.asked - asked, 5) << "looked for now and then";
  files.put("c.onnx", "sum-c");
  loop.advance(Seconds(16));
  EXPECT_EQ(runtime.starts.size(), 1u);
}

TEST_F(ModelFiles, AFileTooLargeForMachineQuotaOrSpecIsRefusedUnreadByItsMissingBytes) {
  struct Case {
    const char* story;
    Bytes size;
    Bytes quota;
    Bytes memory;
    const char* whose;
    Bytes missing;
  };
  const auto limit = [](std::int64_t size) { return (2 * size + 128'000'000) * 6 / 5; };
  const std::int64_t machine = (4LL << 30) - (256LL << 20);
  const Case cases[] = {
      {"machine", Bytes(200LL << 30), {}, {}, "missing on this machine", Bytes(limit(200LL << 30) - machine)},
      {"quota", Bytes(2LL << 30), Bytes(1LL << 30), {}, "missing of quota.memory of tenant team", Bytes(limit(2LL << 30) - (1LL << 30))},
      {"spec", Bytes(2LL << 30), {}, Bytes(1LL << 30), "missing of spec.memory", Bytes(2 * (2LL << 30) + 128'000'000 - (1LL << 30))}};
  for (const Case& c : cases) {
    files.put("a.onnx", std::string("sum-") + c.story, c.size);
    TenantQuota quota;
    quota.memory = c.quota;
    putTenant("team", {"n"}, quota);
    putService("a", [&](ModelServiceSpec& s) { s.memory = c.memory; });
    EXPECT_EQ(files.read, 0) << c.story;
    EXPECT_TRUE(runtime.starts.empty()) << c.story;
    EXPECT_EQ(condition("a", "Ready"), "False/InsufficientMemory") << c.story;
    EXPECT_NE(message("a", "ModelLoaded").find("(" + std::to_string(c.missing.value) + " bytes) are " + c.whose), std::string::npos)
        << c.story << ": " << message("a", "ModelLoaded");
    remove("a");
  }
}

TEST_F(ModelFiles, AFileRefusedUnreadIsReadOnceThereIsRoom) {
  files.put("a.onnx", "sum-a", Bytes(1LL << 30));
  TenantQuota quota;
  quota.memory = Bytes(1LL << 29);
  putTenant("team", {"n"}, quota);
  putService("a");
  EXPECT_EQ(condition("a", "Ready"), "False/InsufficientMemory");
  quota.memory = Bytes(0);
  putTenant("team", {"n"}, quota);
  EXPECT_EQ(runtime.starts.size(), 1u);
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

TEST_F(ModelFiles, NobodyReadsOnForAServiceThatIsGoneOrWantsAnotherFile) {
  files.held = true;
  putService("a");
  putService("b");
  EXPECT_EQ(files.open, 2);
  remove("a");
  EXPECT_EQ(files.open, 1);
  putService("b", [](ModelServiceSpec& s) { s.modelUri = "file:a.onnx"; });
  EXPECT_EQ(files.open, 1);
  EXPECT_EQ(files.asked, 3) << "the new file instead of the old one";
  ASSERT_TRUE(store.remove({std::string(kTenantKind), "", "team"}, 0).ok());
  loop.runUntilIdle();
  EXPECT_EQ(files.open, 0) << "nobody owns the namespace";
  files.release();
  loop.runUntilIdle();
  EXPECT_TRUE(runtime.starts.empty());
}

TEST_F(ModelFiles, AReadingUnderWayGoesOnWhenOnlyTheWeightChanges) {
  files.held = true;
  putService("a");
  putService("a", [](ModelServiceSpec& s) { s.weight = 300; });
  EXPECT_EQ(files.asked, 1);
  files.release();
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

// The file was replaced in place and the spec says nothing of it: a crashed instance comes back with the new bytes only together with its siblings.
TEST_F(ModelFiles, AReplacedFileIsRolledOutAndNeverMixedWithTheOldOne) {
  putService("a", [](ModelServiceSpec& s) { s.instances = 2; });
  settle();
  files.put("a.onnx", "sum-new");
  loop.advance(Seconds(60));
  EXPECT_EQ(runtime.starts.size(), 2u) << "what runs goes on";
  runtime.end(InstanceId(1), EndReason::Crashed, "killed by signal 11");
  loop.advance(Millis(1100));
  ASSERT_EQ(runtime.starts.size(), 4u) << "two new ones";
  for (int i : {2, 3}) EXPECT_EQ(runtime.starts[static_cast<std::size_t>(i)].sha256, "sum-new");
  EXPECT_TRUE(happened("a", "ModelChanged"));
  EXPECT_EQ(condition("a", "ModelLoaded"), "False/Loading");
  for (const char* word : {"sum-a before", "sum-new now", "Set spec.model.sha256"}) {
    EXPECT_NE(message("a", "ModelLoaded").find(word), std::string::npos) << word << ": " << message("a", "ModelLoaded");
  }
  runtime.ready(InstanceId(3));
  loop.runUntilIdle();
  EXPECT_EQ(gateway.serving.size(), 1u);
  EXPECT_TRUE(gateway.serving.contains(InstanceId(2))) << "the old one serves alone until the new ones are complete";
  settle();
  EXPECT_EQ(instancesOf("a"), (std::vector<InstanceId>{InstanceId(3), InstanceId(4)}));
  EXPECT_EQ(condition("a", "ModelLoaded"), "True/Loaded");
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

TEST_F(ModelFiles, AReplacedFileIsSaidWhoeverNoticesIt) {
  struct Case {
    const char* story;
    std::function<void()> looks;
    bool said;
  };
  std::uint64_t mark = 0;
  const Case cases[] = {
      {"the only instance crashed", [&] { runtime.end(instancesOf("a").back(), EndReason::Crashed, "crash"); }, true},
      {"its weight was changed", [&] { putService("a", [](ModelServiceSpec& s) { s.weight = 300; }); }, true},
      {"the program was started anew", [&] { restart(); }, true},
      {"its external data was replaced too",
       [&] {
         files.put("a.onnx", files.files.at("/models/a.onnx").sha256, Bytes(1 << 20), ++mark),
             runtime.end(instancesOf("a").back(), EndReason::Crashed, "crash");
       },
       true},
      {"the spec names its checksum", [&] { putService("a", [&](ModelServiceSpec& s) { s.sha256 = files.files.at("/models/a.onnx").sha256; }); },
       false},
  };
  int number = 0;
  for (const Case& c : cases) {
    const std::string sum = std::string(63, 'a') + std::to_string(number++);
    putService("a");
    settle();
    const auto said = [&] {
      const std::vector<Event> all = events.last({std::string(kModelServiceKind), "n", "a"}, 1000);
      return std::count_if(all.begin(), all.end(), [](const Event& event) { return event.reason == "ModelChanged"; });
    };
    const auto before = said();
    files.put("a.onnx", sum, Bytes(1 << 20), mark);
    c.looks();
    loop.advance(Seconds(61));
    settle();
    EXPECT_EQ(condition("a", "Ready"), "True/Serving") << c.story;
    EXPECT_EQ(runtime.starts.back().sha256, sum) << c.story;
    EXPECT_EQ(said() - before, c.said ? 1 : 0) << c.story;
  }
}

// The answer to "what is the file now" is late: nothing is started with what it was.
TEST_F(ModelFiles, AfterACrashNothingStartsBeforeTheFileWasLookedAt) {
  putService("a");
  settle();
  files.held = true;
  files.put("a.onnx", "sum-new");
  runtime.end(InstanceId(1), EndReason::Crashed, "crash");
  loop.advance(Seconds(5));
  EXPECT_EQ(runtime.starts.size(), 1u);
  EXPECT_EQ(condition("a", "Ready"), "False/Inspecting");
  files.release();
  settle();
  EXPECT_EQ(runtime.starts.back().sha256, "sum-new");
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

// Two services at the start of the program, of which one file's answer has come.
struct OneOfTwoFilesIsKnown : ControllerFixture {
  OneOfTwoFilesIsKnown() {
    files.held = true;
    files.put("a.onnx", "sum-a");
    files.put("b.onnx", "sum-b");
    putTenant("team", {"n"});
    putService("a");
    putService("b");
    start();
    const std::function<void()> first = files.waiting.front();
    files.waiting.erase(files.waiting.begin());
    first();
    loop.runUntilIdle();
  }
};

TEST(ModelFilesAtTheStart, NothingStartsBeforeEveryFileWasLookedAt) {
  OneOfTwoFilesIsKnown c;
  EXPECT_TRUE(c.runtime.starts.empty()) << "the allocator shall hear of all instances in one turn";
  EXPECT_EQ(c.allocation.sets, 0);
  c.files.release();
  c.loop.runUntilIdle();
  EXPECT_EQ(c.runtime.starts.size(), 2u);
}

TEST(ModelFilesAtTheStart, TheBarrierFallsAfterTenSeconds) {
  OneOfTwoFilesIsKnown c;
  c.loop.advance(Seconds(11));
  EXPECT_EQ(c.runtime.starts.size(), 1u);
}

}  // namespace
}  // namespace coterie::controller
