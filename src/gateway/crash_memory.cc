#include "gateway/crash_memory.h"

#include <algorithm>
#include <cstring>

namespace coterie::gateway {

namespace {
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(hash ^ word ^ 0x9e3779b97f4a7c15U) * 0xd1342543de82ef95U;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}
}  // namespace

int CrashMemory::crashed(std::uint64_t digest) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.digest == digest; });
  if (found != entries_.end()) return ++found->crashes;
  if (entries_.size() == kMost) entries_.erase(entries_.begin());
  entries_.push_back({digest, 1});
  return 1;
}

bool CrashMemory::poisoned(std::uint64_t digest) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.digest == digest && entry.crashes >= kPoison; });
}

std::uint64_t CrashMemory::digestOf(const std::vector<InputTensor>& inputs, std::span<const std::byte> cell) {
  std::uint64_t hash = inputs.size();
  for (const InputTensor& input : inputs) {
    hash = mix(hash, static_cast<std::uint64_t>(input.input));
    for (const std::int64_t dim : input.shape) hash = mix(hash, static_cast<std::uint64_t>(dim));
    std::span<const std::byte> data = cell.subspan(input.offset, input.length);
    while (!data.empty()) {
      std::uint64_t word = 0;
      const std::size_t take = std::min(data.size(), sizeof word);
      std::memcpy(&word, data.data(), take);
      hash = mix(hash, word);
      data = data.subspan(take);
    }
    hash = mix(hash, input.length);
  }
  return hash;
}

}  // namespace coterie::gateway
