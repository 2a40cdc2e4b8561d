// The inputs of several requests joined along the first dimension, for one run.
//
// Every number comes from outside and is checked: places in the arena, lengths against shapes of each request by itself (two wrong ones may have the
// right sum), and that all agree in which inputs and in all dimensions but the first. Inputs are copied into memory of the lane's own, 64-byte
// aligned; it grows to the largest batch, and beyond kKept it is given back after the run (release()). One request alone is not copied. O(bytes); no
// allocation once warm. Errors: InvalidArgument/BadRequest, ResourceExhausted/OutOfMemory. Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "channel/lane_messages.h"
#include "model/tensor.h"
#include "onnx/session.h"

namespace coterie::worker {

class Gather {
 public:
  static constexpr std::size_t kKept = std::size_t{1} << 20U;  // bytes

  // Fills `inputs` with what the run takes. They are valid until the next call or release(), while `message` and `arena` stay.
  [[nodiscard]] Status join(const channel::RunMessage& message, std::span<const std::byte> arena, const ModelSignature& signature,
                            std::vector<onnx::Input>& inputs);
  void release();
  [[nodiscard]] std::size_t kept() const { return capacity_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  [[nodiscard]] Status plan(const channel::RunMessage& message, std::span<const std::byte> arena, const ModelSignature& signature,
                            std::vector<onnx::Input>& inputs);
  [[nodiscard]] bool reserve(std::size_t bytes);

  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_{0};
  std::vector<std::array<std::int64_t, channel::kMaxRank>> dims_;  // of the joined inputs
  std::vector<std::size_t> bytes_;
};

}  // namespace coterie::worker
