#include "base/cpu_set.h"

#include <charconv>

namespace coterie {

namespace {
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

void CpuSet::enlarge(std::size_t words) {
  if (small()) large_.assign(small_.begin(), small_.end()), small_ = {};
  large_.resize(words);
}

int CpuSet::count() const {
  const std::uint64_t* const mine = words();
  int total = 0;
  for (std::size_t i = 0; i < size(); ++i) total += std::popcount(mine[i]);
  return total;
}

int CpuSet::intersectionCount(const CpuSet& other) const {
  const std::uint64_t* const mine = words();
  const std::uint64_t* const theirs = other.words();
  const std::size_t common = std::min(size(), other.size());
  int total = 0;
  for (std::size_t i = 0; i < common; ++i) total += std::popcount(mine[i] & theirs[i]);
  return total;
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

bool operator<(const CpuSet& a, const CpuSet& b) {
  int left = a.first();
  int right = b.first();
  while (left == right && left >= 0) left = a.next(left), right = b.next(right);
  return left < right;
}

}  // namespace coterie
