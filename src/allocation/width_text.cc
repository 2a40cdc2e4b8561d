#include "allocation/width_text.h"

#include <cmath>
#include <cstdint>

namespace coterie::allocation {

namespace {
// Three digits, which are all that a few runs tell.
std::string digits(double value) {
  const double scale = value >= 100 ? 1 : value >= 10 ? 10 : 100;
  const auto rounded = std::llround(value * scale);
  std::string text = std::to_string(rounded / static_cast<std::int64_t>(scale));
  std::string rest = std::to_string(rounded % static_cast<std::int64_t>(scale));
  if (scale == 1) return text;
  rest.insert(0, (scale == 100 ? 2 : 1) - rest.size(), '0');
  while (!rest.empty() && rest.back() == '0') rest.pop_back();
  return rest.empty() ? text : text + "." + rest;
}

std::string percentText(double quantile) { return "p" + digits(quantile * 100); }

std::string serversText(const WidthRating& rating) {
  return std::to_string(rating.servers) + (rating.servers == 1 ? " server of " : " servers of ") + threadsText(rating.width);
}

std::string rateText(const WidthRating& rating) { return digits(static_cast<double>(rating.capacity) / 1000) + " requests/s"; }
}  // namespace

std::string_view widthReasonName(WidthReason reason) {
  switch (reason) {
    case WidthReason::MostCapacity: return "MostCapacity";
    case WidthReason::MeetsObjective: return "MeetsObjective";
    case WidthReason::ObjectiveNotMet: return "ObjectiveNotMet";
    case WidthReason::Overloaded: return "Overloaded";
    case WidthReason::PoolMember: return "PoolMember";
    case WidthReason::NothingWasMeasured: return "NothingWasMeasured";
  }
  return "Unknown";
}

std::string threadsText(int width) { return std::to_string(width) + (width == 1 ? " thread" : " threads"); }

std::string millisText(Nanos time) { return time == kEndless ? "without end" : digits(static_cast<double>(time.count()) / 1e6) + " ms"; }

std::string curveText(const std::vector<RunTime>& curve) {
  std::string text = "a run takes";
  for (std::size_t i = 0; i < curve.size(); ++i) {
    text += (i == 0 ? " " : ", ") + millisText(curve[i].mean) + " by " + (i == 0 ? threadsText(curve[i].width) : std::to_string(curve[i].width));
  }
  return text;
}

std::string widthReasonText(const WidthChoice& choice, std::optional<Nanos> objective, double quantile) {
  const WidthRating& chosen = choice.chosen;
  const std::string target = objective ? "objective of " + millisText(*objective) : "objective";
  const std::string answers =
      "answer" + std::string(chosen.servers == 1 ? "s" : "") + " in " + millisText(chosen.latency) + " at " + percentText(quantile);
  switch (choice.reason) {
    case WidthReason::MostCapacity: return "there is no objective, and " + serversText(chosen) + " have most capacity, " + rateText(chosen);
    case WidthReason::MeetsObjective:
      return serversText(chosen) + " " + answers + ", within the " + target + ", and no other width that does has more capacity, " + rateText(chosen);
    case WidthReason::ObjectiveNotMet:
      return "no width that was measured meets the " + target + "; " + serversText(chosen) + " " + answers + ", the soonest";
    case WidthReason::Overloaded: return "more arrives than any width can serve; " + serversText(chosen) + " have most capacity, " + rateText(chosen);
    case WidthReason::PoolMember: return "it has less than one CPU: one server of 1 thread";
    case WidthReason::NothingWasMeasured: return "no run time is known yet: 1 thread";
  }
  return {};
}

}  // namespace coterie::allocation
