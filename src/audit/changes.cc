#include "audit/changes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "audit/line.h"
#include "text/text.h"

namespace coterie::audit {

namespace {

constexpr std::string_view kCut = "(cut)";
constexpr std::size_t kMostValue = 80;  // bytes of one side

bool namesASecret(std::string_view member) {
  std::string lower;
  std::transform(member.begin(), member.end(), std::back_inserter(lower), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array<std::string_view, 7> kWords{"secret", "token", "password", "passwd", "credential", "apikey", "privatekey"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

bool isScalarList(const Value& value) {
  const Value::List* list = value.asList();
  return list != nullptr &&
         std::all_of(list->begin(), list->end(), [](const Value& item) { return item.asMap() == nullptr && item.asList() == nullptr; });
}

std::string shown(const Value& leaf) {
  return cleanText(withoutSecrets(leaf.asString() != nullptr ? *leaf.asString() : text::printJson(leaf)), kMostValue);
}

struct Leaf {
  std::string before{"-"};
  std::string after{"-"};
  bool differs{false};
  bool secret{false};
};
using Leaves = std::map<std::string, Leaf>;  // by path: the same change always gives the same text

void flatten(const Value& value, const std::string& path, bool secret, const std::function<void(const std::string&, const Value&, bool)>& leaf) {
  if (const Value::Map* map = value.asMap()) {
    for (const auto& [name, member] : *map) flatten(member, path.empty() ? name : path + "." + name, secret || namesASecret(name), leaf);
  } else if (const Value::List* list = value.asList(); list != nullptr && !isScalarList(value)) {
    for (std::size_t i = 0; i < list->size(); ++i) flatten((*list)[i], path + "[" + std::to_string(i) + "]", secret, leaf);
  } else if (!value.isNull()) {
    leaf(path, value, secret);
  }
}

}  // namespace

std::string withoutSecrets(std::string_view text) {
  constexpr std::string_view kKey = "ctk_";
  std::string out;
  while (!text.empty()) {
    const std::size_t key = text.find(kKey);
    const std::size_t scheme = text.find("://");
    const std::size_t at = std::min(key, scheme);
    if (at == std::string_view::npos) break;
    if (at == key) {
      out.append(text.substr(0, at)).append(kCut);
      text.remove_prefix(at);
      text.remove_prefix(std::min(text.size(), text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")));
      continue;
    }
    const std::size_t host = at + 3;
    out.append(text.substr(0, host));
    text.remove_prefix(host);
    const std::size_t end = std::min(text.size(), text.find_first_of("/?# \t\"'"));
    if (const std::size_t user = text.substr(0, end).rfind('@'); user != std::string_view::npos) {
      out.append(kCut);
      text.remove_prefix(user);
    }
  }
  return out.append(text);
}

std::vector<std::string> changesBetween(const Value& before, const Value& after) {
  Leaves leaves;
  std::map<std::string, Value> old;
  flatten(before, "", false, [&](const std::string& path, const Value& value, bool secret) {
    leaves[path] = {shown(value), "-", true, secret};
    old[path] = value;
  });
  flatten(after, "", false, [&](const std::string& path, const Value& value, bool secret) {
    Leaf& leaf = leaves[path];
    const auto was = old.find(path);
    leaf.differs = was == old.end() || !(was->second == value);
    leaf.after = shown(value);
    leaf.secret = secret;
  });
  std::vector<std::string> texts;
  std::size_t more = 0;
  const auto side = [](const Leaf& leaf, const std::string& text) { return leaf.secret && text != "-" ? std::string(kCut) : text; };
  for (const auto& [path, leaf] : leaves) {
    if (!leaf.differs) continue;
    if (texts.size() + 1 >= kMostChanges) {
      ++more;
      continue;
    }
    texts.push_back(cleanText(withoutSecrets(path), kMostValue) + ": " + side(leaf, leaf.before) + " -> " + side(leaf, leaf.after));
  }
  if (more > 0) texts.push_back("and " + std::to_string(more) + " more");
  return texts;
}

}  // namespace coterie::audit
