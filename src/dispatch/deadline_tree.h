// The queued requests of one tenant for one service, by (deadline, arrival), with what admission asks: how much work is due before a given deadline,
// and how much delay the later ones can bear.
//
// A treap (Seidel & Aragon 1996) whose nodes live in one pool for all queues; priorities are a hash of the arrival number, so the shape is
// repeatable. Each node keeps of its subtree the sum of loads and the least slack:  min over x of (latestStart_x - sum of the loads before x in the
// subtree). insert, erase, first, last, look: O(log n) expected. rescale: O(n). Loads and sums in ns: a load is at most kMaxLoad, so 2^17 queued
// cannot overflow. Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/units.h"

namespace coterie::dispatch {

class DeadlineTree {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = std::numeric_limits<Index>::max();
  static constexpr Nanos kMaxLoad{std::int64_t{1} << 45};  // 9.7 h

  struct Root {
    Index node{kNone};
  };
  struct Item {
    Instant deadline{};
    std::uint64_t arrival{0};  // unique; later arrivals have larger ones
    Nanos load{};              // time that it adds to those behind it
    Instant latestStart{};     // it must start by then to end in time
  };
  struct Around {
    Nanos loadBefore{};                         // of items with a deadline at or before the one asked for
    Instant leastLatestStart = Instant::max();  // over later items: latestStart minus the loads before it. Instant::max(): there is none
  };

  void insert(Root& root, Index id, const Item& item);
  void erase(Root& root, Index id);
  [[nodiscard]] Index first(const Root& root) const;  // kNone: empty
  [[nodiscard]] Index last(const Root& root) const;
  [[nodiscard]] Around look(const Root& root, Instant deadline) const;
  [[nodiscard]] Nanos totalLoad(const Root& root) const { return root.node == kNone ? Nanos{} : nodes_[root.node].sum; }

  // Gives every item a new load.
  template <typename LoadOf>
  void rescale(const Root& root, const LoadOf& loadOf) {
    if (root.node == kNone) return;
    Node& node = nodes_[root.node];
    rescale(Root{node.left}, loadOf);
    rescale(Root{node.right}, loadOf);
    node.item.load = loadOf(root.node);
    pull(root.node);
  }

 private:
  struct Node {
    Item item;
    std::uint64_t priority{0};
    Index left{kNone};
    Index right{kNone};
    Nanos sum{};
    Instant least = Instant::max();
  };

  [[nodiscard]] bool before(Index a, Index b) const;
  void pull(Index id);
  void split(Index from, Index pivot, Index& low, Index& high);  // low: before pivot
  [[nodiscard]] Index merge(Index low, Index high);
  void insertAt(Index& at, Index id);
  void eraseAt(Index& at, Index id);

  std::vector<Node> nodes_;  // by request index
};

}  // namespace coterie::dispatch
