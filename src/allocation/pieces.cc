#include "allocation/pieces.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "allocation/assignment.h"
#include "allocation/objective.h"

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Pieces {
 public:
  Pieces(Board& board, int claimant, const std::array<int, kMaxKinds>& cpus, int containers)
      : board_(board), layout_(board.layout()), claimant_(claimant), cpus_(cpus), containers_(containers) {}

  void run() {
    const int total = std::accumulate(cpus_.begin(), cpus_.end(), 0);
    const int smaller = std::max(1, total / containers_);
    const int larger = (total + containers_ - 1) / containers_;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::vector<int> best;
    int tried = 0;
    for (const int piece : {smaller, larger, 1}) {
      if (piece == tried) continue;
      tried = piece;
      grow(piece);
      const std::int64_t cost = ownCost();
      if (cost == 0 && best.empty()) return;
      const std::vector<int> placed = board_.owned(claimant_);
      const std::int64_t all = cost + costOfCaches(placed);
      for (const int position : placed) board_.release(position);
      const std::int64_t added = all - costOfCaches(placed);
      if (added < least) least = added, best = placed;
    }
    for (const int position : best) board_.give(position, claimant_);
  }

 private:
  void grow(int piece) {
    for (int kind = 0; kind < layout_.kindCount; ++kind) board_.grow(claimant_, kind, cpus_[at(kind)], piece);
  }

  [[nodiscard]] std::int64_t ownCost() const {
    const std::vector<int>& placed = board_.owned(claimant_);
    if (placed.empty() || spanOf(layout_, placed) == 0) return 0;
    return groupCost(layout_, placed, assignContainers(layout_, placed, std::vector<Positions>(at(containers_))));
  }

  [[nodiscard]] std::int64_t costOfCaches(const std::vector<int>& positions) const {
    std::int64_t cost = 0;
    int last = -1;
    for (const int position : positions) {
      const int branch = layout_.paths[at(position)][at(static_cast<int>(DomainLevel::Cache))];
      if (branch != last) cost += cacheCost(board_, branch);
      last = branch;
    }
    return cost;
  }

  Board& board_;
  const Layout& layout_;
  int claimant_;
  const std::array<int, kMaxKinds>& cpus_;
  int containers_;
};
}  // namespace

void growNewcomer(Board& board, int claimant, const std::array<int, kMaxKinds>& cpus, int containers) {
  Pieces(board, claimant, cpus, containers).run();
}

}  // namespace coterie::allocation
