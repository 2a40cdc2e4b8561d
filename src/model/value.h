// A generic tree of values, as YAML and JSON have them, with the place each came from, so that a fault can be shown by path and line.
//
// Maps keep the order in which keys were written. Text adapters (src/text) parse and print it; typed objects decode from it (objects/decode.h).
// Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace coterie {

class Value {
 public:
  using List = std::vector<Value>;
  using Member = std::pair<std::string, Value>;
  using Map = std::vector<Member>;

  Value() = default;
  Value(bool b) : data_(b) {}                           // NOLINT: implicit by design
  Value(int i) : data_(std::int64_t{i}) {}              // NOLINT
  Value(std::int64_t i) : data_(i) {}                   // NOLINT
  Value(double d) : data_(d) {}                         // NOLINT
  Value(const char* s) : data_(std::string(s)) {}       // NOLINT
  Value(std::string s) : data_(std::move(s)) {}         // NOLINT
  Value(std::string_view s) : data_(std::string(s)) {}  // NOLINT
  Value(List list) : data_(std::move(list)) {}          // NOLINT
  Value(Map map) : data_(std::move(map)) {}             // NOLINT
  [[nodiscard]] static Value emptyMap() { return Value(Map{}); }
  [[nodiscard]] static Value emptyList() { return Value(List{}); }

  [[nodiscard]] bool isNull() const { return std::holds_alternative<std::monostate>(data_); }
  [[nodiscard]] const bool* asBool() const { return std::get_if<bool>(&data_); }
  [[nodiscard]] const std::int64_t* asInt() const { return std::get_if<std::int64_t>(&data_); }
  [[nodiscard]] const double* asDouble() const { return std::get_if<double>(&data_); }
  [[nodiscard]] const std::string* asString() const { return std::get_if<std::string>(&data_); }
  [[nodiscard]] const List* asList() const { return std::get_if<List>(&data_); }
  [[nodiscard]] const Map* asMap() const { return std::get_if<Map>(&data_); }
  [[nodiscard]] List* asList() { return std::get_if<List>(&data_); }
  [[nodiscard]] Map* asMap() { return std::get_if<Map>(&data_); }
  [[nodiscard]] std::string_view typeName() const;  // "number", "text", ...

  // The member of a map, or nullptr (also when this is no map). O(members).
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] Value* find(std::string_view key);
  // Adds or replaces a member; a null value becomes a map first.
  Value& set(std::string_view key, Value value);
  void erase(std::string_view key);
  void push(Value value);  // a null value becomes a list first

  int line{0};  // 1-based; 0: unknown

  // Equality ignores lines and the order of map members.
  friend bool operator==(const Value& a, const Value& b);

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Map> data_;
};

}  // namespace coterie
