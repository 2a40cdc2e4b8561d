// What CPU sets would gain a group of somebody else's servers, without their help and with it: a forecast from what its threads do now.
//
// Each container is taken for one server that runs one request after the other by a team of n threads (those that run or wait, as measured): one of
// them carries the request, the others help. The carrier's CPU time always does work. A helper's does only while the carrier runs too, and then a
// part h of it, since a run has parts that do not divide; otherwise it waits busily and burns its CPU. So of a team's CPU time the part that does
// work is
//     e = (1 + (n - 1) q h) / n       q = min(1, (M - 1) / (c M - 1))
// where q is the chance that a helper runs while the carrier does: with c threads for each of M CPUs, one of which the carrier has, the other M - 1
// are had by as many of the other c M - 1 threads. c is what is measured, threads that run or wait per CPU had; M where the container may run. And
//     gain = left / used * e afterwards / e now        left = min(n, owned * r)
// CPU sets alone leave n as it is, on the CPUs owned; with the hint n is what the server is told. The same e says why sets alone may cost: on one CPU
// no helper ever helps. r is what threads of no group leave of a CPU, now and afterwards: the kernel divides a CPU among cgroups and sessions first,
// so they keep their part however many threads a server has. (Measured: three servers beside compilers had 0.82 CPUs with six threads and 0.83 with
// three.)
//     h = 1/2: ONNX Runtime on two CPUs, a team of two against two single threads: 1.3 to 1.5 times slower with MobileNet (h = 0.54 to 0.33), 1.75,
// 1.32, 1.19 and 1.07 times with MobileNet, MobileNet in eights, ResNet50, VGG16 (0.14 to 0.87). Nobody sees it from outside.
// The interval is what threads may be otherwise: ones that have nothing to do with each other (e stays), helpers that help fully (h = 1) or not at
// all (h = 0), and threads that all wait for the last of them, busily and all the time (e is one by the contention); and others that take a thread's
// part for each of theirs, as in one cgroup and session with the servers.
// Not known: caches, memory bandwidth, load that changes, and parts of a run whose thread loses its CPU midway, which make a team somewhat slower
// still, the more so the more contended it is. O(1). Pure. Sources of the figures: measured for this project (docs/figures.md; forecast_test.cc has
// them as a table).
#pragma once

#include <vector>

#include "base/units.h"
#include "foreign/use_meter.h"

namespace coterie::foreign {

// Throughput afterwards per throughput now.
struct Gain {
  double low{1};
  double likely{1};
  double high{1};
};

struct Forecast {
  bool known{false};  // false: it was not seen at work, and nothing can be said
  double contentionNow{1};
  double contentionWithSets{1};
  Gain sets;      // CPU sets alone
  Gain withHint;  // and the server runs as many threads as it is told
};

// Of a group: what it would have, and where.
struct Placement {
  MilliCpu owned;         // capacity of the CPUs that it would own; of a member of the pool its part
  int containers{1};      // at work, each with its part of all this
  double cpusNow{1};      // on which one of them may run now
  double cpusThen{1};     // and afterwards: its own, or all of the pool's
  double threadsThen{1};  // that one of them would be told to run
  double outside{0};      // threads of no group that run or wait, for each CPU, by what they get beside the groups' (r = 1 - outside / c)
};

[[nodiscard]] Forecast forecast(const Use& use, const Placement& placement);
// Of the machine: geometric means over the groups that are known.
[[nodiscard]] Forecast overall(const std::vector<Forecast>& groups);

}  // namespace coterie::foreign
