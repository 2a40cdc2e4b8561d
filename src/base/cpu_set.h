// A set of CPU (or memory node) ids of any size, as the kernel's list format writes it ("0-3,8").
//
// Ids are small non-negative integers below kMaxId; the set grows with the largest id it holds (machines with ids above 1024 exist). Equality ignores
// capacity. Set operations O(words), count O(words), iteration in ascending order. Thread-compatible.
#pragma once

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
  void clear() { words_.clear(); }
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
  std::vector<std::uint64_t> words_;
};

}  // namespace coterie
