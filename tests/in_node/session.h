// Compares one subject, the reference, with many rivals on the same scenario: all resident, all but one frozen, each slice by slice in turn.
//
// Round: every subject once in a drawn order, then all in the reverse order, so that each pair in it is an ABBA (or BAAB) and a drift that is linear
// over a round cancels in every ratio. The reference is shared by all ratios, so it runs about sqrt(rivals) times as often, spread evenly (Dunnett's
// allocation: least variance of the ratios for a given time). Slices stay short, because the speed of a shared machine wanders: between neighbouring
// spans of 0.25 s of pure computation it differed by 7 %, between spans of 2 s by 14 %. A block is as many rounds as fill a 48th of the time, so that
// the last look comes when the time is up; it yields one log ratio per rival. testing/paired.h says when a rival is decided; from then on it is left
// out. Where memory does not suffice for all rivals at once, they come in several batches beside the same reference.
// Cost: (rivals + sqrt(rivals)) * 2 slices a round. Errors: those of the subjects. Thread-compatible.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "base/units.h"
#include "running_subject.h"
#include "scenario.h"
#include "testing/paired.h"

namespace coterie::in_node {

struct Rival {
  Subject subject;
  double bound{0.97};  // of reference / rival; the rival is decided once it is known on which side the ratio lies
  // One of several forms of its policy of which only the best counts: left out after a glance that says it is not, unless it is to be measured
  // anyway.
  bool candidate{false};
  bool measuredAnyway{true};
};

struct Compared {
  testing::Decision decision;  // of reference / rival
  std::vector<ServiceFigures> figures;
};

struct SessionResult {
  std::vector<ServiceFigures> reference;
  std::vector<Compared> rivals;  // as given
};

struct SliceSeen {
  std::string subject;
  std::size_t block{0};
  Work work;
};

struct SessionOptions {
  Seconds limit{300};  // of measuring and starting, together
  std::uint64_t seed{1};
  std::function<void(const SliceSeen&)> observer;  // may be empty
};

[[nodiscard]] Result<SessionResult> compareAll(const Scenario& scenario, const Subject& reference, const std::vector<Rival>& rivals,
                                               const SessionOptions& options);

// One half of a round: rivals in a drawn order, the reference (-1) evenly among them. The other half is its reverse.
[[nodiscard]] std::vector<int> drawHalf(const std::vector<int>& rivals, Rng& rng);

}  // namespace coterie::in_node
