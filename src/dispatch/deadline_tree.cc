#include "dispatch/deadline_tree.h"

#include <algorithm>
#include <cassert>

namespace coterie::dispatch {

namespace {
std::uint64_t hashOf(std::uint64_t z) {  // splitmix64's finalizer
  z = (z + 0x9e3779b97f4a7c15) ^ (z >> 30);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
}  // namespace

bool DeadlineTree::before(Index a, Index b) const {
  const Item& x = nodes_[a].item;
  const Item& y = nodes_[b].item;
  return x.deadline != y.deadline ? x.deadline < y.deadline : x.arrival < y.arrival;
}

void DeadlineTree::pull(Index id) {
  Node& node = nodes_[id];
  const Nanos left = node.left == kNone ? Nanos{} : nodes_[node.left].sum;
  const Nanos here = left + node.item.load;
  node.sum = here;
  node.least = node.item.latestStart - left;
  if (node.left != kNone) node.least = std::min(node.least, nodes_[node.left].least);
  if (node.right != kNone) {
    node.sum += nodes_[node.right].sum;
    node.least = std::min(node.least, nodes_[node.right].least - here);
  }
}

void DeadlineTree::split(Index from, Index pivot, Index& low, Index& high) {
  if (from == kNone) {
    low = high = kNone;
    return;
  }
  if (before(from, pivot)) {
    Index right = kNone;
    split(nodes_[from].right, pivot, right, high);
    nodes_[from].right = right;
    low = from;
  } else {
    Index left = kNone;
    split(nodes_[from].left, pivot, low, left);
    nodes_[from].left = left;
    high = from;
  }
  pull(from);
}

DeadlineTree::Index DeadlineTree::merge(Index low, Index high) {
  if (low == kNone) return high;
  if (high == kNone) return low;
  if (nodes_[low].priority > nodes_[high].priority) {
    nodes_[low].right = merge(nodes_[low].right, high);
    pull(low);
    return low;
  }
  nodes_[high].left = merge(low, nodes_[high].left);
  pull(high);
  return high;
}

void DeadlineTree::insertAt(Index& at, Index id) {
  if (at == kNone || nodes_[id].priority > nodes_[at].priority) {
    Index low = kNone;
    Index high = kNone;
    split(at, id, low, high);
    nodes_[id].left = low;
    nodes_[id].right = high;
    at = id;
  } else {
    insertAt(before(id, at) ? nodes_[at].left : nodes_[at].right, id);
  }
  pull(at);
}

void DeadlineTree::eraseAt(Index& at, Index id) {
  assert(at != kNone);
  if (at == id) {
    at = merge(nodes_[id].left, nodes_[id].right);
    return;
  }
  eraseAt(before(id, at) ? nodes_[at].left : nodes_[at].right, id);
  pull(at);
}

void DeadlineTree::insert(Root& root, Index id, const Item& item) {
  if (id >= nodes_.size()) nodes_.resize(id + std::size_t{1});
  nodes_[id] = Node{};
  nodes_[id].item = item;
  nodes_[id].item.load = std::min(item.load, kMaxLoad);
  nodes_[id].priority = hashOf(item.arrival);
  insertAt(root.node, id);
}

void DeadlineTree::erase(Root& root, Index id) { eraseAt(root.node, id); }

DeadlineTree::Index DeadlineTree::first(const Root& root) const {
  Index at = root.node;
  while (at != kNone && nodes_[at].left != kNone) at = nodes_[at].left;
  return at;
}

DeadlineTree::Index DeadlineTree::last(const Root& root) const {
  Index at = root.node;
  while (at != kNone && nodes_[at].right != kNone) at = nodes_[at].right;
  return at;
}

DeadlineTree::Around DeadlineTree::look(const Root& root, Instant deadline) const {
  Around around;
  Nanos before{};  // loads left of the subtree at hand
  for (Index at = root.node; at != kNone;) {
    const Node& node = nodes_[at];
    const Nanos left = node.left == kNone ? Nanos{} : nodes_[node.left].sum;
    if (node.item.deadline <= deadline) {
      before += left + node.item.load;
      at = node.right;
      continue;
    }
    const Nanos here = before + left;
    around.leastLatestStart = std::min(around.leastLatestStart, node.item.latestStart - here);
    if (node.right != kNone) around.leastLatestStart = std::min(around.leastLatestStart, nodes_[node.right].least - here - node.item.load);
    at = node.left;
  }
  around.loadBefore = before;
  return around;
}

}  // namespace coterie::dispatch
