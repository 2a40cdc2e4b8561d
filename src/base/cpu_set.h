// A set of CPU (or memory node) ids of any size, as the kernel's list format writes it ("0-3,8").
//
// Ids are small non-negative integers below kMaxId; the set grows with the largest id it holds (machines with ids above 1024 exist). Ids below
// kInlineIds lie in the set itself, so that no set of an ordinary machine allocates memory. Equality ignores capacity. Set operations O(words), count
// O(words), iteration in ascending order. Thread-compatible.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
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

  void add(int id);
  void remove(int id);
  void clear() { small_ = {}, large_.clear(); }
  [[nodiscard]] bool contains(int id) const;
  [[nodiscard]] bool empty() const;
  [[nodiscard]] int count() const;
  [[nodiscard]] int first() const;          // -1 if empty
  [[nodiscard]] int next(int after) const;  // smallest id > after, or -1
  [[nodiscard]] int last() const;           // -1 if empty
  [[nodiscard]] std::vector<int> toVector() const;
  [[nodiscard]] bool isSubsetOf(const CpuSet& other) const;
  [[nodiscard]] bool intersects(const CpuSet& other) const;
  [[nodiscard]] int intersectionCount(const CpuSet& other) const;

  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);
  CpuSet& operator-=(const CpuSet& other);
  friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
  friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
  friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
  friend bool operator==(const CpuSet& a, const CpuSet& b);
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
  static constexpr std::size_t kInlineWords = kInlineIds / 64;
  using Small = std::array<std::uint64_t, kInlineWords>;

  [[nodiscard]] bool small() const { return large_.empty(); }
  [[nodiscard]] std::size_t size() const { return small() ? kInlineWords : large_.size(); }
  [[nodiscard]] const std::uint64_t* words() const { return small() ? small_.data() : large_.data(); }
  [[nodiscard]] std::uint64_t* words() { return small() ? small_.data() : large_.data(); }
  void growTo(std::size_t words);

  // The words of the set: those of small_, or of large_ if that has any (more than kInlineWords then; small_ counts for nothing).
  Small small_{};
  std::vector<std::uint64_t> large_;
};

}  // namespace coterie
