// Which inputs were in flight when instances crashed: an input seen at two crashes is never run again.
//
// Inputs are told apart by a 64-bit digest of their shapes and bytes; the digest is only computed while there is something to compare with, so a
// service that never crashed pays nothing. Remembers the latest 64 inputs. A collision costs one request of the same service a wrong refusal.
// O(bytes) per digest. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ports/model_backend.h"

namespace coterie::gateway {

class CrashMemory {
 public:
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  // How many crashes this input has now been part of.
  int crashed(std::uint64_t digest);
  [[nodiscard]] bool poisoned(std::uint64_t digest) const;

  [[nodiscard]] static std::uint64_t digestOf(const std::vector<InputTensor>& inputs, std::span<const std::byte> cell);

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr int kPoison = 2;
  struct Entry {
    std::uint64_t digest{0};
    int crashes{0};
  };
  std::vector<Entry> entries_;  // oldest first
};

}  // namespace coterie::gateway
