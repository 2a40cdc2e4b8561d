// Reads the fields of one map of a Value tree and notes every fault by path and line.
//
// A decoder asks for the fields it knows; finish() then reports each member nobody asked for, with the nearest name that was asked for. So the schema
// is written once, in the decoder. Null counts as absent. Thread-compatible; refers to the value and the fault list, which must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/fault.h"
#include "model/value.h"

namespace coterie::objects {

struct Range {
  std::int64_t low;
  std::int64_t high;
};

class Fields {
 public:
  // value may be null (absent): then every field is absent and faults carry the parent's line. What is no map is a fault here.
  Fields(const Value* value, std::string path, int parentLine, Faults& faults);

  // The member if present and not null. Makes the name known.
  [[nodiscard]] const Value* find(std::string_view name);
  // As find; absent is a fault: "missing: <what it is for>".
  [[nodiscard]] const Value* require(std::string_view name, std::string_view what);

  // Typed; a wrong type or a value out of range is a fault and gives nothing.
  [[nodiscard]] std::optional<std::string> text(std::string_view name);
  [[nodiscard]] std::optional<std::int64_t> whole(std::string_view name, Range range);
  [[nodiscard]] std::optional<double> number(std::string_view name, double low, double high);
  [[nodiscard]] std::optional<bool> truth(std::string_view name);
  [[nodiscard]] const Value::List* list(std::string_view name);
  [[nodiscard]] Fields map(std::string_view name);

  void fault(std::string_view name, std::string message);
  void faultAt(const std::string& path, int line, std::string message) { faults_->push_back({path, line > 0 ? line : line_, std::move(message)}); }
  [[nodiscard]] std::string pathOf(std::string_view name) const { return path_.empty() ? std::string(name) : path_ + "." + std::string(name); }
  [[nodiscard]] int lineOf(std::string_view name) const;
  [[nodiscard]] bool present() const { return map_ != nullptr; }
  [[nodiscard]] const Value::Map* members() const { return map_; }
  [[nodiscard]] Faults& faults() { return *faults_; }

  void finish();

 private:
  const Value* value_;
  const Value::Map* map_{nullptr};
  std::string path_;
  int line_;
  Faults* faults_;
  std::vector<std::string_view> known_;
};

}  // namespace coterie::objects
