// The contract of ModelFiles as tests: each adapter instantiates them with a way to put files below a root and to let it work.
//
//   INSTANTIATE_TEST_SUITE_P(Threaded, ModelFilesContract, ::testing::Values(FilesUnderTest{"threaded", makeThreaded}), filesName);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ports/model_files.h"
#include "testing/manual_loop.h"

namespace coterie::contract {

struct ModelFilesHarness {
  std::unique_ptr<ModelFiles> files;
  std::string root;
  std::function<void(const std::string& path, const std::string& content)> put;  // below the root
  std::shared_ptr<void> keep;
};
struct FilesUnderTest {
  std::string name;
  std::function<ModelFilesHarness(testing::ManualLoop&)> make;
  friend void PrintTo(const FilesUnderTest& files, std::ostream* out) { *out << files.name; }
};
inline std::string filesName(const ::testing::TestParamInfo<FilesUnderTest>& info) { return info.param.name; }

class ModelFilesContract : public ::testing::TestWithParam<FilesUnderTest> {
 protected:
  struct Asked {
    std::optional<Result<ModelFile>> answer;
    int answers{0};
    std::unique_ptr<ModelInspection> inspection;
  };
  std::unique_ptr<Asked> ask(const std::string& path, Bytes largest = Bytes(INT64_MAX)) {
    auto asked = std::make_unique<Asked>();
    asked->inspection = harness_.files->inspect({harness_.root, path, largest}, [raw = asked.get()](Result<ModelFile> given) {
      raw->answer = std::move(given);
      ++raw->answers;
    });
    EXPECT_EQ(asked->answers, 0) << "never from inside inspect()";
    return asked;
  }
  void await(const Asked& asked) {
    while (!asked.answer) turn();
  }
  // Answers may come from another thread by the loop's post().
  void turn() {
    loop_.runUntilIdle();
    std::this_thread::yield();
  }
  Result<ModelFile> inspect(const std::string& path, Bytes largest = Bytes(INT64_MAX)) {
    const auto asked = ask(path, largest);
    await(*asked);
    loop_.runUntilIdle();
    EXPECT_EQ(asked->answers, 1);
    return *asked->answer;
  }

  testing::ManualLoop loop_;
  ModelFilesHarness harness_{GetParam().make(loop_)};
};

TEST_P(ModelFilesContract, SizeAndChecksumOfWhatIsThere) {
  harness_.put("a.onnx", "abc");
  harness_.put("b.onnx", "abcd");
  const Result<ModelFile> a = inspect("a.onnx");
  const Result<ModelFile> b = inspect("b.onnx");
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->size, Bytes(3));
  EXPECT_EQ(b->size, Bytes(4));
  EXPECT_FALSE(a->sha256.empty());
  EXPECT_NE(a->sha256, b->sha256);
  EXPECT_EQ(a->path.substr(a->path.size() - 6), "a.onnx");
  EXPECT_EQ(a->path.front(), '/');
  EXPECT_EQ(inspect("a.onnx")->sha256, a->sha256);
}

TEST_P(ModelFilesContract, WhatIsNotThereIsNamed) {
  const Result<ModelFile> missing = inspect("nowhere.onnx");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::NotFound);
  EXPECT_EQ(missing.error().reason, "ModelNotFound");
  EXPECT_NE(missing.error().message.find("nowhere.onnx"), std::string::npos) << missing.error().message;
}

TEST_P(ModelFilesContract, AChangedFileIsAnotherModel) {
  harness_.put("a.onnx", "abc");
  const Result<ModelFile> before = inspect("a.onnx");
  harness_.put("a.onnx", "abcdef");
  const Result<ModelFile> after = inspect("a.onnx");
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_NE(before->sha256, after->sha256);
  EXPECT_EQ(after->size, Bytes(6));
}

TEST_P(ModelFilesContract, WhatIsTooLargeIsMeasuredAndNotRead) {
  harness_.put("a.onnx", "abcdef");
  const Result<ModelFile> large = inspect("a.onnx", Bytes(5));
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(large->size, Bytes(6));
  EXPECT_TRUE(large->sha256.empty());
  EXPECT_FALSE(inspect("a.onnx", Bytes(6))->sha256.empty());
  EXPECT_FALSE(inspect("a.onnx", Bytes(5))->sha256.empty()) << "it is known now";
}

TEST_P(ModelFilesContract, AQuestionThatIsGivenUpGetsNoAnswer) {
  harness_.put("a.onnx", "abc");
  const auto given = ask("a.onnx");
  given->inspection.reset();
  const auto other = ask("a.onnx");
  await(*other);
  loop_.runUntilIdle();
  EXPECT_EQ(given->answers, 0);
}

TEST_P(ModelFilesContract, AQuestionMayBeGivenUpFromWithinItsAnswer) {
  harness_.put("a.onnx", "abc");
  std::unique_ptr<ModelInspection> inspection;
  bool answered = false;
  inspection = harness_.files->inspect({harness_.root, "a.onnx"}, [&](const Result<ModelFile>&) {
    inspection.reset();
    answered = true;
  });
  while (!answered) turn();
}

TEST_P(ModelFilesContract, ManyQuestionsAtOnceAreEachAnswered) {
  harness_.put("a.onnx", "abc");
  std::vector<std::unique_ptr<Asked>> asked;
  for (int i = 0; i < 50; ++i) asked.push_back(ask(i % 3 == 0 ? "nowhere.onnx" : "a.onnx"));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    await(*asked[i]);
    EXPECT_EQ(asked[i]->answer->ok(), i % 3 != 0) << i;
  }
}

}  // namespace coterie::contract
