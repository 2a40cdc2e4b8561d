// Where the library is looked for, by the variables that are set.
#include "onnx/default_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace coterie::onnx {
namespace {

// The environment as it was comes back with the end of the test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name); before != nullptr) before_ = before, was_ = true;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { was_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool was_{false};
};

TEST(DefaultLibrary, FollowsTheCacheFolder) {
  struct Row {
    const char *own, *xdg, *home, *expected;
  };
  const Row rows[] = {
      {"/c", "/x", "/h", "/c/ort/lib/libonnxruntime.so"},
      {nullptr, "/x", "/h", "/x/coterie/ort/lib/libonnxruntime.so"},
      {nullptr, nullptr, "/h", "/h/.cache/coterie/ort/lib/libonnxruntime.so"},
      {"", "", "/h", "/h/.cache/coterie/ort/lib/libonnxruntime.so"},
      {nullptr, nullptr, nullptr, "/root/.cache/coterie/ort/lib/libonnxruntime.so"},
  };
  for (const Row& row : rows) {
    const Variable own("COTERIE_CACHE", row.own);
    const Variable xdg("XDG_CACHE_HOME", row.xdg);
    const Variable home("HOME", row.home);
    EXPECT_EQ(defaultLibrary(), row.expected);
  }
}

}  // namespace
}  // namespace coterie::onnx
