// Which inputs were in flight when instances crashed: an input seen at two crashes is refused, for ten minutes first and twice as long with each
// further crash; after that it is tried again.
//
// Why it ends: a crash may have had another cause (a full machine, somebody's kill -9), and nobody should have to make a service anew for that. A
// single crash is forgotten after ten minutes; two and more after the refusal and once its length without another crash. A crash whose cause turns
// out to be outside (notItsFault) is taken back, whichever of the two is heard of first. An input that ran several times in an instance that crashed
// was seen at one crash. Of requests that ran as one each was in flight: each is suspect, runs alone from then on, and only the guilty one crashes
// again. Inputs are told apart by a 64-bit digest of their shapes and bytes; the digest is only computed while there is something to
// compare with, so a service that never crashed pays nothing. Remembers the latest 64 inputs. A collision costs one request of the same service a
// wrong refusal. O(bytes) per digest, O(64) per call. Time is an argument. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "model/ids.h"
#include "ports/model_backend.h"

namespace coterie::gateway {

class CrashMemory {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr Nanos kFirstRefusal = std::chrono::minutes(10);
  static constexpr Nanos kLongestRefusal = std::chrono::hours(24);

  struct Refusal {
    int crashes{0};
    Nanos left{};  // > 0
  };

  // Forgets what is over first.
  [[nodiscard]] bool empty(Instant now);
  // This input was running when that instance crashed.
  void crashed(std::uint64_t digest, InstanceId instance, Instant now);
  [[nodiscard]] std::optional<Refusal> refusal(std::uint64_t digest, Instant now) const;
  // It was running at a crash, alone or not: it runs alone from then on, so that no neighbour pays for it, nor it for a neighbour.
  [[nodiscard]] bool suspects(std::uint64_t digest) const;
  // That instance's end was no fault of what it ran.
  void notItsFault(InstanceId instance);

  [[nodiscard]] static std::uint64_t digestOf(const std::vector<InputTensor>& inputs, std::span<const std::byte> cell);

 private:
  struct Entry {
    std::uint64_t digest{0};
    int crashes{0};
    InstanceId instance;  // of the latest crash
    Instant at{};         // the latest crash
    [[nodiscard]] Nanos refusedFor() const;
    [[nodiscard]] Instant forgotten() const;
  };
  std::vector<Entry> entries_;        // oldest first
  std::vector<InstanceId> innocent_;  // the latest whose end came from outside
};

}  // namespace coterie::gateway
