// What CPU sets would gain a group of somebody else's servers, without their help and with it: a forecast from what its threads do now.
//
// Contention is how many threads want a CPU for each that the group has: now wanted/used, as measured; afterwards wanted/left with a CPU set alone
// (the server keeps its threads), and owned/left with the hint (it runs as many threads as it owns CPUs). Threads of one model run wait for each
// other; with more of them than CPUs a run waits for the one that comes last, and those that wait busily burn what it needs. So
//     gain = left / used * (contention now / contention then)^s        left = owned * threads / (threads + owned * outside)
// where the contention is that among the groups: threads of no group take their part of the CPUs, and hold up a run before and after alike;
// with s = 0 for threads that have nothing to do with each other and s = 1 for ones that wait busily for each other all the time: these are the ends
// of the interval, since nobody sees from outside which of the two a server is. The likely value has s = 0.75, which fits what was measured with ONNX
// Runtime on two CPUs: 2 spinning threads each 1.32 to 1.74 (forecast 1.68), 4 each 2.6 to 4.0 (2.83), a CPU set without the hint 1.0 (1.17, within
// noise). The measured figure is the geometric mean of two services in each case. What it does not know: caches, memory bandwidth, and load that
// changes. O(1). Pure.
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
  Gain withHint;  // and the server runs as many threads as it owns CPUs
};

// owned: capacity of the CPUs that it would own; of a member of the pool its share.
// outside: threads of no group that run or wait, for each CPU of the machine; they are taken to go on, on every CPU, each with a thread's part of it.
[[nodiscard]] Forecast forecast(const Use& use, MilliCpu owned, double outside = 0);
// Of the machine: geometric means over the groups that are known.
[[nodiscard]] Forecast overall(const std::vector<Forecast>& groups);

}  // namespace coterie::foreign
