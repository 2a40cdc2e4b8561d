// What happened around each change of a service's CPUs, and how long after the decision.
//
// Three logs with one clock: the decisions, samples of the worker's threads (running or runnable, and on which CPU), and the requests' answers. Each
// delay is measured to the later end of what is uncertain: a run began no later than its answer minus its CPU time, a CPU was in use no later than
// the sample that says so; so sampling and the loop's own delays make figures worse, never better. Times are milliseconds from the decision. O(n log
// n) for n entries. Pure. Thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/cpu_set.h"
#include "base/units.h"

namespace coterie::elastic {

struct Change {
  Instant decided{};
  Instant until{};  // the next decision
  CpuSet before;
  CpuSet after;
};

enum class ThreadKind : std::uint8_t { OwnLane, Other };

struct ThreadSample {
  Instant at{};
  ThreadKind kind{ThreadKind::Other};
  std::int16_t cpu{0};
};

struct RunSeen {
  int lane{0};  // among the own lanes
  Instant dispatched{};
  Instant answered{};
  Nanos cpu{};
};

struct ChangeLog {
  std::vector<Change> changes;
  std::vector<ThreadSample> samples;  // ascending
  std::vector<RunSeen> runs;          // ascending by answer
  std::vector<Change> holds{};        // decisions that left the CPUs as they were: what this machine does by itself
};

// Growth: the first run of an added lane has begun; a lane was seen on the added CPU; the later of the two. Nothing: not before the next change.
struct LaneStart {
  std::optional<double> ran;
  std::optional<double> seen;
  [[nodiscard]] std::optional<double> both() const { return ran && seen ? std::max(ran, seen) : std::nullopt; }
};
[[nodiscard]] LaneStart laneStarted(const ChangeLog& log, const Change& change);

// Shrinking: the last sample of any worker thread on a removed CPU; 0: none after the decision.
[[nodiscard]] double cpuLeft(const ChangeLog& log, const Change& change);

// Throughput is counted in answers, or in the CPU time of the answered runs: a CPU that is slow for a while gives fewer answers and as much time.
enum class Unit : std::uint8_t { Answers, CpuSeconds };

// Units per second once a change has settled: from `settle` after the decision to the next one.
[[nodiscard]] double settledRate(const ChangeLog& log, const Change& change, Nanos settle, Unit unit = Unit::Answers);

// What a rate has to follow: 90 % of `level` units per second within any window of length `window`.
struct Level {
  double level{0};
  Nanos window{};
  Unit unit{Unit::Answers};
  double before{1};  // what an answer before the decision counts; below 1, a hold is judged as if the rate had been that much lower until then
};
// Growth: the end of the first such window after the decision.
[[nodiscard]] std::optional<double> rateFollowed(const ChangeLog& log, const Change& change, const Level& wanted);

}  // namespace coterie::elastic
