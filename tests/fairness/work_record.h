// What a record of a station (dispatch/record.h) says of who had its slots, second by second.
//
// work: of each tenant, slot-time that its runs held within each window; a run counts where it was, a batch by its members alike. idleBesideWork: of
// all time in which somebody waited, the part in which a slot that could have run him was free. O(frames). Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace coterie::fairness {

struct WorkRecord {
  std::vector<std::map<std::string, double>> windows;  // of equal length: tenant -> seconds
  double waiting{0};                                   // seconds in which somebody waited
  double idleBesideWork{0};                            // of them, with a free slot
  std::size_t slots{0};                                // most that were open at once
  std::int64_t accepted{0};
  std::int64_t inTime{0};  // of these: succeeded by their deadline
  double held{0};          // seconds that runs which succeeded had their slots
  std::int64_t runs{0};    // that succeeded
};

// Of the station of this name (the last one).
[[nodiscard]] WorkRecord workOf(std::string_view bytes, const std::string& station, Nanos window);

// Jain's index of work by weight.
[[nodiscard]] double jain(const std::map<std::string, double>& work, const std::map<std::string, double>& weights);

}  // namespace coterie::fairness
