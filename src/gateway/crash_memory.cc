#include "gateway/crash_memory.h"

#include <algorithm>
#include <cstring>

#include "base/mix.h"

namespace coterie::gateway {

namespace {
constexpr int kPoison = 2;             // crashes
constexpr std::size_t kInnocent = 64;  // ends from outside that are remembered until their requests are heard of
}  // namespace

Nanos CrashMemory::Entry::refusedFor() const {
  if (crashes < kPoison) return {};
  return std::min(kFirstRefusal * (std::int64_t{1} << std::min(crashes - kPoison, 16)), kLongestRefusal);
}

Instant CrashMemory::Entry::forgotten() const { return at + std::max(2 * refusedFor(), kFirstRefusal); }

bool CrashMemory::empty(Instant now) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.forgotten() <= now; });
  return entries_.empty();
}

void CrashMemory::crashed(std::uint64_t digest, InstanceId instance, Instant now) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.forgotten() <= now; });
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.digest == digest; });
  if (found != entries_.end() && found->instance == instance) return;
  if (std::find(innocent_.begin(), innocent_.end(), instance) != innocent_.end()) return;
  const int before = found == entries_.end() ? 0 : found->crashes;
  if (found != entries_.end())
    entries_.erase(found);
  else if (entries_.size() == kMost)
    entries_.erase(entries_.begin());
  entries_.push_back({digest, before + 1, instance, now});
}

std::optional<CrashMemory::Refusal> CrashMemory::refusal(std::uint64_t digest, Instant now) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.digest == digest; });
  if (found == entries_.end() || found->at + found->refusedFor() <= now) return std::nullopt;
  return Refusal{found->crashes, found->at + found->refusedFor() - now};
}

bool CrashMemory::suspects(std::uint64_t digest) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.digest == digest; });
}

void CrashMemory::notItsFault(InstanceId instance) {
  if (innocent_.size() == kInnocent) innocent_.erase(innocent_.begin());
  innocent_.push_back(instance);
  for (Entry& entry : entries_) {
    if (entry.instance != instance) continue;
    --entry.crashes;
    entry.instance = InstanceId();
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.crashes == 0; });
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
