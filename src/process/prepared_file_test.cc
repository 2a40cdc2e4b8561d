#include "process/prepared_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace coterie::process {
namespace {

UniqueFd written(const std::string& text) {
  UniqueFd fd = PreparedFile::create().value();
  EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return fd;
}

TEST(PreparedFile, NobodyChangesItOnceItIsSealed) {
  UniqueFd fd = written("weights");
  const UniqueFd kept(::dup(fd.get()));  // as the worker that wrote it has
  const auto sealed = PreparedFile::seal(std::move(fd));
  ASSERT_NE(sealed, nullptr);
  EXPECT_EQ(sealed->size(), Bytes(7));
  EXPECT_EQ(::write(kept.get(), "x", 1), -1);
  EXPECT_EQ(::ftruncate(kept.get(), 0), -1);
  EXPECT_EQ(::ftruncate(kept.get(), 4096), -1);
  EXPECT_EQ(::fcntl(kept.get(), F_ADD_SEALS, 0), -1);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, kept.get(), 0), MAP_FAILED);
  const UniqueFd again(::open(("/proc/self/fd/" + std::to_string(kept.get())).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  EXPECT_FALSE(again.valid());
  char text[7];
  EXPECT_EQ(::pread(sealed->fd(), text, sizeof text, 0), 7);
  EXPECT_EQ(std::string(text, sizeof text), "weights");
}

TEST(PreparedFile, AWritableMappingThatSomebodyKeepsPreventsIt) {
  UniqueFd fd = written("weights");
  void* mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(PreparedFile::seal(std::move(fd)), nullptr);
  ::munmap(mapped, 4096);
}

TEST(PreparedFile, AnEmptyOneIsNone) {
  EXPECT_EQ(PreparedFile::seal(PreparedFile::create().value()), nullptr);
  EXPECT_EQ(PreparedFile::seal(UniqueFd()), nullptr);
}

}  // namespace
}  // namespace coterie::process
