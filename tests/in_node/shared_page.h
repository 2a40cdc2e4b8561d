// What a bench subject tells its bench while it runs: completions, runs under way and latencies per service, in memory that both map.
//
// The subject's one thread writes, the bench reads. Active time is monotonic time without the spans in which the subject was frozen; the bench adds
// each span just before it thaws. The work of a service at a time is its completions plus, for each run under way, the part of its expected time that
// has passed: whole completions alone err by up to a run per lane at either end of a slice, a quarter of what a slow model does in one. Completions
// and runs under way change together: `version` is odd meanwhile (a sequence lock with one writer).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/units.h"

namespace coterie::in_node {

inline constexpr int kMaxServices = 16;
inline constexpr int kLatencyBuckets = 512;  // sixteenths of a power of two, from 1 us
inline constexpr int kMaxLanes = 1024;       // of a service that are seen while they run; later ones count when they complete

struct RunUnderWay {
  std::atomic<std::int64_t> since{0};  // active nanoseconds; 0: none
  std::atomic<std::int64_t> expected{1};
};

struct ServiceCounters {
  std::atomic<std::uint32_t> version{0};
  std::atomic<int> lanes{0};  // how many of `runs` are in use
  std::atomic<std::int64_t> completed{0};
  std::atomic<std::int64_t> failed{0};
  std::array<std::atomic<std::uint32_t>, kLatencyBuckets> latency{};
  std::array<RunUnderWay, kMaxLanes> runs{};

  void began(std::size_t lane, Nanos now, Nanos expected);
  void ended(std::size_t lane);
};

// Completions and parts of runs under way, in requests, at that active time.
[[nodiscard]] double workAt(const ServiceCounters& counters, Nanos now);

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
