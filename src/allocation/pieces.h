// Into pieces of which size a newcomer falls that no domain holds whole.
//
// Pieces of whole containers keep each container together, but leave a rest of every domain to others; filling domains one after the other leaves
// nothing, but may cut containers. Neither is best everywhere, so each is tried on the board (pieces of the smaller and of the larger containers, and
// none) and the least J wins: the newcomer's own terms and those of the caches it touches; among equals the first. A newcomer that fits into one
// cache is placed at the first try. O(tries * (CPUs it gets + CPUs of the caches it touches) * log n). Pure. Thread-compatible.
#pragma once

#include <array>

#include "allocation/layout.h"
#include "allocation/selection.h"

namespace coterie::allocation {

// Gives the claimant, who has none, so many free CPUs of each kind; fewer if there are fewer. containers: how many will share them, >= 1.
void growNewcomer(Board& board, int claimant, const std::array<int, kMaxKinds>& cpus, int containers);

}  // namespace coterie::allocation
