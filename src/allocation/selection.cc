#include "allocation/selection.h"

#include <algorithm>

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }
constexpr std::array<DomainLevel, 4> kInsideOut{DomainLevel::Cache, DomainLevel::Node, DomainLevel::Socket, DomainLevel::Machine};
}  // namespace

Board::Board(const Layout& layout, std::vector<TenantId> tenants)
    : layout_(&layout),
      tenants_(std::move(tenants)),
      owners_(layout.ids.size(), kFree),
      owned_(tenants_.size()),
      free_(layout.branches.size() * kMaxKinds, 0) {
  for (int position = 0; position < layout.size(); ++position) count(position, 1);
}

void Board::count(int position, int by) {
  const int kind = layout_->kinds[at(position)];
  for (const int branch : layout_->paths[at(position)]) free_[index(branch, kind)] += by;
}

void Board::release(int position) {
  const int owner = owners_[at(position)];
  if (owner == kFree) return;
  auto& list = owned_[at(owner)];
  list.erase(std::lower_bound(list.begin(), list.end(), position));
  owners_[at(position)] = kFree;
  count(position, 1);
}

void Board::give(int position, int claimant) {
  release(position);
  auto& list = owned_[at(claimant)];
  list.insert(std::lower_bound(list.begin(), list.end(), position), position);
  owners_[at(position)] = claimant;
  count(position, -1);
}

void Board::shed(int claimant, int kind, int count) {
  if (count <= 0) return;
  const auto& branches = layout_->branches;
  std::vector<int> own(branches.size(), 0);
  for (const int position : owned_[at(claimant)]) {
    for (const int branch : layout_->paths[at(position)]) ++own[at(branch)];
  }
  // The domain with least goes first and keeps being the one with least, so one sort decides.
  std::vector<int> order;
  for (const int position : owned_[at(claimant)]) {
    if (layout_->kinds[at(position)] == kind) order.push_back(position);
  }
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    for (int level = 1; level < kLevels; ++level) {
      const int left = layout_->paths[at(a)][at(level)];
      const int right = layout_->paths[at(b)][at(level)];
      if (own[at(left)] != own[at(right)]) return own[at(left)] < own[at(right)];
      if (left != right) return left > right;
    }
    return a > b;
  });
  for (int i = 0; i < count && i < static_cast<int>(order.size()); ++i) release(order[at(i)]);
}

void Board::grow(int claimant, int kind, int count, int chunk) { growWithin(0, claimant, kind, count, chunk); }

void Board::growWithin(int root, int claimant, int kind, int count, int chunk) {
  const Layout::Branch& bounds = layout_->branches[at(root)];
  count = std::min(count, freeIn(root, kind));
  for (const DomainLevel level : kInsideOut) {
    if (count <= 0) return;
    if (level <= bounds.level) break;
    // The domains of this level that it touches, the one with most of its CPUs first.
    std::vector<std::pair<int, int>> touched;
    for (const int position : owned_[at(claimant)]) {
      if (position < bounds.begin || position >= bounds.end) continue;
      const int branch = layout_->paths[at(position)][at(static_cast<int>(level))];
      if (touched.empty() || touched.back().second != branch) touched.emplace_back(0, branch);
      --touched.back().first;
    }
    std::sort(touched.begin(), touched.end());
    for (const auto& [own, branch] : touched) {
      const int here = std::min(count, freeIn(branch, kind));
      descend(branch, claimant, kind, here, chunk);
      count -= here;
    }
  }
  descend(root, claimant, kind, std::min(count, freeIn(root, kind)), chunk);
}

void Board::descend(int branch, int claimant, int kind, int count, int chunk) {
  const Layout::Branch& here = layout_->branches[at(branch)];
  if (count <= 0) return;
  if (here.level == DomainLevel::Core || count == freeIn(branch, kind)) return takeFrom(branch, claimant, kind, count);
  if (here.level == DomainLevel::Cache) return takeCores(branch, claimant, kind, count);
  spread(branch, claimant, kind, count, chunk);
}

// No single rule fits: the tightest child that holds the rest ends it; until then the roomiest child gives room for whole containers.
void Board::spread(int branch, int claimant, int kind, int count, int chunk) {
  const Layout::Branch& here = layout_->branches[at(branch)];
  std::vector<std::pair<int, int>> children;  // roomiest first, then lowest
  for (int child = here.firstChild; child < here.lastChild; ++child) {
    if (freeIn(child, kind) > 0) children.emplace_back(-freeIn(child, kind), child);
  }
  std::sort(children.begin(), children.end());
  for (const auto& [room, child] : children) {
    const int tightest = tightestChild(here, kind, count);
    if (tightest >= 0) return descend(tightest, claimant, kind, count, chunk);
    const int taken = -room / chunk * chunk;
    descend(child, claimant, kind, taken, chunk);
    count -= taken;
  }
  // What holds no whole container is taken in whole cores as far as they go, so that no half of one is taken only because its domain came first.
  for (const auto& [room, child] : children) {
    const int taken = std::min(count, inWholeCores(child, kind));
    descend(child, claimant, kind, taken, chunk);
    count -= taken;
  }
  for (const auto& [room, child] : children) {
    const int taken = std::min(count, freeIn(child, kind));
    descend(child, claimant, kind, taken, chunk);
    count -= taken;
  }
}

int Board::inWholeCores(int branch, int kind) const {
  const Layout::Branch& here = layout_->branches[at(branch)];
  int count = 0;
  for (int position = here.begin; position < here.end;) {
    const int core = layout_->paths[at(position)][kLevels - 1];
    const int size = layout_->branches[at(core)].size();
    if (freeIn(core, kind) == size) count += size;
    position += size;
  }
  return count;
}

int Board::tightestChild(const Layout::Branch& here, int kind, int count) const {
  int tightest = -1;
  for (int child = here.firstChild; child < here.lastChild; ++child) {
    const int free = freeIn(child, kind);
    if (free < count) continue;
    if (tightest < 0 || free < freeIn(tightest, kind) || (rankOf(child) < rankOf(tightest) && alike(tightest, child))) tightest = child;
  }
  return tightest;
}

// Wholly free, and as a mirror image down to the CPUs.
bool Board::alike(int one, int other) const {
  const Layout::Branch& here = layout_->branches[at(one)];
  const Layout::Branch& there = layout_->branches[at(other)];
  if (here.size() != there.size()) return false;
  for (int i = 0; i < here.size(); ++i) {
    const std::size_t position = at(here.begin + i);
    const std::size_t twin = at(there.begin + i);
    if (owners_[position] != kFree || owners_[twin] != kFree || layout_->kinds[position] != layout_->kinds[twin]) return false;
    for (std::size_t level = 0; level < kLevels; ++level) {
      const int steps = layout_->paths[position][level] - layout_->paths[at(here.begin)][level];
      if (layout_->paths[twin][level] - layout_->paths[at(there.begin)][level] != steps) return false;
    }
  }
  return true;
}

bool Board::ownsOnCore(int core, int claimant) const {
  const Layout::Branch& branch = layout_->branches[at(core)];
  for (int position = branch.begin; position < branch.end; ++position) {
    if (owners_[at(position)] == claimant) return true;
  }
  return false;
}

bool Board::strangersOnCore(int core, int claimant) const {
  const Layout::Branch& branch = layout_->branches[at(core)];
  for (int position = branch.begin; position < branch.end; ++position) {
    const int owner = owners_[at(position)];
    if (owner == kFree || owner == claimant) continue;
    if (!tenants_[at(owner)].valid() || tenants_[at(owner)] != tenants_[at(claimant)]) return true;
  }
  return false;
}

void Board::takeFrom(int branch, int claimant, int kind, int count) {
  const Layout::Branch& here = layout_->branches[at(branch)];
  for (int position = here.begin; position < here.end && count > 0; ++position) {
    if (owners_[at(position)] != kFree || layout_->kinds[at(position)] != kind) continue;
    give(position, claimant);
    --count;
  }
}

void Board::takeCores(int branch, int claimant, int kind, int count) {
  const Layout::Branch& here = layout_->branches[at(branch)];
  enum Pass { OwnCores, WholeCores, BesideOwnTenant, PartOfFreeCore, Anything };
  for (const Pass pass : {OwnCores, WholeCores, BesideOwnTenant, PartOfFreeCore, Anything}) {
    for (int core = here.firstChild; core < here.lastChild && count > 0; ++core) {
      const int free = freeIn(core, kind);
      const int size = layout_->branches[at(core)].size();
      if (free == 0) continue;
      const bool wanted = pass == OwnCores          ? free < size && ownsOnCore(core, claimant)
                          : pass == WholeCores      ? free == size && free <= count
                          : pass == BesideOwnTenant ? free < size && !strangersOnCore(core, claimant)
                          : pass == PartOfFreeCore  ? free == size
                                                    : true;
      if (!wanted) continue;
      const int taken = std::min(count, free);
      takeFrom(core, claimant, kind, taken);
      count -= taken;
    }
  }
}

}  // namespace coterie::allocation
