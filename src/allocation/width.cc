#include "allocation/width.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace coterie::allocation {

namespace {

constexpr int kInfeasibleWindows = 3;
constexpr int kBetterWindows = 2;

double seconds(Nanos time) { return static_cast<double>(time.count()) / 1e9; }
Nanos nanos(double time) { return Nanos(std::llround(time * 1e9)); }

// Wait at the quantile of a queue with c servers, in seconds; needs rho < 1.
double waitAtQuantile(const WidthQuestion& question, double service, int servers, double rho) {
  const double chance = std::pow(rho, std::sqrt(2.0 * (servers + 1)) - 1);
  const double tail = 1 - question.quantile;
  if (chance <= tail) return 0;
  const double ofThoseWhoWait = (question.arrivalVariation + question.serviceVariation) / 2 * service / (servers * (1 - rho));
  return ofThoseWhoWait * std::log(chance / tail);
}

// `slowdown`: how much longer a run takes than on a CPU of its own.
WidthRating rate(const WidthQuestion& question, const RunTime& run, int servers, double slowdown) {
  WidthRating rating;
  rating.width = run.width;
  rating.servers = servers;
  const double service = std::max(1e-9, seconds(run.mean) * slowdown);
  rating.capacity = std::llround(servers / service * 1000);
  const double rho = static_cast<double>(question.arrivals.value) / 1000 * service / servers;
  if (rho >= 1 && !question.mostAtOnce) {
    rating.overloaded = true;
    rating.wait = rating.latency = kEndless;
    return rating;
  }
  double wait = rho < 1 ? waitAtQuantile(question, service, servers, rho) : std::numeric_limits<double>::infinity();
  if (question.mostAtOnce) wait = std::min(wait, std::max(0, *question.mostAtOnce - servers) * service / servers);
  rating.wait = nanos(wait);
  rating.latency = rating.wait + nanos(seconds(std::max(run.atQuantile, run.mean)) * slowdown);
  rating.feasible = !question.objective || rating.latency <= *question.objective;
  return rating;
}

bool moreCapacity(const WidthRating& a, const WidthRating& b) { return a.capacity != b.capacity ? a.capacity > b.capacity : a.width < b.width; }
bool sooner(const WidthRating& a, const WidthRating& b) { return a.latency != b.latency ? a.latency < b.latency : moreCapacity(a, b); }

template <typename Keep, typename Better>
const WidthRating* best(const std::vector<WidthRating>& ratings, Keep keep, Better better) {
  const WidthRating* found = nullptr;
  for (const WidthRating& rating : ratings) {
    if (keep(rating) && (found == nullptr || better(rating, *found))) found = &rating;
  }
  return found;
}

bool betterByATenth(const WidthRating& rating, const WidthRating& present, WidthReason reason) {
  if (reason == WidthReason::ObjectiveNotMet) return present.overloaded || rating.latency * 10 <= present.latency * 9;
  return rating.capacity * 10 >= present.capacity * 11;
}

}  // namespace

RunTime atQuantile(const RunTime& run, double quantile) {
  const double part = std::clamp((quantile - 0.5) / 0.49, 0.0, 1.0);
  return {run.width, run.mean, run.mean + Nanos(std::llround(static_cast<double>((run.atQuantile - run.mean).count()) * part))};
}

WidthChoice chooseWidth(const WidthQuestion& question) {
  WidthChoice choice;
  choice.containers = std::clamp(std::max(question.minContainers, question.nodesSpanned), question.minContainers,
                                 std::max(question.minContainers, question.maxContainers));
  if (question.curve.empty()) return choice;
  if (question.cpus < 1) {
    const double slowdown = 1000.0 / static_cast<double>(std::clamp<std::int64_t>(question.poolShare.value, 1, 1000));
    choice.chosen = rate(question, question.curve.front(), 1, slowdown);
    choice.ratings = {choice.chosen};
    choice.reason = WidthReason::PoolMember;
    return choice;
  }
  for (const RunTime& run : question.curve) {
    if (run.width > question.cpus) continue;
    int servers = question.cpus / run.width;
    if (run.width > 1 && question.mostWideServers) servers = std::clamp(*question.mostWideServers, 1, servers);
    choice.ratings.push_back(rate(question, run, servers, 1));
  }
  if (choice.ratings.empty()) return choice;
  const auto feasible = [](const WidthRating& rating) { return rating.feasible; };
  const auto keepsUp = [](const WidthRating& rating) { return !rating.overloaded; };
  const auto any = [](const WidthRating&) { return true; };
  const WidthRating* const fullest = best(choice.ratings, any, moreCapacity);
  const WidthRating* const meeting = question.objective ? best(choice.ratings, feasible, moreCapacity) : nullptr;
  const WidthRating* const nearest = question.objective ? best(choice.ratings, keepsUp, sooner) : nullptr;
  const WidthRating* chosen = fullest;
  choice.reason = question.objective || fullest->overloaded ? WidthReason::Overloaded : WidthReason::MostCapacity;
  if (meeting != nullptr) {
    chosen = meeting;
    choice.reason = WidthReason::MeetsObjective;
  } else if (nearest != nullptr) {
    chosen = nearest;
    choice.reason = WidthReason::ObjectiveNotMet;
  }
  choice.chosen = *chosen;
  if (choice.chosen.width > 1 && question.mostWideServers)
    choice.containers = std::clamp(choice.chosen.servers, choice.containers, std::max(choice.containers, question.maxContainers));
  return choice;
}

std::vector<int> widthsToMeasure(int cpus) {
  std::vector<int> widths;
  for (int width = 2; width < cpus; width *= 2) widths.push_back(width);
  if (cpus > 1) widths.push_back(cpus);
  return widths;
}

bool wantsMeasuring(const WidthQuestion& question) {
  if (question.cpus < 2 || question.curve.empty() || !question.objective) return false;
  if (question.curve.back().width > 1) return false;
  return !chooseWidth(question).chosen.feasible;
}

bool WidthWatch::window(const WidthChoice& choice) {
  const auto present = std::find_if(choice.ratings.begin(), choice.ratings.end(), [&](const WidthRating& one) { return one.width == width_; });
  const int other = choice.chosen.width;
  if (choice.ratings.empty()) return take(width_);
  // The one in force; or it no longer fits, or is of the pool.
  if (other == width_ || present == choice.ratings.end()) return take(other);
  infeasible_ = choice.chosen.feasible && !present->feasible ? infeasible_ + 1 : 0;
  better_ = betterByATenth(choice.chosen, *present, choice.reason) ? (other == wanted_ ? better_ + 1 : 1) : 0;
  wanted_ = other;
  if (infeasible_ < kInfeasibleWindows && better_ < kBetterWindows) return false;
  return take(other);
}

bool WidthWatch::take(int width) {
  wanted_ = infeasible_ = better_ = 0;
  return std::exchange(width_, width) != width;
}

}  // namespace coterie::allocation
