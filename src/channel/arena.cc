#include "channel/arena.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace coterie::channel {

namespace {

constexpr std::uint64_t kSmallestCell = 4096;
constexpr int kFutureWrite = 0x0010;  // F_SEAL_FUTURE_WRITE, Linux 5.1

Error noMemory(const char* what) { return {Code::Unavailable, "NoMemory", std::string("shared memory: ") + what + ": " + std::strerror(errno)}; }

Result<UniqueFd> sharedFile(const char* name, std::uint64_t size) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return noMemory("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return noMemory("ftruncate");
  return fd;
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<Mapping> mapShared(int fd, std::uint64_t size, Access access) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return noMemory("fstat");
  if (static_cast<std::uint64_t>(status.st_size) != size)
    return Error{Code::InvalidArgument, "BadArena", "a shared-memory file has not the size that was announced"};
  const int protection = access == Access::Read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = ::mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) return noMemory("mmap");
  return Mapping(data, size);
}

RequestArena::RequestArena(UniqueFd fd, Mapping mapping, std::uint64_t largestCell)
    : fd_(std::move(fd)), mapping_(std::move(mapping)), allocator_(mapping_.bytes().size(), kSmallestCell), largestCell_(largestCell) {}

Result<std::unique_ptr<RequestArena>> RequestArena::create(const ArenaOptions& options) {
  const std::uint64_t size = std::bit_ceil(std::max(static_cast<std::uint64_t>(options.size.value), kSmallestCell));
  auto fd = sharedFile("coterie-requests", size);
  if (!fd.ok()) return fd.error();
  auto mapping = mapShared(fd->get(), size, Access::ReadWrite);
  if (!mapping.ok()) return mapping.error();
  if (::fchmod(fd->get(), 0400) != 0) return noMemory("fchmod");
  if (::fcntl(fd->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | kFutureWrite | F_SEAL_SEAL) != 0) return noMemory("sealing");
  const auto largest = std::min(size, static_cast<std::uint64_t>(options.largestCell.value));
  return std::unique_ptr<RequestArena>(new RequestArena(std::move(fd).value(), std::move(mapping).value(), largest));
}

Result<std::shared_ptr<InputCell>> RequestArena::allocate(const std::shared_ptr<RequestArena>& arena, std::size_t bytes) {
  if (bytes > arena->largestCell_) {
    return Error{Code::TooLarge, "RequestTooLarge",
                 "a request of " + std::to_string(bytes) + " bytes is larger than the limit of " + std::to_string(arena->largestCell_)};
  }
  const auto offset = arena->allocator_.allocate(bytes);
  if (!offset) return Error{Code::ResourceExhausted, "ArenaFull", "the service's memory for waiting requests is full"};
  return std::shared_ptr<InputCell>(std::make_shared<Cell>(arena, *offset, bytes));
}

Result<ResponseArena> ResponseArena::create(int lanes, Bytes cellBytes) {
  // Whole pages, so that a cell's pages can be given back alone.
  const std::uint64_t cell = (static_cast<std::uint64_t>(cellBytes.value) + kSmallestCell - 1) / kSmallestCell * kSmallestCell;
  const std::uint64_t size = cell * static_cast<std::uint64_t>(lanes) * kCellsPerLane;
  auto fd = sharedFile("coterie-answers", size);
  if (!fd.ok()) return fd.error();
  auto mapping = mapShared(fd->get(), size, Access::Read);
  if (!mapping.ok()) return mapping.error();
  if (::fchmod(fd->get(), 0600) != 0) return noMemory("fchmod");
  if (::fcntl(fd->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return noMemory("sealing");
  return ResponseArena(std::move(fd).value(), std::move(mapping).value(), cell);
}

void ResponseArena::giveBack(int lane, int cell, std::uint64_t used) {
  if (used <= kKeptCellBytes) return;
  // Failure costs memory, nothing else.
  (void)::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(cellOffset(lane, cell) + kKeptCellBytes),
                    static_cast<off_t>(std::min(used, cellBytes_) - kKeptCellBytes));
}

}  // namespace coterie::channel
