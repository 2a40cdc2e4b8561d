// Run width: by how many threads one request of a group is run, how many servers that leaves, and how many containers they want.
//
// A wide run answers one request sooner; narrow ones answer more requests per CPU. Each width v whose run time was measured makes c = floor(n / v)
// servers (lanes over all containers) of the n CPUs that the group owns; they are judged as a queue with c servers (Sakasegawa's approximation of
// G/G/c, and an exponential tail for the wait): P = rho^(sqrt(2(c+1)) - 1) is the chance to wait, mean wait of those who do (Ca^2+Cs^2)/2 * S / (c(1
// - rho)), and the q-quantile of the wait that mean times ln(P / (1-q)), nothing where P <= 1-q. Feasible: S at the quantile + that wait <=
// objective, and rho < 1. Chosen is the feasible width of most capacity c/S, of equal ones the narrower; if none is feasible the one that answers
// soonest (under overload: of most capacity), which does not meet the objective; without an objective the one of most capacity. A member of the
// shared pool has one server of width 1, as slow as its share of a CPU is small. Where it was seen how many requests there were at once, m at most,
// none waits longer than the (m - c) before it take on c servers: so a closed loop of few clients, which seems to fill whatever serves it, is no
// overload. Assumed: Poisson arrivals or variation given, quantile between 50 and 99.9 %, times measured on CPUs like those owned. The approximation
// errs by 6 to 41 % to the safe side of Erlang C (design note). Results are rounded to nanoseconds before they are compared. O(widths). Pure,
// thread-compatible. Source: Sakasegawa, Ann. Inst. Statist. Math. 29 (1977) 67-75; the design note, "Width".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"

namespace coterie::allocation {

// How long one run takes by `width` threads: the measured speed-up curve has one of these per width tried.
struct RunTime {
  int width{1};
  Nanos mean{};
  Nanos atQuantile{};  // of the objective's quantile, at least `mean` where only few runs were seen
};

// The same run time for another quantile, if `atQuantile` is of 99 %: the mean is taken for the median, and a straight line for what lies between.
[[nodiscard]] RunTime atQuantile(const RunTime& run, double quantile);

struct WidthQuestion {
  std::vector<RunTime> curve;      // ascending width, the first is 1; may be short
  int cpus{1};                     // that the group owns; 0: a member of the pool
  MilliCpu poolShare;              // of a member of the pool
  MilliRps arrivals;               // accepted requests per second
  double arrivalVariation{1};      // squared coefficient of variation of the gaps between arrivals; 1: Poisson
  double serviceVariation{0};      // the same of run times
  std::optional<int> mostAtOnce;   // requests that ran or waited at the same time, as seen; none: not known
  std::optional<Nanos> objective;  // at the quantile; none: throughput alone counts
  double quantile{0.99};
  int nodesSpanned{1};  // by the group's CPUs
  int minContainers{1};
  int maxContainers{1};
  std::optional<int> mostWideServers;  // of more than one thread, whatever the CPUs: models that cannot share weights have one per container
};

struct WidthRating {
  int width{1};
  int servers{1};
  std::int64_t capacity{0};  // milli-requests per second
  Nanos wait{};              // at the quantile; kEndless where more arrives than can be served
  Nanos latency{};           // run and wait
  bool overloaded{false};
  bool feasible{false};  // meets the objective, or there is none and it is not overloaded
};
inline constexpr Nanos kEndless = Nanos::max();

enum class WidthReason : std::uint8_t {
  MostCapacity,        // there is no objective
  MeetsObjective,      // of those that do, the one of most capacity
  ObjectiveNotMet,     // none does; the one that comes nearest
  Overloaded,          // none keeps up; the one of most capacity
  PoolMember,          // less than a CPU: one server of one thread
  NothingWasMeasured,  // width 1 until it is
};

struct WidthChoice {
  WidthRating chosen;
  WidthReason reason{WidthReason::NothingWasMeasured};
  int containers{1};                 // one per node spanned, or as many as wide servers need, within what the service allows
  std::vector<WidthRating> ratings;  // of every width that fits, ascending
};

[[nodiscard]] WidthChoice chooseWidth(const WidthQuestion& question);

// The widths worth measuring for a service that may own so many CPUs: powers of two, and all of them. Ascending; starts with 2. O(log cpus).
[[nodiscard]] std::vector<int> widthsToMeasure(int cpus);
// Could another width help, if only it were measured? The question's curve knows width 1 alone, there are CPUs for more, and width 1 does not do.
[[nodiscard]] bool wantsMeasuring(const WidthQuestion& question);

// Keeps the width in force from following every gust: it changes when it was infeasible while another was not in three windows in a row, or when
// another was better by a tenth (in capacity; in latency where the objective is not met) in two windows in a row, thus for the length of one.
class WidthWatch {
 public:
  explicit WidthWatch(int width) : width_(width) {}
  // At the end of each window of 10 s, with what that window saw. True: the width in force is another one now.
  bool window(const WidthChoice& choice);
  [[nodiscard]] int width() const { return width_; }

 private:
  bool take(int width);  // from a clean count; true: it is another one

  int width_;
  int wanted_{0};      // another width; 0: none
  int infeasible_{0};  // windows in a row in which the width in force was not feasible and another was
  int better_{0};      // windows in a row in which `wanted_` was better by a tenth
};

}  // namespace coterie::allocation
