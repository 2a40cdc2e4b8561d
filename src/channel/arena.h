// Shared memory that tensors cross through, made so that neither side can hurt the other.
//
// RequestArena: one memfd per service, written by the gateway, mapped read-only by the service's workers. Sealed SHRINK|GROW|FUTURE_WRITE|SEAL once
// the gateway has mapped it, so no one, whatever his uid, can shrink it (SIGBUS) or get a writable mapping; its mode is 0400 against reopening. Space
// is handed out by a buddy allocator over the whole arena, lowest address first: memory is touched up to the high-water mark of what was in flight
// and returned with the arena (a FUTURE_WRITE seal also forbids the kernel's hole punching, so single pages cannot be given back). ResponseArena: one
// memfd per instance, written by the worker, mapped read-only by the gateway. Sealed SHRINK|GROW|SEAL. Divided into equal cells, two per lane; pages
// beyond kKeptCellBytes of a cell are given back when its answer has been read. Sizes in bytes. Errors: ResourceExhausted/ArenaFull,
// TooLarge/RequestTooLarge, Unavailable/NoMemory. Thread rule: the gateway's loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "channel/buddy.h"
#include "ports/model_backend.h"

namespace coterie::channel {

inline constexpr std::uint64_t kTensorAlignment = 64;

// A mapping that is undone when destroyed.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* data, std::size_t size) : data_(static_cast<std::byte*>(data)), size_(size) {}
  Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_{nullptr};
  std::size_t size_{0};
};

enum class Access : std::uint8_t { Read, ReadWrite };
// Maps a whole shared-memory file; the worker's side uses it too.
[[nodiscard]] Result<Mapping> mapShared(int fd, std::uint64_t size, Access access);

struct ArenaOptions {
  Bytes size{256LL << 20};  // rounded up to a power of two; sparse: untouched pages cost nothing
  Bytes largestCell{64LL << 20};
};

class RequestArena {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RequestArena>> create(const ArenaOptions& options);
  RequestArena(const RequestArena&) = delete;
  RequestArena& operator=(const RequestArena&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }  // to share with workers (duplicate it)
  [[nodiscard]] std::uint64_t size() const { return mapping_.bytes().size(); }
  // A cell keeps its arena alive, not the other way round.
  [[nodiscard]] static Result<std::shared_ptr<InputCell>> allocate(const std::shared_ptr<RequestArena>& arena, std::size_t bytes);
  [[nodiscard]] std::uint64_t used() const { return allocator_.used(); }

  class Cell final : public InputCell {
   public:
    Cell(std::shared_ptr<RequestArena> arena, std::uint64_t offset, std::size_t size) : arena_(std::move(arena)), offset_(offset), size_(size) {}
    Cell(const Cell&) = delete;
    Cell& operator=(const Cell&) = delete;
    ~Cell() override { arena_->allocator_.release(offset_); }
    [[nodiscard]] std::span<std::byte> bytes() override { return arena_->mapping_.bytes().subspan(offset_, size_); }
    [[nodiscard]] std::uint64_t offset() const { return offset_; }

   private:
    std::shared_ptr<RequestArena> arena_;
    std::uint64_t offset_;
    std::size_t size_;
  };

 private:
  RequestArena(UniqueFd fd, Mapping mapping, std::uint64_t largestCell);
  UniqueFd fd_;
  Mapping mapping_;
  BuddyAllocator allocator_;
  std::uint64_t largestCell_;
};

inline constexpr int kCellsPerLane = 2;
inline constexpr std::uint64_t kKeptCellBytes = 1 << 20;

class ResponseArena {
 public:
  [[nodiscard]] static Result<ResponseArena> create(int lanes, Bytes cellBytes);
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint64_t size() const { return mapping_.bytes().size(); }
  [[nodiscard]] std::uint64_t cellBytes() const { return cellBytes_; }
  [[nodiscard]] std::uint64_t cellOffset(int lane, int cell) const { return static_cast<std::uint64_t>(lane * kCellsPerLane + cell) * cellBytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return mapping_.bytes(); }
  // The cell's answer, `used` bytes of it, has been read.
  void giveBack(int lane, int cell, std::uint64_t used);

 private:
  ResponseArena(UniqueFd fd, Mapping mapping, std::uint64_t cellBytes) : fd_(std::move(fd)), mapping_(std::move(mapping)), cellBytes_(cellBytes) {}
  UniqueFd fd_;
  Mapping mapping_;
  std::uint64_t cellBytes_;
};

}  // namespace coterie::channel
