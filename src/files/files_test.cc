#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "files/beneath.h"
#include "files/inspect.h"
#include "files/threaded_model_files.h"
#include "ports/model_files_contract.h"
#include "testing/manual_loop.h"

namespace coterie::contract {
namespace {

ModelFilesHarness threaded(testing::ManualLoop& loop) {
  std::string pattern = (std::filesystem::temp_directory_path() / "coterie-files-XXXXXX").string();
  const std::filesystem::path root = std::filesystem::canonical(::mkdtemp(pattern.data()));
  const std::shared_ptr<void> keep(nullptr, [root](void*) { std::filesystem::remove_all(root); });
  return {std::make_unique<files::ThreadedModelFiles>(loop), root,
          [root](const std::string& path, const std::string& content) { std::ofstream(root / path, std::ios::binary) << content; }, keep};
}
INSTANTIATE_TEST_SUITE_P(Threaded, ModelFilesContract, ::testing::Values(FilesUnderTest{"threaded", threaded}), filesName);

}  // namespace
}  // namespace coterie::contract

namespace coterie::files {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() {
    std::string pattern = (fs::temp_directory_path() / "coterie-files-XXXXXX").string();
    base_ = fs::canonical(::mkdtemp(pattern.data()));
    fs::create_directories(base_ / "root/a/b");
    fs::create_directories(base_ / "other");
    write("root/a/model.onnx", "abc");
    write("other/secret.onnx", "secret");
    root_ = std::move(*openRoot(base_ / "root"));
  }
  ~Files() override { fs::remove_all(base_); }
  void write(const std::string& path, const std::string& content) { std::ofstream(base_ / path, std::ios::binary) << content; }
  [[nodiscard]] std::string root() const { return base_ / "root"; }

  fs::path base_;
  UniqueFd root_;
};

TEST_F(Files, OnlyWhatLiesBeneathIsOpened) {
  fs::create_symlink("a/model.onnx", base_ / "root/inside");
  fs::create_symlink("../other/secret.onnx", base_ / "root/outside");
  fs::create_symlink(base_ / "other", base_ / "root/folder-outside");
  fs::create_symlink("/proc/self/cwd", base_ / "root/magic");
  fs::create_symlink("loop", base_ / "root/loop");
  ASSERT_EQ(::mkfifo((base_ / "root/fifo").c_str(), 0600), 0);
  struct Case {
    const char* path;
    const char* reason;  // empty: opens
    const char* walked;  // by the fallback, which follows no link
  };
  const Case cases[] = {{"a/model.onnx", "", ""},
                        {"inside", "", "ModelOutsideRoot"},
                        {"outside", "ModelOutsideRoot", "ModelOutsideRoot"},
                        {"folder-outside/secret.onnx", "ModelOutsideRoot", "ModelOutsideRoot"},
                        {"magic/x", "ModelOutsideRoot", "ModelOutsideRoot"},
                        {"loop", "ModelNotFound", "ModelOutsideRoot"},
                        {"../other/secret.onnx", "ModelOutsideRoot", "ModelOutsideRoot"},
                        {"a/../../other/secret.onnx", "ModelOutsideRoot", "ModelOutsideRoot"},
                        {"/etc/passwd", "ModelOutsideRoot", "ModelOutsideRoot"},
                        {"missing.onnx", "ModelNotFound", "ModelNotFound"},
                        {"a/model.onnx/x", "ModelNotFound", "ModelNotFound"},
                        {"a", "ModelNotAFile", "ModelNotAFile"},
                        {"fifo", "ModelNotAFile", "ModelNotAFile"}};
  for (const Case& c : cases) {
    const Result<UniqueFd> opened = openBeneath(root_.get(), c.path);
    EXPECT_EQ(opened.ok() ? "" : opened.error().reason, c.reason) << c.path;
    const Result<UniqueFd> walked = openByWalking(root_.get(), c.path);
    EXPECT_EQ(walked.ok() ? "" : walked.error().reason, c.walked) << c.path;
  }
}

TEST_F(Files, ARootThatIsNotThereIsNamed) { EXPECT_EQ(openModel(base_ / "nowhere", "m").error().reason, "ModelRootNotFound"); }

TEST_F(Files, AMissingModelIsNamedWithTheFolderItWasLookedForIn) {
  const Error error = openModel(root(), "a/missing.onnx").error();
  EXPECT_NE(error.message.find("a/missing.onnx"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(root()), std::string::npos) << error.message;
}

TEST_F(Files, ChecksumAndSize) {
  const Result<ModelFile> file = inspectModel({root(), "a/model.onnx"});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(file->size, Bytes(3));
  EXPECT_EQ(file->externalSize, Bytes(0));
  EXPECT_EQ(file->path, (base_ / "root/a/model.onnx").string());
}

TEST_F(Files, ExternalDataCountsIfTheModelNamesIt) {
  write("root/a/b/weights.bin", std::string(1000, 'w'));
  write("root/a/photo.png", std::string(500, 'p'));
  write("root/a/model.onnx", "location b/weights.bin");
  const Result<ModelFile> before = inspectModel({root(), "a/model.onnx"});
  EXPECT_EQ(before->externalSize, Bytes(1000));
  write("root/a/photo.png", "other");
  EXPECT_EQ(inspectModel({root(), "a/model.onnx"})->externalMark, before->externalMark) << "no part of the model";
  write("root/a/b/weights.bin", std::string(999, 'w'));
  EXPECT_NE(inspectModel({root(), "a/model.onnx"})->externalMark, before->externalMark) << "other weights are another model";
}

// A piece at a time comes to the same as at once, whatever the sizes.
RC_GTEST_FIXTURE_PROP(Files, PiecesMakeTheWhole, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(0, 5000);
  const auto piece = *rc::gen::inRange<std::int64_t>(1, 6000);
  write("root/a/model.onnx", std::string(size, 'x') + "end");
  KnownSums known;
  ModelReading reading({root(), "a/model.onnx"}, known);
  int steps = 0;
  std::optional<Result<ModelFile>> answer;
  while (!(answer = reading.step(Bytes(piece), [] { return false; }))) ++steps;
  RC_ASSERT(answer->ok());
  RC_ASSERT(answer->value().sha256 == inspectModel({root(), "a/model.onnx"})->sha256);
  RC_ASSERT(steps == static_cast<int>((static_cast<std::int64_t>(size) + 3 - 1) / piece));
  ModelReading again({root(), "a/model.onnx"}, known);
  RC_ASSERT(again.step(Bytes(1), [] { return false; }).has_value());
}

TEST_F(Files, AFileThatChangesWhileItIsReadHasNoChecksum) {
  struct Case {
    const char* story;
    std::function<void()> change;
  };
  const auto path = base_ / "root/a/model.onnx";
  const Case cases[] = {{"written on", [&] { std::ofstream(path, std::ios::binary | std::ios::app) << "more"; }},
                        {"cut", [&] { fs::resize_file(path, 150); }},
                        {"replaced", [&] { write("root/a/next", std::string(300, 'y')), fs::rename(base_ / "root/a/next", path); }}};
  for (const Case& c : cases) {
    write("root/a/model.onnx", std::string(300, 'x'));
    KnownSums known;
    ModelReading reading({root(), "a/model.onnx"}, known);
    ASSERT_FALSE(reading.step(Bytes(100), [] { return false; })) << c.story;
    EXPECT_EQ(reading.left(), Bytes(200)) << c.story;
    c.change();
    const auto answer = reading.step(Bytes(1000), [] { return false; });
    ASSERT_TRUE(answer.has_value()) << c.story;
    EXPECT_EQ(answer->ok() ? "" : answer->error().reason, "ModelChanging") << c.story;
  }
}

TEST_F(Files, ALargerFileThanAllowedIsMeasuredAndNotReadUnlessItIsKnown) {
  KnownSums known;
  const auto ask = [&](Bytes largest) {
    ModelReading reading({root(), "a/model.onnx", largest}, known);
    return *reading.step(Bytes(1000), [] { return false; });
  };
  EXPECT_EQ(ask(Bytes(2))->sha256, "");
  EXPECT_EQ(ask(Bytes(2))->size, Bytes(3));
  EXPECT_NE(ask(Bytes(3))->sha256, "");
  EXPECT_NE(ask(Bytes(2))->sha256, "") << "no reading is needed";
}

class ThreadedFiles : public Files {
 protected:
  using Answer = std::optional<Result<ModelFile>>;
  // A file of the size that takes minutes to read, and no space.
  void writeHuge(const std::string& path) {
    write(path, "");
    fs::resize_file(base_ / path, std::uintmax_t{200} << 30);
  }
  [[nodiscard]] std::unique_ptr<ModelInspection> ask(ModelFiles& files, const std::string& root, const std::string& path, Answer& answer) {
    return files.inspect({base_ / root, path}, [&answer](Result<ModelFile> given) { answer = std::move(given); });
  }
  void await(const Answer& answer) {
    while (!answer) {
      loop_.runUntilIdle();
      std::this_thread::yield();
    }
  }
  testing::ManualLoop loop_;
};

TEST_F(ThreadedFiles, AnswersComeOnTheLoopAndAgainFromMemory) {
  ThreadedModelFiles files(loop_);
  const auto answerTo = [&](const std::string& path) {
    Answer answer;
    const auto asked = ask(files, "root", path, answer);
    await(answer);
    return *answer;
  };
  EXPECT_EQ(answerTo("a/model.onnx")->size, Bytes(3));
  EXPECT_EQ(answerTo("a/missing").error().reason, "ModelNotFound");
  write("root/a/model.onnx", "changed");
  EXPECT_EQ(answerTo("a/model.onnx")->size, Bytes(7)) << "a changed file is read again";
}

TEST_F(ThreadedFiles, AHugeFileHoldsUpNobodyNotEvenItsOwnTenant) {
  writeHuge("root/huge.onnx");
  ThreadedModelFiles files(loop_);
  Answer huge, own, others;
  const auto first = ask(files, "root", "huge.onnx", huge);
  const auto second = ask(files, "root", "a/model.onnx", own);
  const auto third = ask(files, "other", "secret.onnx", others);
  await(own);
  await(others);
  EXPECT_EQ(own->value().size, Bytes(3));
  EXPECT_EQ(others->value().size, Bytes(6));
  EXPECT_FALSE(huge.has_value());
}

TEST_F(ThreadedFiles, AQuestionThatIsGivenUpIsNotReadOnAndNotAnswered) {
  writeHuge("root/huge.onnx");
  // One turn would be the whole file: that the other is answered at all shows that the read stopped.
  ThreadedModelFiles files(loop_, {Bytes(std::int64_t{1} << 40), 10});
  Answer huge, other;
  auto first = ask(files, "root", "huge.onnx", huge);
  const auto second = ask(files, "other", "secret.onnx", other);
  first.reset();
  await(other);
  loop_.runUntilIdle();
  EXPECT_FALSE(huge.has_value());
}

TEST_F(ThreadedFiles, TheQuestionsOfOneRootAreBoundedAndThoseGivenUpDoNotCount) {
  writeHuge("root/huge.onnx");
  ThreadedModelFiles files(loop_, {Bytes(std::int64_t{1} << 40), 3});
  Answer ignored, refused, other;
  std::vector<std::unique_ptr<ModelInspection>> asked;
  for (int i = 0; i < 4; ++i) asked.push_back(ask(files, "root", "huge.onnx", ignored));  // one may be under way already
  const auto fifth = ask(files, "root", "a/model.onnx", refused);
  await(refused);
  EXPECT_EQ(refused->ok() ? "" : refused->error().reason, "TooManyInspections");
  asked.clear();
  refused.reset();
  const auto sixth = ask(files, "root", "a/model.onnx", refused);
  await(refused);
  EXPECT_TRUE(refused->ok());
}

TEST_F(ThreadedFiles, DestructionWaitsForNoFileAndNothingIsAnsweredAfterIt) {
  writeHuge("root/huge.onnx");
  Answer answer;
  std::vector<std::unique_ptr<ModelInspection>> asked;
  {
    ThreadedModelFiles files(loop_, {Bytes(std::int64_t{1} << 40), 100});
    for (int i = 0; i < 50; ++i) asked.push_back(ask(files, "root", i % 2 == 0 ? "a/model.onnx" : "huge.onnx", answer));
  }
  loop_.runUntilIdle();
  EXPECT_FALSE(answer.has_value());
}

TEST_F(ThreadedFiles, TheInspectionMayBeLetGoOfFromWithinItsAnswer) {
  ThreadedModelFiles files(loop_);
  std::unique_ptr<ModelInspection> asked;
  Answer answer;
  asked = files.inspect({root(), "a/model.onnx"}, [&](Result<ModelFile> given) {
    asked.reset();
    answer = std::move(given);
  });
  await(answer);
  EXPECT_TRUE(answer->ok());
}

}  // namespace
}  // namespace coterie::files
