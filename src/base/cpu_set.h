// A set of CPU (or memory node) ids of any size, as the kernel's list format writes it ("0-3,8").
//
// Ids are small non-negative integers below kMaxId; the set grows with the largest id it holds (machines with ids above 1024 exist). Ids below
// kInlineIds lie in the set itself, so that no set of an ordinary machine allocates memory. Equality ignores capacity. Set operations O(words), count
// O(words), iteration in ascending order. Thread-compatible.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace coterie {

class CpuSet {
 public:
  static constexpr int kMaxId = 1 << 16;
  static constexpr int kInlineIds = 512;

  CpuSet() = default;
  CpuSet(std::initializer_list<int> ids) {
    for (const int id : ids) add(id);
  }
  // Ids first..last inclusive.
  [[nodiscard]] static CpuSet range(int first, int last);
  // "", "3", "0-3,8,10-11". Blanks around and a trailing newline are accepted; anything else is InvalidArgument.
  [[nodiscard]] static Result<CpuSet> parse(std::string_view list);
  [[nodiscard]] std::string toString() const;

  void add(int id) {
    assert(id >= 0 && id < kMaxId);
    growTo(wordOf(id) + 1);
    words()[wordOf(id)] |= bitOf(id);
  }
  void remove(int id) {
    if (id >= 0 && wordOf(id) < size()) words()[wordOf(id)] &= ~bitOf(id);
  }
  void clear() { small_ = {}, large_.clear(); }
  [[nodiscard]] bool contains(int id) const { return id >= 0 && wordOf(id) < size() && (words()[wordOf(id)] & bitOf(id)) != 0; }
  [[nodiscard]] bool empty() const { return first() < 0; }
  [[nodiscard]] int count() const;
  [[nodiscard]] int first() const { return next(-1); }  // -1 if empty
  [[nodiscard]] int next(int after) const {             // smallest id > after, or -1
    const std::uint64_t* const mine = words();
    const std::size_t end = size();
    std::size_t index = wordOf(after + 1);
    if (index >= end) return -1;
    std::uint64_t word = mine[index] & (~std::uint64_t{0} << (static_cast<unsigned>(after + 1) % kBits));
    while (word == 0) {
      if (++index >= end) return -1;
      word = mine[index];
    }
    return static_cast<int>(index) * kBits + std::countr_zero(word);
  }
  [[nodiscard]] int last() const;  // -1 if empty
  [[nodiscard]] std::vector<int> toVector() const;
  [[nodiscard]] bool isSubsetOf(const CpuSet& other) const {
    return !any(other, [](std::uint64_t mine, std::uint64_t theirs) { return mine & ~theirs; });
  }
  [[nodiscard]] bool intersects(const CpuSet& other) const {
    return any(other, [](std::uint64_t mine, std::uint64_t theirs) { return mine & theirs; });
  }
  [[nodiscard]] int intersectionCount(const CpuSet& other) const;
  [[nodiscard]] int firstIn(const CpuSet& other) const {  // smallest id in both, or -1
    const std::uint64_t* const mine = words();
    const std::uint64_t* const theirs = other.words();
    const std::size_t common = std::min(size(), other.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (const std::uint64_t word = mine[i] & theirs[i]; word != 0) return static_cast<int>(i) * kBits + std::countr_zero(word);
    }
    return -1;
  }

  CpuSet& operator|=(const CpuSet& other) {
    growTo(other.size());
    return change(other, [](std::uint64_t mine, std::uint64_t theirs) { return mine | theirs; });
  }
  CpuSet& operator&=(const CpuSet& other) {
    return change(other, [](std::uint64_t mine, std::uint64_t theirs) { return mine & theirs; });
  }
  CpuSet& operator-=(const CpuSet& other) {
    return change(other, [](std::uint64_t mine, std::uint64_t theirs) { return mine & ~theirs; });
  }
  friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
  friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
  friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
  friend bool operator==(const CpuSet& a, const CpuSet& b) {
    if (a.size() == b.size()) return std::memcmp(a.words(), b.words(), a.size() * sizeof(std::uint64_t)) == 0;
    return !a.any(b, [](std::uint64_t left, std::uint64_t right) { return left ^ right; });
  }
  // Any total order; used for ties and maps.
  friend bool operator<(const CpuSet& a, const CpuSet& b);

  class Iterator {
   public:
    Iterator(const CpuSet* set, int id) : set_(set), id_(id) {}
    int operator*() const { return id_; }
    Iterator& operator++() { return id_ = set_->next(id_), *this; }
    bool operator==(const Iterator& other) const { return id_ == other.id_; }

   private:
    const CpuSet* set_;
    int id_;
  };
  [[nodiscard]] Iterator begin() const { return {this, first()}; }
  [[nodiscard]] Iterator end() const { return {this, -1}; }

 private:
  static constexpr int kBits = 64;
  static constexpr std::size_t kInlineWords = kInlineIds / kBits;

  static constexpr std::size_t wordOf(int id) { return static_cast<std::size_t>(id) / kBits; }
  static constexpr std::uint64_t bitOf(int id) { return std::uint64_t{1} << (static_cast<unsigned>(id) % kBits); }

  [[nodiscard]] bool small() const { return large_.empty(); }
  [[nodiscard]] std::size_t size() const { return small() ? kInlineWords : large_.size(); }
  [[nodiscard]] const std::uint64_t* words() const { return small() ? small_.data() : large_.data(); }
  [[nodiscard]] std::uint64_t* words() { return small() ? small_.data() : large_.data(); }
  void growTo(std::size_t words) {
    if (words > size()) enlarge(words);
  }
  void enlarge(std::size_t words);

  // Is `what` of any two words other than zero? The shorter set goes on with zeros.
  template <typename What>
  [[nodiscard]] bool any(const CpuSet& other, What what) const {
    std::uint64_t found = 0;
    if (small() && other.small()) {
      for (std::size_t i = 0; i < kInlineWords; ++i) found |= what(small_[i], other.small_[i]);
      return found != 0;
    }
    const std::uint64_t* const mine = words();
    const std::uint64_t* const theirs = other.words();
    const std::size_t common = std::min(size(), other.size());
    for (std::size_t i = 0; i < common; ++i) found |= what(mine[i], theirs[i]);
    for (std::size_t i = common; i < size(); ++i) found |= what(mine[i], 0);
    for (std::size_t i = common; i < other.size(); ++i) found |= what(0, theirs[i]);
    return found != 0;
  }
  // The same for a change of every word of this set, which grows by nothing.
  template <typename What>
  CpuSet& change(const CpuSet& other, What what) {
    if (small() && other.small()) {
      for (std::size_t i = 0; i < kInlineWords; ++i) small_[i] = what(small_[i], other.small_[i]);
      return *this;
    }
    const std::size_t common = std::min(size(), other.size());
    std::uint64_t* const mine = words();
    const std::uint64_t* const theirs = other.words();
    for (std::size_t i = 0; i < common; ++i) mine[i] = what(mine[i], theirs[i]);
    for (std::size_t i = common; i < size(); ++i) mine[i] = what(mine[i], 0);
    return *this;
  }

  // The words of the set: those of small_, or of large_ if that has any (more than kInlineWords then; small_ counts for nothing).
  std::array<std::uint64_t, kInlineWords> small_{};
  std::vector<std::uint64_t> large_;
};

}  // namespace coterie
