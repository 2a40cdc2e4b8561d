#include "model/value.h"

#include <algorithm>

namespace coterie {

std::string_view Value::typeName() const {
  constexpr std::string_view names[] = {"nothing", "true/false", "a whole number", "a number", "text", "a list", "a map"};
  return names[data_.index()];
}

const Value* Value::find(std::string_view key) const {
  const Map* map = asMap();
  if (map == nullptr) return nullptr;
  const auto found = std::find_if(map->begin(), map->end(), [&](const Member& m) { return m.first == key; });
  return found == map->end() ? nullptr : &found->second;
}

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

Value& Value::set(std::string_view key, Value value) {
  if (isNull()) data_ = Map{};
  if (Value* present = find(key)) return *present = std::move(value);
  return asMap()->emplace_back(std::string(key), std::move(value)).second;
}

void Value::erase(std::string_view key) {
  if (Map* map = asMap()) std::erase_if(*map, [&](const Member& m) { return m.first == key; });
}

void Value::push(Value value) {
  if (isNull()) data_ = List{};
  asList()->push_back(std::move(value));
}

bool operator==(const Value& a, const Value& b) {
  const Value::Map* left = a.asMap();
  const Value::Map* right = b.asMap();
  if (left == nullptr || right == nullptr) return a.data_ == b.data_;
  return left->size() == right->size() && std::all_of(left->begin(), left->end(), [&](const Value::Member& m) {
           const Value* other = b.find(m.first);
           return other != nullptr && *other == m.second;
         });
}

}  // namespace coterie
