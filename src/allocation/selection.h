// Group resource selection: which CPUs each claimant gets, given how many of each kind.
//
// Keep what is held: a claimant that has too many sheds from the domain in which it holds least (so it ends compact); one that has too few grows out
// of the domains it already touches, nearest first. A newcomer goes into the tightest domain that holds it whole; where none does, into as few as
// possible, in pieces that hold whole containers. Within a cache: first the free siblings of its own cores, then free cores, then halves beside its
// own tenant, last halves beside others. Ties: lowest id, but of wholly free domains that are alike the one that the caller ranks lowest
// (newcomers.h): for J they are the same. O(n log n + claimants * domains). Pure. Thread-compatible. Source: Liu & Guitart, IEEE
// CLOUD 2025 (group resource selection).
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "allocation/layout.h"
#include "model/ids.h"

namespace coterie::allocation {

inline constexpr int kFree = -1;

// Who owns each position, with free counts per domain and kind kept beside.
class Board {
 public:
  // tenants[c]: the tenant of claimant c; an invalid id is a tenant of its own (the pool).
  Board(const Layout& layout, std::vector<TenantId> tenants);
  [[nodiscard]] const Layout& layout() const { return *layout_; }
  [[nodiscard]] int owner(int position) const { return owners_[static_cast<std::size_t>(position)]; }
  [[nodiscard]] const std::vector<int>& owned(int claimant) const { return owned_[static_cast<std::size_t>(claimant)]; }  // ascending positions
  [[nodiscard]] int freeIn(int branch, int kind) const { return free_[index(branch, kind)]; }
  [[nodiscard]] TenantId tenantOf(int claimant) const { return tenants_[static_cast<std::size_t>(claimant)]; }
  [[nodiscard]] int claimants() const { return static_cast<int>(tenants_.size()); }
  void give(int position, int claimant);  // from anybody
  void release(int position);
  // Ranks per branch: of domains that are wholly free and alike, the one of the lowest rank is taken. Empty: the first is.
  void prefer(std::vector<int> ranks) { ranks_ = std::move(ranks); }

  // Sheds `count` CPUs of the kind.
  void shed(int claimant, int kind, int count);
  // Adds `count` free CPUs of the kind; fewer if there are fewer. chunk: CPUs of one container, >= 1.
  void grow(int claimant, int kind, int count, int chunk);
  // The same, only inside one domain.
  void growWithin(int branch, int claimant, int kind, int count, int chunk);

 private:
  [[nodiscard]] std::size_t index(int branch, int kind) const {
    return static_cast<std::size_t>(branch) * kMaxKinds + static_cast<std::size_t>(kind);
  }
  void count(int position, int by);
  void descend(int branch, int claimant, int kind, int count, int chunk);
  void spread(int branch, int claimant, int kind, int count, int chunk);
  [[nodiscard]] int inWholeCores(int branch, int kind) const;  // free CPUs of cores that are free as a whole
  [[nodiscard]] int tightestChild(const Layout::Branch& here, int kind, int count) const;
  [[nodiscard]] int rankOf(int branch) const { return ranks_.empty() ? 0 : ranks_[static_cast<std::size_t>(branch)]; }
  [[nodiscard]] bool alike(int one, int other) const;
  void takeCores(int branch, int claimant, int kind, int count);
  void takeFrom(int branch, int claimant, int kind, int count);
  [[nodiscard]] bool strangersOnCore(int core, int claimant) const;
  [[nodiscard]] bool ownsOnCore(int core, int claimant) const;

  const Layout* layout_;
  std::vector<TenantId> tenants_;
  std::vector<int> owners_;
  std::vector<std::vector<int>> owned_;
  std::vector<int> free_;
  std::vector<int> ranks_;
};

}  // namespace coterie::allocation
