// Whose turn it is: owners in rotation, and of one owner the item with the least left to do.
//
// Assumes: an item that is not done after its turn is put back with what is left. Guarantees: between two turns of one owner each other owner that
// waits has exactly one; of equal items of one owner the one put first comes first, so that two of the same kind are not worked on by halves. An
// owner's own small items go before its large ones. O(log owners + log items). Pure. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace coterie::files {

template <typename Item>
class TurnQueue {
 public:
  void put(const std::string& owner, Item item, std::int64_t left) {
    auto& items = waiting_[owner];
    if (items.empty()) turns_.push_back(owner);
    items.emplace(left, std::move(item));
  }

  std::optional<Item> take() {
    if (turns_.empty()) return std::nullopt;
    const auto owner = waiting_.find(turns_.front());
    turns_.pop_front();
    const auto first = owner->second.begin();
    Item item = std::move(first->second);
    owner->second.erase(first);
    if (owner->second.empty()) {
      waiting_.erase(owner);
    } else {
      turns_.push_back(owner->first);
    }
    return item;
  }

  [[nodiscard]] bool empty() const { return turns_.empty(); }
  [[nodiscard]] std::size_t waitingOf(const std::string& owner) const {
    const auto found = waiting_.find(owner);
    return found == waiting_.end() ? 0 : found->second.size();
  }
  // Drops what nobody wants any more of one owner.
  void dropIf(const std::string& owner, const auto& unwanted) {
    const auto found = waiting_.find(owner);
    if (found == waiting_.end()) return;
    std::erase_if(found->second, [&](const auto& entry) { return unwanted(entry.second); });
    if (!found->second.empty()) return;
    waiting_.erase(found);
    std::erase(turns_, owner);
  }

 private:
  std::deque<std::string> turns_;                                     // owners that wait, each once
  std::map<std::string, std::multimap<std::int64_t, Item>> waiting_;  // by what is left; equal ones in the order put
};

}  // namespace coterie::files
