#include "objects/fields.h"

#include <algorithm>

#include "objects/names.h"

namespace coterie::objects {

namespace {
std::string trimmedNumber(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}
}  // namespace

Fields::Fields(const Value* value, std::string path, int parentLine, Faults& faults)
    : value_(value), path_(std::move(path)), line_(value != nullptr && value->line > 0 ? value->line : parentLine), faults_(&faults) {
  if (value == nullptr || value->isNull()) return;
  map_ = value->asMap();
  if (map_ == nullptr) faults.push_back({path_, line_, "wanted a map of fields, found " + std::string(value->typeName())});
}

const Value* Fields::find(std::string_view name) {
  known_.push_back(name);
  const Value* member = map_ != nullptr ? value_->find(name) : nullptr;
  return member != nullptr && !member->isNull() ? member : nullptr;
}

const Value* Fields::require(std::string_view name, std::string_view what) {
  const Value* member = find(name);
  const bool wrongType = value_ != nullptr && !value_->isNull() && map_ == nullptr;  // said already
  if (member == nullptr && !wrongType) fault(name, "missing: " + std::string(what));
  return member;
}

std::optional<std::string> Fields::text(std::string_view name) {
  const Value* member = find(name);
  if (member == nullptr) return std::nullopt;
  if (const std::string* s = member->asString()) return *s;
  const bool quotable = member->asInt() != nullptr || member->asDouble() != nullptr || member->asBool() != nullptr;
  fault(name, "wanted text, found " + std::string(member->typeName()) + (quotable ? ": quote it" : ""));
  return std::nullopt;
}

std::optional<std::int64_t> Fields::whole(std::string_view name, Range range) {
  const Value* member = find(name);
  if (member == nullptr) return std::nullopt;
  const std::string wanted = "wanted a whole number from " + std::to_string(range.low) + " to " + std::to_string(range.high) + ", found ";
  const std::int64_t* number = member->asInt();
  if (number == nullptr) {
    fault(name, wanted + std::string(member->typeName()));
    return std::nullopt;
  }
  if (*number < range.low || *number > range.high) {
    fault(name, wanted + std::to_string(*number));
    return std::nullopt;
  }
  return *number;
}

std::optional<double> Fields::number(std::string_view name, double low, double high) {
  const Value* member = find(name);
  if (member == nullptr) return std::nullopt;
  const std::string wanted = "wanted a number from " + trimmedNumber(low) + " to " + trimmedNumber(high) + ", found ";
  double number = 0;
  if (const std::int64_t* i = member->asInt()) {
    number = static_cast<double>(*i);
  } else if (const double* d = member->asDouble()) {
    number = *d;
  } else {
    fault(name, wanted + std::string(member->typeName()));
    return std::nullopt;
  }
  if (!(number >= low && number <= high)) {
    fault(name, wanted + trimmedNumber(number));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> Fields::truth(std::string_view name) {
  const Value* member = find(name);
  if (member == nullptr) return std::nullopt;
  if (const bool* truth = member->asBool()) return *truth;
  fault(name, "wanted true or false, found " + std::string(member->typeName()));
  return std::nullopt;
}

const Value::List* Fields::list(std::string_view name) {
  const Value* member = find(name);
  if (member == nullptr) return nullptr;
  if (member->asList() == nullptr) fault(name, "wanted a list, found " + std::string(member->typeName()));
  return member->asList();
}

Fields Fields::map(std::string_view name) {
  const Value* member = find(name);
  return Fields(member, pathOf(name), line_, *faults_);
}

void Fields::fault(std::string_view name, std::string message) { faults_->push_back({pathOf(name), lineOf(name), std::move(message)}); }

int Fields::lineOf(std::string_view name) const {
  const Value* member = map_ != nullptr ? value_->find(name) : nullptr;
  return member != nullptr && member->line > 0 ? member->line : line_;
}

void Fields::finish() {
  if (map_ == nullptr) return;
  constexpr int kMostListed = 20;  // a hostile map has a million of them
  int unknown = 0;
  for (const auto& [key, member] : *map_) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    if (++unknown > kMostListed) {
      faults_->push_back({path_, line_, "more than " + std::to_string(kMostListed) + " unknown fields; the rest is not listed"});
      return;
    }
    std::string message = "unknown field";
    if (const std::optional<std::string> near = nearest(key, known_)) message += "; did you mean " + *near + "?";
    faults_->push_back({pathOf(key.size() > 100 ? key.substr(0, 100) + "..." : key), member.line > 0 ? member.line : line_, std::move(message)});
  }
}

}  // namespace coterie::objects
