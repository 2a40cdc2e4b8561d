// What plan_steps.cc and unit_guard.cc know of every container on its way from what it holds to what it shall hold, and of who leaves which CPU.
//
// Most containers of most plans do not move: only those that do have a Way. Everything is made for one plan and holds references to its input.
// Thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocation/decide.h"
#include "allocation/layout.h"
#include "allocation/roles.h"

namespace coterie::allocation {

inline constexpr int kNoStep = -1;

// Many lists of few values, in the order in which they were added; nothing is allocated before the first.
template <typename Value>
class Lists {
 public:
  explicit Lists(std::size_t count) : count_(count) {}
  void add(int list, Value value) {
    if (ends_.empty()) ends_.resize(count_);
    const int node = static_cast<int>(nodes_.size());
    nodes_.push_back({value, kEnd});
    Ends& ends = ends_[static_cast<std::size_t>(list)];
    (ends.last == kEnd ? ends.first : nodes_[static_cast<std::size_t>(ends.last)].next) = node;
    ends.last = node;
  }

  class Iterator {
   public:
    Iterator(const Lists* lists, int node) : lists_(lists), node_(node) {}
    const Value& operator*() const { return lists_->nodes_[static_cast<std::size_t>(node_)].value; }
    Iterator& operator++() { return node_ = lists_->nodes_[static_cast<std::size_t>(node_)].next, *this; }
    bool operator==(const Iterator& other) const { return node_ == other.node_; }

   private:
    const Lists* lists_;
    int node_;
  };
  struct Range {
    Iterator first, last;
    [[nodiscard]] Iterator begin() const { return first; }
    [[nodiscard]] Iterator end() const { return last; }
  };
  [[nodiscard]] Range operator[](std::size_t list) const { return {{this, ends_.empty() ? kEnd : ends_[list].first}, {this, kEnd}}; }

 private:
  static constexpr int kEnd = -1;
  struct Ends {
    int first{kEnd};
    int last{kEnd};
  };
  struct Node {
    Value value;
    int next;
  };
  std::size_t count_;
  std::vector<Ends> ends_;
  std::vector<Node> nodes_;
};

// Of a container whose old home is not its new one.
struct Way {
  CpuSet kept;                // old & new
  std::vector<int> entering;  // positions in new, not in old
  std::vector<int> leaving;   // positions in old, not in new
  CpuSet aside;               // where it stands after its step aside
};

struct StepItem {
  const GroupState* group{nullptr};
  const GroupTarget* groupTarget{nullptr};
  const ContainerState* state{nullptr};
  const ContainerTarget* target{nullptr};
  int groupIndex{0};
  int way{-1};            // index into StepItems::ways
  int loansEnd{kNoStep};  // indices of its steps
  int memoryWiden{kNoStep};
  int narrow{kNoStep};
  int stepAside{kNoStep};  // the last of them
  int asides{0};
  int last{kNoStep};    // the write that brings it home
  bool settled{false};  // nothing more to plan for its home
  bool stuck{false};    // stays on what it has: others do without it
  // A pause container disturbs nobody beside whom it stands.
  [[nodiscard]] Isolation isolation() const { return state->role == ContainerRole::Pause ? Isolation::None : group->isolation; }
  [[nodiscard]] bool apart() const { return isolation() != Isolation::None; }
};

struct StepItems {
  explicit StepItems(const Layout& layout) : leavers(layout.ids.size()), loansLeft(layout.ids.size()) {}
  std::vector<StepItem> all;  // groups ascending, containers as in the snapshot
  std::vector<Way> ways;
  std::vector<int> todo;  // those of which anything is to be written
  CpuSet before;          // the set above all containers, before and after
  CpuSet after;
  Lists<int> leavers;    // per position: items that leave it
  Lists<int> loansLeft;  // per position: items whose loan on it ends

  [[nodiscard]] const StepItem& at(int index) const { return all[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const Way& wayOf(const StepItem& item) const { return ways[static_cast<std::size_t>(item.way)]; }
  [[nodiscard]] Way& wayOf(const StepItem& item) { return ways[static_cast<std::size_t>(item.way)]; }
  [[nodiscard]] const CpuSet& keptBy(const StepItem& item) const { return item.way < 0 ? item.state->home : wayOf(item).kept; }
  // The write after which the container no longer holds the CPU; kNoStep: not planned yet.
  [[nodiscard]] int releaseOf(const StepItem& item, int cpu) const {
    if (item.stepAside != kNoStep && !wayOf(item).aside.contains(cpu)) return item.stepAside;
    return item.narrow != kNoStep ? item.narrow : item.last;
  }
  [[nodiscard]] static bool gains(const StepItem& item, int cpu) {
    return item.way >= 0 && item.target->home.contains(cpu) && !item.state->home.contains(cpu);
  }
  // Is there somebody whom this group alone keeps out of where it goes?
  [[nodiscard]] bool keptOut(const Layout& layout, int group) const {
    for (const StepItem& item : all) {
      if (item.settled || item.groupIndex == group) continue;
      bool out = false;
      bool byOthers = false;
      for (const int position : wayOf(item).entering) {
        for (const int other : leavers[static_cast<std::size_t>(position)]) {
          const StepItem& leaver = at(other);
          if (leaver.groupIndex == item.groupIndex || releaseOf(leaver, layout.ids[static_cast<std::size_t>(position)]) != kNoStep) continue;
          (leaver.groupIndex == group ? out : byOthers) = true;
        }
      }
      if (out && !byOthers) return true;
    }
    return false;
  }
};

[[nodiscard]] inline std::int64_t leafWeight(const StepItem& item) {
  if (item.state->role == ContainerRole::Pause) return 1;
  return std::clamp<std::int64_t>(item.groupTarget->cpuWeight / sharersOf(*item.group), 1, 10000);
}
[[nodiscard]] inline bool loansDiffer(const StepItem& item) {
  return item.state->awakeLoanLanes != item.target->awakeLoanLanes || item.state->loans != item.target->loans;
}
[[nodiscard]] inline bool weightDiffers(const StepItem& item) {
  return !item.groupTarget->pending && item.state->cpuWeight > 0 && item.state->cpuWeight != leafWeight(item);
}
[[nodiscard]] inline bool memoryDiffers(const StepItem& item, const Config& config) {
  return config.memoryNodes && !item.groupTarget->pending && !item.target->memoryNodes.empty() && item.state->memoryNodes != item.target->memoryNodes;
}

enum class Entry : std::uint8_t { Ready, Later, Never };  // may an item enter a CPU? In the order of how bad it is

}  // namespace coterie::allocation
