// What a bench subject tells its bench while it runs: completions and latencies per service, in memory that both map.
//
// The subject's one thread writes, the bench reads; relaxed atomics suffice because each figure stands alone. Active time is monotonic time without
// the spans in which the subject was frozen; the bench adds each span just before it thaws. A service's `lastCompletion` is the active time of its
// newest completion: throughput between two readings is completions divided by the time between their newest completions, which has no edge error at
// slice borders.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/units.h"

namespace coterie::in_node {

inline constexpr int kMaxServices = 16;
inline constexpr int kLatencyBuckets = 512;  // sixteenths of a power of two, from 1 us

struct ServiceCounters {
  std::atomic<std::int64_t> completed{0};
  std::atomic<std::int64_t> failed{0};
  std::atomic<std::int64_t> lastCompletion{0};  // active nanoseconds
  std::array<std::atomic<std::uint32_t>, kLatencyBuckets> latency{};
};

enum class SubjectState : std::uint32_t { Starting, Ready, Failed, Finished };

struct SharedPage {
  std::atomic<SubjectState> state{SubjectState::Starting};
  std::atomic<std::int64_t> frozenNanos{0};
  std::atomic<std::int64_t> finishedAt{0};  // active nanoseconds since the first request, for a run of a fixed amount of work
  std::array<ServiceCounters, kMaxServices> services{};
  std::array<char, 512> failure{};  // text, when state is Failed
};

[[nodiscard]] int latencyBucket(Nanos latency);
[[nodiscard]] Nanos latencyOfBucket(int bucket);  // upper edge

}  // namespace coterie::in_node
