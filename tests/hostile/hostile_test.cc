// Done-when 8: a hostile binary in place of our worker. Each try is refused or contained, while a neighbour of another tenant serves without one
// error. usage: hostile_test [--as-user UID] [gtest options]; as a user, the binaries and ONNX Runtime are first copied to where he can read them.
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "process/prepared_file.h"
#include "rig.h"
#include "testing/onnx_writer.h"

namespace coterie::worker_test {
namespace {

std::string hostileBinary = COTERIE_HOSTILE_BINARY;
std::string workerBinary = COTERIE_WORKER_BINARY;

class Hostile : public ::testing::Test {
 protected:
  static process::ProcessOptions good() {
    process::ProcessOptions options = workerOptions();
    options.launcher = workerBinary;
    options.worker = workerBinary;
    return options;
  }
  static process::ProcessOptions bad(const std::string& name, int victim, const std::string& secret) {
    process::ProcessOptions options = good();
    options.worker = hostileBinary;
    options.workerArguments = {"hostile", name, std::to_string(::getpid()), std::to_string(victim), secret};
    options.startTimeout = Seconds(20);
    return options;
  }

  void SetUp() override {
    if (COTERIE_SANITIZED) GTEST_SKIP() << "a sanitizer's runtime needs more of the kernel than the sandbox gives";
    model_ = folder_.model("identity_fp32");
    secret_ = neighbourFolder_.model("mlp");
    neighbour_ = std::make_unique<Rig>(good());
    InstanceSpec spec = neighbour_->spec(1, secret_);
    spec.uid = 200002;
    ASSERT_TRUE(neighbour_->startAndWait(spec)) << neighbour_->ends[1].message;
  }
  void TearDown() override {
    if (neighbour_ == nullptr) return;
    neighbourServes();
    EXPECT_TRUE(neighbour_->ends.empty()) << neighbour_->ends[1].message;
  }
  void neighbourServes() {
    const auto reply = neighbour_->sendAndWait(Rig::lane(1), {1, 784}, std::vector<std::byte>(784 * 4));
    EXPECT_FALSE(reply->error.has_value()) << reply->error->message;
  }
  int victim() { return neighbour_->ready[1].pid; }

  // Runs one try to the end of the hostile instance and returns how it ended.
  InstanceEnd attack(const std::string& name, Nanos maxRun = Millis(200)) {
    Rig rig(bad(name, victim(), secret_), {.sweep = Millis(5), .killAfter = Millis(100)});
    InstanceSpec spec = rig.spec(1, model_);
    spec.uid = 200001;
    spec.memoryLimit = Bytes(256LL << 20);
    spec.prepare = prepare_;
    spec.prepared = prepared_;
    EXPECT_TRUE(rig.start(spec).ok());
    (void)rig.waitFor([&] { return rig.ready.contains(1) || rig.ends.contains(1); });
    if (rig.ready.contains(1) && rig.backend != nullptr && rig.lanes.contains(Rig::lane(1))) {
      const auto reply = rig.send(Rig::lane(1), {1, 4}, bytesOf<float>({1, 2, 3, 4}), maxRun);
      EXPECT_TRUE(rig.waitFor([&] { return reply->done; }, Seconds(30))) << "a request never hangs";
      answered_ = !reply->error.has_value();
      held_ = reply->outcome.held;
      queued_ = reply->outcome.queuedForCpu;
      cpu_ = reply->outcome.cpu;
      neighbourServes();
      // Some tries are legal as such (a flood into a bounded pipe, descriptors that are dropped): then it lives until it is stopped.
      if (!rig.waitFor([&] { return rig.ends.contains(1); }, Seconds(1))) rig.runtime->stop(InstanceId(1), Millis(0));
    }
    EXPECT_TRUE(rig.waitForEnd(1));
    EXPECT_TRUE(rig.idle());
    return rig.ends[1];
  }

  Folder folder_;
  Folder neighbourFolder_;
  std::string model_;
  std::string secret_;
  std::unique_ptr<Rig> neighbour_;
  bool prepare_{false};
  std::shared_ptr<const PreparedModel> prepared_;
  bool answered_{false};
  Nanos held_{};  // of the attack's request
  Nanos queued_{};
  Nanos cpu_{};
};

std::string statusOf(int pid, const std::string& key) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind(key + ":", 0) != 0) continue;
    const std::size_t value = line.find_first_not_of(" \t", key.size() + 1);
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return {};
}

TEST_F(Hostile, OurOwnWorkerSitsInEveryLayerOfTheSandbox) {
  const int pid = victim();
  EXPECT_EQ(statusOf(pid, "NoNewPrivs"), "1");
  EXPECT_EQ(statusOf(pid, "Seccomp"), "2");
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) EXPECT_EQ(statusOf(pid, set), "0000000000000000") << set;
  const std::string uid = ::geteuid() == 0 ? "200002" : std::to_string(::geteuid());
  EXPECT_EQ(statusOf(pid, "Uid").substr(0, uid.size()), uid);
  EXPECT_EQ(statusOf(pid, "Groups"), "");
  std::string score;
  std::ifstream("/proc/" + std::to_string(pid) + "/oom_score_adj") >> score;
  EXPECT_EQ(score, "500");
  std::error_code hidden;
  if (::geteuid() == 0) {
    EXPECT_NE(std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/ns/net", hidden),
              std::filesystem::read_symlink("/proc/self/ns/net", hidden));
    EXPECT_TRUE(neighbour_->ready[1].missingSandbox.empty()) << neighbour_->ready[1].missingSandbox.at(0);
  } else {
    EXPECT_THAT(neighbour_->ready[1].missingSandbox, ::testing::Contains("own user"));
  }
}

TEST_F(Hostile, SystemCallsAreRefused) {
  for (const char* name : {"ptrace-parent",
                           "ptrace-neighbour",
                           "mem-of-parent",
                           "mem-of-neighbour",
                           "environ-of-parent",
                           "maps-of-neighbour",
                           "read-parents-memory",
                           "signal-parent",
                           "signal-neighbour",
                           "signal-everybody",
                           "tgkill-neighbour",
                           "pidfd-of-neighbour",
                           "internet-socket",
                           "unix-socket",
                           "netlink-socket",
                           "io-uring",
                           "parents-memfds",
                           "neighbours-memfds",
                           "reopen-requests-writable",
                           "map-requests-writable",
                           "make-requests-writable",
                           "write-requests",
                           "shrink-requests",
                           "shrink-answers",
                           "grow-answers",
                           "chmod-requests",
                           "another-tenants-model",
                           "password-file",
                           "write-a-file",
                           "fork-bomb",
                           "thread-bomb",
                           "shell",
                           "affinity",
                           "real-time",
                           "idle-class-for-parent",
                           "nice-of-neighbour",
                           "limits-of-neighbour",
                           "own-memfd",
                           "shared-memory",
                           "user-namespace",
                           "mount",
                           "root-again",
                           "bpf",
                           "keyring",
                           "dumpable"}) {
    SCOPED_TRACE(name);
    const InstanceEnd end = attack(name);
    EXPECT_EQ(end.reason, EndReason::LoadFailed) << endReasonName(end.reason) << ": " << end.message;
    EXPECT_NE(end.message.find("refused: "), std::string::npos) << end.message;
  }
}

TEST_F(Hostile, WhoPreparesAModelWritesNothingElse) {
  prepare_ = true;
  for (const char* name : {"create-as-a-preparer", "write-a-file", "replace-the-model", "write-beyond-the-limit", "write-requests", "own-memfd"}) {
    SCOPED_TRACE(name);
    const InstanceEnd end = attack(name);
    EXPECT_EQ(end.reason, EndReason::LoadFailed) << endReasonName(end.reason) << ": " << end.message;
    EXPECT_NE(end.message.find("refused: "), std::string::npos) << end.message;
  }
  EXPECT_GT(std::filesystem::file_size(model_), 0U);
}

TEST_F(Hostile, WhoRunsOverAPreparedModelCannotChangeIt) {
  UniqueFd file = process::PreparedFile::create().value();
  ASSERT_EQ(::write(file.get(), "weights", 7), 7);
  prepared_ = process::PreparedFile::seal(std::move(file));
  ASSERT_NE(prepared_, nullptr);
  for (const char* name : {"rewrite-the-prepared", "write-the-prepared", "shrink-the-prepared", "map-the-prepared-writable"}) {
    SCOPED_TRACE(name);
    const InstanceEnd end = attack(name);
    EXPECT_EQ(end.reason, EndReason::LoadFailed) << endReasonName(end.reason) << ": " << end.message;
    EXPECT_NE(end.message.find("refused: "), std::string::npos) << end.message;
  }
}

TEST_F(Hostile, LiesEndTheInstanceAsAProtocolViolation) {
  for (const char* name : {"wrong-generation",
                           "double-answer",
                           "unasked-answer",
                           "offset-in-another-cell",
                           "offset-overflow",
                           "offset-unaligned",
                           "length-beyond-the-cell",
                           "ten-gigabyte-answer",
                           "length-of-another-shape",
                           "shape-overflow",
                           "negative-dimension",
                           "another-rank",
                           "another-output",
                           "too-many-outputs",
                           "no-outputs",
                           "garbage",
                           "endless-message",
                           "closes-its-lane",
                           "others-threads",
                           "more-lanes-than-given",
                           "no-signature",
                           "control-characters",
                           "ready-twice",
                           "control-garbage",
                           "progress-beyond-all"}) {
    SCOPED_TRACE(name);
    const InstanceEnd end = attack(name);
    EXPECT_EQ(end.reason, EndReason::ProtocolViolation) << endReasonName(end.reason) << ": " << end.message;
  }
}

TEST_F(Hostile, SilenceAndCrashesAreContained) {
  EXPECT_EQ(attack("silence").reason, EndReason::RunTimedOut);
  EXPECT_EQ(attack("half-closes-its-lane").reason, EndReason::RunTimedOut) << "shutdown() is refused, which leaves silence";
  EXPECT_EQ(attack("ends-at-once").reason, EndReason::Crashed);
  EXPECT_EQ(attack("crashes-in-its-run").reason, EndReason::Crashed);
}

TEST_F(Hostile, MemoryBeyondTheLimitIsTheInstancesOwnEnd) {
  const InstanceEnd end = attack("ten-gigabytes-of-memory");
  // With a memory group the kernel ends it; without one its allocation fails, or polling finds it.
  EXPECT_TRUE(end.reason == EndReason::OutOfMemory || end.reason == EndReason::Crashed) << endReasonName(end.reason) << ": " << end.message;
}

// It uses 20 ms of CPU time.
TEST_F(Hostile, NobodyWorksForFreeByCallingItWaiting) {
  EXPECT_EQ(attack("says-it-only-waited", Seconds(20)).reason, EndReason::Stopped);
  ASSERT_TRUE(answered_);
  EXPECT_GE(held_ - queued_, Millis(20) - Millis(20) / 16) << "the CPU time that the kernel saw is charged";
  EXPECT_GE(queued_, Nanos{});
  EXPECT_LE(cpu_, held_) << "nor may it claim more than its lane can use";
}

TEST_F(Hostile, WhatIsLegalIsHarmless) {
  const auto openDescriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = openDescriptors();
  EXPECT_EQ(attack("passes-descriptors").reason, EndReason::Stopped);
  EXPECT_TRUE(answered_);
  EXPECT_LE(openDescriptors(), before + 2) << "descriptors that a worker sends are dropped";
  EXPECT_EQ(attack("rewrites-its-answer").reason, EndReason::Stopped);
  EXPECT_TRUE(answered_);
  const EndReason flood = attack("floods-standard-error").reason;
  EXPECT_TRUE(flood == EndReason::Stopped || flood == EndReason::RunTimedOut);
}

// Copies what a worker needs to a folder that anybody may read, and becomes that user.
void becomeUser(uid_t uid) {
  const std::filesystem::path stage = "/tmp/coterie-hostile-" + std::to_string(::getpid());
  std::filesystem::create_directories(stage / "cache/ort/lib");
  for (std::string* binary : {&workerBinary, &hostileBinary}) {
    const std::filesystem::path copy = stage / std::filesystem::path(*binary).filename();
    std::filesystem::copy_file(*binary, copy);
    *binary = copy;
  }
  std::filesystem::copy_file(std::filesystem::canonical(runtimeLibrary()), stage / "cache/ort/lib/libonnxruntime.so");
  ::setenv("COTERIE_CACHE", (stage / "cache").c_str(), 1);
  bool owned = ::chown(stage.c_str(), uid, uid) == 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(stage)) owned = ::chown(entry.path().c_str(), uid, uid) == 0 && owned;
  if (!owned || ::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0) std::abort();
}

}  // namespace
}  // namespace coterie::worker_test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const bool asUser = argc > 2 && std::string(argv[1]) == "--as-user";
  if (asUser && ::geteuid() == 0) coterie::worker_test::becomeUser(static_cast<uid_t>(std::atoi(argv[2])));
  const int failed = RUN_ALL_TESTS();
  if (asUser) {
    std::error_code ignored;
    std::filesystem::remove_all("/tmp/coterie-hostile-" + std::to_string(::getpid()), ignored);
  }
  return failed;
}
