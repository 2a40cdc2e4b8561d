#include "onnx/session.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "onnx/default_library.h"
#include "onnx/model_scan.h"
#include "testing/onnx_writer.h"

namespace coterie::onnx {
namespace {

class SessionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto opened = Library::open(defaultLibrary());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    library_ = std::move(opened).value().release();
  }
  static std::span<const std::byte> view(const std::string& bytes) { return std::as_bytes(std::span(bytes.data(), bytes.size())); }
  static Result<std::unique_ptr<Session>> load(const std::string& name, const LoadOptions& options = {}) {
    const auto model = testing::makeModel(name);
    return Session::load(*library_, view(*model), options);
  }
  static Library* library_;
  alignas(64) std::byte memory_[65536]{};
};
Library* SessionTest::library_ = nullptr;

std::string lower(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

TEST_F(SessionTest, IdentityReturnsTheBytesOfEveryElementType) {
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    SCOPED_TRACE(elementTypeName(type));
    auto session = load("identity_" + lower(elementTypeName(type)));
    ASSERT_TRUE(session.ok()) << session.error().message;
    ASSERT_EQ((*session)->signature().inputs.size(), 1U);
    EXPECT_EQ((*session)->signature().inputs[0].type, type);
    EXPECT_EQ((*session)->signature().inputs[0].shape, (Shape{kDynamic, kDynamic}));
    alignas(64) std::byte in[256]{};
    std::size_t length = 6 * elementSize(type);
    for (std::size_t i = 0; i < length; ++i) in[i] = static_cast<std::byte>(type == ElementType::Bool ? i & 1 : i * 37);
    if (type == ElementType::ByteString) {
      const std::string strings("\3\0\0\0a\0\xff\0\0\0\0\1\0\0\0z\0\0\0\0\0\0\0\0\2\0\0\0\xc3\xa9", 30);
      std::memcpy(in, strings.data(), strings.size());
      length = strings.size();
    }
    Runner runner(**session);
    const Shape dims{2, 3};
    const Input input{0, dims, std::span(in).first(length)};
    std::vector<Output> answers;
    const int wanted[] = {0};
    for (int again = 0; again < 2; ++again) {
      const Status status = runner.run(std::span(&input, 1), wanted, memory_, answers);
      ASSERT_TRUE(status.ok()) << status.error().message;
      ASSERT_EQ(answers.size(), 1U);
      EXPECT_EQ(answers[0].dims, (std::vector<std::int64_t>{2, 3}));
      ASSERT_EQ(answers[0].length, length);
      EXPECT_EQ(std::memcmp(memory_ + answers[0].offset, in, length), 0);
    }
  }
}

TEST_F(SessionTest, EmptyTensorsPassThrough) {
  auto session = load("identity_fp32");
  ASSERT_TRUE(session.ok());
  Runner runner(**session);
  const Shape dims{0, 3};
  alignas(64) std::byte in[1]{};
  const Input input{0, dims, std::span(in).first(0)};
  std::vector<Output> answers;
  const int wanted[] = {0};
  const Status status = runner.run(std::span(&input, 1), wanted, memory_, answers);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(answers[0].dims, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(answers[0].length, 0U);
}

TEST_F(SessionTest, SeveralInputsAndOutputsInTheOrderAsked) {
  auto session = load("sum_difference");
  ASSERT_TRUE(session.ok()) << session.error().message;
  alignas(64) float a[2] = {5, 7};
  alignas(64) float b[2] = {2, 3};
  const Shape dims{1, 2};
  const Input inputs[] = {{1, dims, std::as_bytes(std::span(b))}, {0, dims, std::as_bytes(std::span(a))}};
  const int wanted[] = {1, 0};
  std::vector<Output> answers;
  Runner runner(**session);
  const Status status = runner.run(inputs, wanted, memory_, answers);
  ASSERT_TRUE(status.ok()) << status.error().message;
  float difference[2];
  float sum[2];
  std::memcpy(difference, memory_ + answers[0].offset, 8);
  std::memcpy(sum, memory_ + answers[1].offset, 8);
  EXPECT_EQ(difference[0], 3);
  EXPECT_EQ(sum[1], 10);
  EXPECT_EQ(answers[1].offset % 64, 0U);
}

TEST_F(SessionTest, RefusesWhatDoesNotFitTheSignature) {
  auto session = load("mlp");
  ASSERT_TRUE(session.ok());
  Runner runner(**session);
  alignas(64) static std::byte in[784 * 4]{};
  const int wanted[] = {0};
  struct Case {
    Shape dims;
    std::size_t length;
    const char* says;
  };
  for (const Case& c : std::vector<Case>{{{1, 783}, 783 * 4, "[1,783] does not fit [-1,784]"},
                                         {{784}, 784 * 4, "does not fit"},
                                         {{1, 784}, 4, "does not match its 4 bytes"},
                                         {{-1, 784}, 784 * 4, "negative"},
                                         {{1LL << 62, 784}, 784 * 4, "too many"},
                                         {{2, 784}, 784 * 4, "does not match"}}) {
    const Input input{0, c.dims, std::span(in).first(c.length)};
    std::vector<Output> answers;
    const Status status = runner.run(std::span(&input, 1), wanted, memory_, answers);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::InvalidArgument);
    EXPECT_NE(status.error().message.find(c.says), std::string::npos) << status.error().message;
  }
}

TEST_F(SessionTest, AnAnswerLargerThanItsMemoryIsRefused) {
  for (const char* name : {"identity_fp32", "identity_bytes"}) {
    auto session = load(name);
    Runner runner(**session);
    alignas(64) static std::byte in[512]{};
    const Shape dims{1, 128};
    const Input input{0, dims, in};
    std::vector<Output> answers;
    const int wanted[] = {0};
    const Status status = runner.run(std::span(&input, 1), wanted, std::span(memory_).first(256), answers);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().reason, "AnswerTooLarge");
  }
}

TEST_F(SessionTest, TerminateStopsTheRun) {
  auto session = load("slow_50ms");
  ASSERT_TRUE(session.ok()) << session.error().message;
  Runner runner(**session);
  alignas(64) static std::byte in[256]{};
  const Shape dims{1, 64};
  const Input input{0, dims, in};
  std::vector<Output> answers;
  const int wanted[] = {0};
  runner.terminate();
  const Status status = runner.run(std::span(&input, 1), wanted, memory_, answers);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().reason, "Terminated");
  runner.resetTerminate();
  EXPECT_TRUE(runner.run(std::span(&input, 1), wanted, memory_, answers).ok());
}

TEST_F(SessionTest, ModelFaultsAreNamed) {
  const std::string good = *testing::makeModel("mlp");
  struct Case {
    std::string name, bytes, reason;
  };
  for (const Case& c : std::vector<Case>{{"empty", "", "Empty"},
                                         {"text", "this is a text file, not a model", "NotOnnx"},
                                         {"zip", "PK\3\4abcdefgh", "NotOnnx"},
                                         {"truncated", good.substr(0, good.size() / 2), "Truncated"},
                                         {"cut short", good.substr(0, 3), "Truncated"}}) {
    const auto scan = scanModel(view(c.bytes));
    ASSERT_FALSE(scan.ok()) << c.name;
    EXPECT_EQ(scan.error().reason, c.reason) << c.name;
  }
  auto unknown = load("unknown_operator");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().reason, "UnknownOperator") << unknown.error().message;
  EXPECT_NE(unknown.error().message.find("Frobnicate"), std::string::npos) << unknown.error().message;
}

TEST_F(SessionTest, ExternalDataComesFromMemory) {
  const std::string model = *testing::makeModel("external_inside");
  const auto scan = scanModel(view(model));
  ASSERT_TRUE(scan.ok());
  ASSERT_EQ(scan->externalFiles, std::vector<std::string>{"weights.bin"});
  alignas(64) float weights[16];
  for (int i = 0; i < 16; ++i) weights[i] = static_cast<float>(i);
  LoadOptions options;
  options.externalFiles.push_back({"weights.bin", std::as_writable_bytes(std::span(weights))});
  auto session = Session::load(*library_, view(model), options);
  ASSERT_TRUE(session.ok()) << session.error().message;
  Runner runner(**session);
  alignas(64) float in[16] = {};
  const Shape dims{1, 16};
  const Input input{0, dims, std::as_bytes(std::span(in))};
  std::vector<Output> answers;
  const int wanted[] = {0};
  ASSERT_TRUE(runner.run(std::span(&input, 1), wanted, memory_, answers).ok());
  float out[16];
  std::memcpy(out, memory_, sizeof out);
  EXPECT_EQ(out[7], 7);
}

}  // namespace
}  // namespace coterie::onnx
