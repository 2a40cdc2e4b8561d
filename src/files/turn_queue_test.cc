#include "files/turn_queue.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace coterie::files {
namespace {

struct Item {
  std::string owner;
  int id{0};
};

std::string order(TurnQueue<Item>& queue) {
  std::string taken;
  while (const auto item = queue.take()) taken += item->owner + std::to_string(item->id) + " ";
  return taken;
}

TEST(TurnQueue, OwnersInRotationTheirLeastFirst) {
  TurnQueue<Item> queue;
  queue.put("a", {"a", 1}, 500);
  queue.put("a", {"a", 2}, 0);
  queue.put("a", {"a", 3}, 500);
  queue.put("b", {"b", 1}, 900);
  queue.put("c", {"c", 1}, 0);
  EXPECT_EQ(queue.waitingOf("a"), 3u);
  EXPECT_EQ(order(queue), "a2 b1 c1 a1 a3 ");
  EXPECT_TRUE(queue.empty());
}

TEST(TurnQueue, WhatNobodyWantsIsDropped) {
  TurnQueue<Item> queue;
  for (int i = 1; i <= 4; ++i) queue.put("a", {"a", i}, 0);
  queue.put("b", {"b", 1}, 0);
  queue.dropIf("a", [](const Item& item) { return item.id != 3; });
  EXPECT_EQ(queue.waitingOf("a"), 1u);
  queue.dropIf("b", [](const Item&) { return true; });
  EXPECT_EQ(order(queue), "a3 ");
}

// Whatever the sizes: an owner's next turn comes after exactly one of each other owner that waits, and everything is done in the end.
RC_GTEST_PROP(TurnQueue, NobodyWaitsLongerThanOneTurnOfEachOther, ()) {
  TurnQueue<Item> queue;
  const int owners = *rc::gen::inRange(1, 6);
  std::vector<std::vector<int>> left(static_cast<std::size_t>(owners));
  for (std::size_t o = 0; o < left.size(); ++o) {
    left[o] = *rc::gen::container<std::vector<int>>(*rc::gen::inRange<std::size_t>(1, 5), rc::gen::inRange(1, 30));
    for (std::size_t i = 0; i < left[o].size(); ++i) queue.put(std::to_string(o), {std::to_string(o), static_cast<int>(i)}, left[o][i]);
  }
  std::vector<int> sinceTurn(left.size(), 0);
  const auto waits = [&](std::size_t o) { return std::any_of(left[o].begin(), left[o].end(), [](int l) { return l > 0; }); };
  while (auto item = queue.take()) {
    const auto owner = static_cast<std::size_t>(std::stoi(item->owner));
    int& rest = left[owner][static_cast<std::size_t>(item->id)];
    for (std::size_t i = 0; i < left[owner].size(); ++i) RC_ASSERT(left[owner][i] == 0 || left[owner][i] >= rest);
    rest -= 1;
    for (std::size_t o = 0; o < left.size(); ++o) sinceTurn[o] = o == owner ? 0 : sinceTurn[o] + (waits(o) ? 1 : 0);
    for (const int turns : sinceTurn) RC_ASSERT(turns < owners);
    if (rest > 0) queue.put(item->owner, *item, rest);
  }
  for (std::size_t o = 0; o < left.size(); ++o) RC_ASSERT(!waits(o));
}

}  // namespace
}  // namespace coterie::files
