#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>

#include "files/beneath.h"
#include "files/inspect.h"
#include "files/threaded_model_files.h"
#include "testing/manual_loop.h"

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
                        {"loop", "ModelOutsideRoot", "ModelOutsideRoot"},
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

TEST_F(Files, ChecksumAndSize) {
  const Result<ModelFile> file = inspectModel(*openModel(root(), "a/model.onnx"));
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
  EXPECT_EQ(inspectModel(*openModel(root(), "a/model.onnx"))->externalSize, Bytes(1000));
}

TEST_F(Files, AnswersComeOnTheLoopAndAgainFromMemory) {
  testing::ManualLoop loop;
  ThreadedModelFiles files(loop);
  const auto ask = [&](const std::string& path) {
    std::optional<Result<ModelFile>> answer;
    files.inspect(root(), path, [&](Result<ModelFile> a) { answer = std::move(a); });
    while (!answer) loop.runUntilIdle();
    return *answer;
  };
  EXPECT_EQ(ask("a/model.onnx")->size, Bytes(3));
  EXPECT_EQ(ask("a/missing").error().reason, "ModelNotFound");
  write("root/a/model.onnx", "changed");
  EXPECT_EQ(ask("a/model.onnx")->size, Bytes(7)) << "a changed file is read again";
}

TEST_F(Files, NoAnswerAfterDestruction) {
  testing::ManualLoop loop;
  bool called = false;
  {
    ThreadedModelFiles files(loop);
    for (int i = 0; i < 50; ++i) files.inspect(root(), "a/model.onnx", [&](const Result<ModelFile>&) { called = true; });
  }
  loop.runUntilIdle();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace coterie::files
