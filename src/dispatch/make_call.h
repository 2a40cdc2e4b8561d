// Recorded calls (record.h) made on a station. CallCheck says before whether they may be.
#pragma once

#include "dispatch/record.h"
#include "dispatch/station.h"

namespace coterie::dispatch {

// Puts the answer in the place of the recorded one.
void makeCall(Station& station, Call& call);

}  // namespace coterie::dispatch
