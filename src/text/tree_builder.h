// Builds a Value from parse events and watches the limits: what the YAML and the JSON parser have in common.
//
// Open maps and lists lie on a stack; a finished one moves into its parent. Duplicate keys are faults by path (a hash set per large map: no quadratic
// work on hostile input). Thread-compatible.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/fault.h"
#include "model/value.h"
#include "text/text.h"

namespace coterie::text {

class TreeBuilder {
 public:
  explicit TreeBuilder(const Limits& limits) : limits_(limits) {}

  // False: over a limit; a fault says which. The parse ends.
  [[nodiscard]] bool open(Value container, int line) {
    if (static_cast<int>(stack_.size()) >= limits_.depth) {
      faults.push_back({path(), line, "nested deeper than " + std::to_string(limits_.depth) + " levels"});
      return false;
    }
    container.line = line;
    stack_.push_back({std::move(container), {}, {}, 0});
    return count(line);
  }
  void close() {
    Value done = std::move(stack_.back().container);
    stack_.pop_back();
    place(std::move(done));
  }
  void key(std::string text, int line) {
    Frame& top = stack_.back();
    const auto [seen, fresh] = top.seen.emplace(text, line);
    top.key = std::move(text);
    top.keyLine = line;
    if (!fresh) faults.push_back({path(), line, "the key is there twice; first on line " + std::to_string(seen->second)});
  }
  [[nodiscard]] bool scalar(Value value, int line) {
    value.line = line;
    place(std::move(value));
    return count(line);
  }
  // The next event in a map is a key.
  [[nodiscard]] bool wantsKey() const { return !stack_.empty() && stack_.back().container.asMap() != nullptr && !stack_.back().key; }
  // Line of the innermost key whose value is being built; 0: none.
  [[nodiscard]] int keyLine() const { return stack_.empty() ? 0 : stack_.back().keyLine; }
  [[nodiscard]] std::string path() const {
    std::string result;
    for (const Frame& frame : stack_) {
      if (const Value::List* list = frame.container.asList()) {
        result += "[" + std::to_string(list->size()) + "]";
      } else if (frame.key) {
        result += (result.empty() ? "" : ".") + *frame.key;
      }
    }
    return result;
  }

  std::optional<Value> root;
  Faults faults;

 private:
  struct Frame {
    Value container;
    std::optional<std::string> key;  // of the member being built
    std::unordered_map<std::string, int> seen;
    int keyLine{0};
  };

  void place(Value value) {
    if (stack_.empty()) {
      root = std::move(value);
      return;
    }
    Frame& top = stack_.back();
    if (Value::List* list = top.container.asList()) {
      list->push_back(std::move(value));
      return;
    }
    value.line = top.keyLine;
    top.container.asMap()->emplace_back(std::move(*top.key), std::move(value));
    top.key.reset();
  }
  [[nodiscard]] bool count(int line) {
    if (++values_ <= limits_.values) return true;
    faults.push_back({"", line, "more than " + std::to_string(limits_.values) + " values in one text"});
    return false;
  }

  Limits limits_;
  std::vector<Frame> stack_;
  std::size_t values_{0};
};

}  // namespace coterie::text
