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

void CpuSet::growTo(std::size_t words) {
  if (words <= size()) return;
  if (small()) large_.assign(small_.begin(), small_.end()), small_ = {};
  large_.resize(words);
}

void CpuSet::add(int id) {
  assert(id >= 0 && id < kMaxId);
  growTo(wordOf(id) + 1);
  words()[wordOf(id)] |= bitOf(id);
}

void CpuSet::remove(int id) {
  if (id >= 0 && wordOf(id) < size()) words()[wordOf(id)] &= ~bitOf(id);
}

bool CpuSet::contains(int id) const { return id >= 0 && wordOf(id) < size() && (words()[wordOf(id)] & bitOf(id)) != 0; }

bool CpuSet::empty() const {
  const std::uint64_t* const mine = words();
  std::uint64_t any = 0;
  if (small()) {
    for (std::size_t i = 0; i < kInlineWords; ++i) any |= mine[i];
  } else {
    for (std::size_t i = 0; i < large_.size() && any == 0; ++i) any = mine[i];
  }
  return any == 0;
}

int CpuSet::count() const {
  const std::uint64_t* const mine = words();
  int total = 0;
  for (std::size_t i = 0; i < size(); ++i) total += std::popcount(mine[i]);
  return total;
}

int CpuSet::first() const { return next(-1); }

int CpuSet::next(int after) const {
  const int from = after + 1;
  const std::uint64_t* const mine = words();
  std::size_t index = wordOf(from);
  if (index >= size()) return -1;
  std::uint64_t word = mine[index] & (~std::uint64_t{0} << (static_cast<unsigned>(from) % kBits));
  while (word == 0) {
    if (++index >= size()) return -1;
    word = mine[index];
  }
  return static_cast<int>(index) * kBits + std::countr_zero(word);
}

int CpuSet::last() const {
  const std::uint64_t* const mine = words();
  for (std::size_t index = size(); index > 0; --index) {
    if (mine[index - 1] != 0) return static_cast<int>(index - 1) * kBits + (kBits - 1 - std::countl_zero(mine[index - 1]));
  }
  return -1;
}

std::vector<int> CpuSet::toVector() const {
  std::vector<int> ids;
  for (const int id : *this) ids.push_back(id);
  return ids;
}

bool CpuSet::isSubsetOf(const CpuSet& other) const {
  const std::uint64_t* const mine = words();
  const std::uint64_t* const theirs = other.words();
  const std::size_t common = std::min(size(), other.size());
  std::uint64_t beyond = 0;
  for (std::size_t i = 0; i < common; ++i) beyond |= mine[i] & ~theirs[i];
  for (std::size_t i = common; i < size(); ++i) beyond |= mine[i];
  return beyond == 0;
}

bool CpuSet::intersects(const CpuSet& other) const {
  const std::uint64_t* const mine = words();
  const std::uint64_t* const theirs = other.words();
  const std::size_t common = std::min(size(), other.size());
  std::uint64_t shared = 0;
  for (std::size_t i = 0; i < common; ++i) shared |= mine[i] & theirs[i];
  return shared != 0;
}

int CpuSet::intersectionCount(const CpuSet& other) const {
  const std::uint64_t* const mine = words();
  const std::uint64_t* const theirs = other.words();
  const std::size_t common = std::min(size(), other.size());
  int total = 0;
  for (std::size_t i = 0; i < common; ++i) total += std::popcount(mine[i] & theirs[i]);
  return total;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  growTo(other.size());
  std::uint64_t* const mine = words();
  const std::uint64_t* const theirs = other.words();
  for (std::size_t i = 0; i < other.size(); ++i) mine[i] |= theirs[i];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  std::uint64_t* const mine = words();
  const std::uint64_t* const theirs = other.words();
  const std::size_t common = std::min(size(), other.size());
  for (std::size_t i = 0; i < common; ++i) mine[i] &= theirs[i];
  for (std::size_t i = common; i < size(); ++i) mine[i] = 0;
  return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
  std::uint64_t* const mine = words();
  const std::uint64_t* const theirs = other.words();
  const std::size_t common = std::min(size(), other.size());
  for (std::size_t i = 0; i < common; ++i) mine[i] &= ~theirs[i];
  return *this;
}

bool operator==(const CpuSet& a, const CpuSet& b) {
  const CpuSet& longer = a.size() < b.size() ? b : a;
  const CpuSet& other = a.size() < b.size() ? a : b;
  const std::uint64_t* const left = longer.words();
  const std::uint64_t* const right = other.words();
  std::uint64_t different = 0;
  for (std::size_t i = 0; i < other.size(); ++i) different |= left[i] ^ right[i];
  for (std::size_t i = other.size(); i < longer.size(); ++i) different |= left[i];
  return different == 0;
}

bool operator<(const CpuSet& a, const CpuSet& b) {
  int left = a.first();
  int right = b.first();
  while (left == right && left >= 0) left = a.next(left), right = b.next(right);
  return left < right;
}

}  // namespace coterie
