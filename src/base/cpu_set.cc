#include "base/cpu_set.h"

#include <algorithm>
#include <cassert>
#include <charconv>

namespace coterie {

namespace {
constexpr int kBits = 64;
std::size_t wordOf(int id) { return static_cast<std::size_t>(id) / kBits; }
std::uint64_t bitOf(int id) { return std::uint64_t{1} << (static_cast<unsigned>(id) % kBits); }

Error badList(std::string_view list) {
  return {Code::InvalidArgument, "InvalidCpuList", "\"" + std::string(list) + "\" is not a CPU list such as 0-3,8"};
}
bool parseId(std::string_view text, int& id) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), id);
  return ec == std::errc{} && end == text.data() + text.size() && id >= 0 && id < CpuSet::kMaxId;
}
std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\0')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}
}  // namespace

CpuSet CpuSet::range(int first, int last) {
  CpuSet set;
  for (int id = first; id <= last; ++id) set.add(id);
  return set;
}

Result<CpuSet> CpuSet::parse(std::string_view list) {
  CpuSet set;
  std::string_view rest = trim(list);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const std::size_t dash = item.find('-');
    int first = 0;
    int last = 0;
    if (!parseId(item.substr(0, dash), first)) return badList(list);
    last = first;
    if (dash != std::string_view::npos && !parseId(item.substr(dash + 1), last)) return badList(list);
    if (last < first) return badList(list);
    for (int id = first; id <= last; ++id) set.add(id);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return badList(list);
  }
  return set;
}

std::string CpuSet::toString() const {
  std::string text;
  for (int id = first(); id >= 0;) {
    int last = id;
    while (contains(last + 1)) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(id);
    if (last > id) text += '-' + std::to_string(last);
    id = next(last);
  }
  return text;
}

void CpuSet::add(int id) {
  assert(id >= 0 && id < kMaxId);
  if (wordOf(id) >= words_.size()) words_.resize(wordOf(id) + 1);
  words_[wordOf(id)] |= bitOf(id);
}

void CpuSet::remove(int id) {
  if (id >= 0 && wordOf(id) < words_.size()) words_[wordOf(id)] &= ~bitOf(id);
}

bool CpuSet::contains(int id) const { return id >= 0 && wordOf(id) < words_.size() && (words_[wordOf(id)] & bitOf(id)) != 0; }

bool CpuSet::empty() const {
  return std::all_of(words_.begin(), words_.end(), [](std::uint64_t word) { return word == 0; });
}

int CpuSet::count() const {
  int total = 0;
  for (const std::uint64_t word : words_) total += std::popcount(word);
  return total;
}

int CpuSet::first() const { return next(-1); }

int CpuSet::next(int after) const {
  const int from = after + 1;
  std::size_t index = wordOf(from);
  if (index >= words_.size()) return -1;
  std::uint64_t word = words_[index] & (~std::uint64_t{0} << (static_cast<unsigned>(from) % kBits));
  while (word == 0) {
    if (++index >= words_.size()) return -1;
    word = words_[index];
  }
  return static_cast<int>(index) * kBits + std::countr_zero(word);
}

int CpuSet::last() const {
  for (std::size_t index = words_.size(); index > 0; --index) {
    if (words_[index - 1] != 0) return static_cast<int>(index - 1) * kBits + (kBits - 1 - std::countl_zero(words_[index - 1]));
  }
  return -1;
}

std::vector<int> CpuSet::toVector() const {
  std::vector<int> ids;
  for (const int id : *this) ids.push_back(id);
  return ids;
}

bool CpuSet::isSubsetOf(const CpuSet& other) const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::uint64_t theirs = i < other.words_.size() ? other.words_[i] : 0;
    if ((words_[i] & ~theirs) != 0) return false;
  }
  return true;
}

bool CpuSet::intersects(const CpuSet& other) const {
  const std::size_t common = std::min(words_.size(), other.words_.size());
  for (std::size_t i = 0; i < common; ++i) {
    if ((words_[i] & other.words_[i]) != 0) return true;
  }
  return false;
}

int CpuSet::intersectionCount(const CpuSet& other) const {
  int total = 0;
  const std::size_t common = std::min(words_.size(), other.words_.size());
  for (std::size_t i = 0; i < common; ++i) total += std::popcount(words_[i] & other.words_[i]);
  return total;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  if (other.words_.size() > words_.size()) words_.resize(other.words_.size());
  for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  if (words_.size() > other.words_.size()) words_.resize(other.words_.size());
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
  const std::size_t common = std::min(words_.size(), other.words_.size());
  for (std::size_t i = 0; i < common; ++i) words_[i] &= ~other.words_[i];
  return *this;
}

bool operator==(const CpuSet& a, const CpuSet& b) { return a.isSubsetOf(b) && b.isSubsetOf(a); }

bool operator<(const CpuSet& a, const CpuSet& b) {
  int left = a.first();
  int right = b.first();
  while (left == right && left >= 0) left = a.next(left), right = b.next(right);
  return left < right;
}

}  // namespace coterie
