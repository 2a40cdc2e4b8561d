#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include "text/text.h"
#include "text/tree_builder.h"

namespace coterie::text {

namespace {
// A read-only stream over a string_view that counts lines. A NUL byte within the text is no end: RapidJSON would take it for one, so the caller
// refuses it before.
class LineStream {
 public:
  using Ch = char;
  explicit LineStream(std::string_view text) : text_(text) {}
  [[nodiscard]] Ch Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  Ch Take() {
    const Ch c = Peek();
    if (at_ < text_.size()) ++at_;
    if (c == '\n') ++line_;
    return c;
  }
  [[nodiscard]] std::size_t Tell() const { return at_; }
  Ch* PutBegin() { return nullptr; }
  void Put(Ch) {}
  void Flush() {}
  std::size_t PutEnd(Ch*) { return 0; }
  [[nodiscard]] int line() const { return line_; }

 private:
  std::string_view text_;
  std::size_t at_{0};
  int line_{1};
};

// A number as JSON's grammar allows it: int64 if it is whole and fits, else double; nothing if it is beyond double.
std::optional<Value> readNumber(std::string_view text) {
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, whole); error == std::errc{} && stop == end) return Value(whole);
  double number = 0;
  if (std::from_chars(text.data(), end, number).ec == std::errc{}) return Value(number);
  number = std::strtod(std::string(text).c_str(), nullptr);  // out of range: tells too large from too close to zero
  if (!std::isfinite(number)) return std::nullopt;
  return Value(number);
}

struct Handler {
  TreeBuilder& tree;
  const LineStream& stream;

  using Ch = char;
  bool Null() { return tree.scalar(Value(), stream.line()); }
  bool Bool(bool b) { return tree.scalar(Value(b), stream.line()); }
  // Numbers come as text (RapidJSON's own full-precision reader takes the logarithm of 0 in "0E50", found by the fuzzer).
  bool RawNumber(const char* s, rapidjson::SizeType length, bool) {
    const std::optional<Value> number = readNumber(std::string_view(s, length));
    if (number) return tree.scalar(*number, stream.line());
    tree.faults.push_back({tree.path(), stream.line(), "the number is too large"});
    return false;
  }
  bool Int(int) { return false; }  // the reader's interface asks for these; with numbers as text they are never called
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }
  bool String(const char* s, rapidjson::SizeType length, bool) { return tree.scalar(Value(std::string(s, length)), stream.line()); }
  bool StartObject() { return tree.open(Value::emptyMap(), stream.line()); }
  bool Key(const char* s, rapidjson::SizeType length, bool) { return tree.key(std::string(s, length), stream.line()), true; }
  bool EndObject(rapidjson::SizeType) { return tree.close(), true; }
  bool StartArray() { return tree.open(Value::emptyList(), stream.line()); }
  bool EndArray(rapidjson::SizeType) { return tree.close(), true; }
};

Error badJson(int line, const std::string& what) { return {Code::InvalidArgument, "BadJson", fmt::format("JSON, line {}: {}", line, what)}; }

void printString(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void print(std::string& out, const Value& value, int indent) {
  const auto newline = [&](int level) {
    if (indent >= 0) out += '\n', out.append(static_cast<std::size_t>(level) * 2, ' ');
  };
  const int inner = indent < 0 ? -1 : indent + 1;
  if (const Value::Map* map = value.asMap()) {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : *map) {
      if (!first) out += ',';
      first = false;
      newline(inner);
      printString(out, key);
      out += indent < 0 ? ":" : ": ";
      print(out, member, inner);
    }
    if (!map->empty()) newline(indent);
    out += '}';
  } else if (const Value::List* list = value.asList()) {
    out += '[';
    bool first = true;
    for (const Value& item : *list) {
      if (!first) out += ',';
      first = false;
      newline(inner);
      print(out, item, inner);
    }
    if (!list->empty()) newline(indent);
    out += ']';
  } else if (const std::string* s = value.asString()) {
    printString(out, *s);
  } else if (const bool* b = value.asBool()) {
    out += *b ? "true" : "false";
  } else if (const std::int64_t* i = value.asInt()) {
    out += std::to_string(*i);
  } else if (const double* d = value.asDouble(); d != nullptr && std::isfinite(*d)) {
    const std::string text = fmt::format("{}", *d);  // shortest text that reads back exactly
    out += text;
    if (text.find_first_of(".e") == std::string::npos) out += ".0";
  } else {
    out += "null";
  }
}
}  // namespace

Result<Value> parseJson(std::string_view text, const Limits& limits) {
  if (text.size() > limits.bytes) {
    return Error{Code::TooLarge, "DocumentTooLarge", fmt::format("JSON of {} bytes; the limit is {}", text.size(), limits.bytes)};
  }
  if (const int line = firstBadUtf8Line(text); line > 0) return badJson(line, "not UTF-8");
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return badJson(1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(nul), '\n')), "a NUL byte");
  }
  TreeBuilder tree(limits);
  LineStream stream(text);
  Handler handler{tree, stream};
  rapidjson::Reader reader;
  const auto outcome = reader.Parse < rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag |
                       rapidjson::kParseValidateEncodingFlag > (stream, handler);
  if (!tree.faults.empty()) {
    const Fault& fault = tree.faults.front();
    return badJson(fault.line, fault.path.empty() ? fault.message : fault.path + ": " + fault.message);
  }
  if (outcome.IsError()) return badJson(stream.line(), rapidjson::GetParseError_En(outcome.Code()));
  return std::move(*tree.root);
}

std::string printJson(const Value& value, JsonStyle style) {
  std::string out;
  print(out, value, style == JsonStyle::Compact ? -1 : 0);
  return out;
}

}  // namespace coterie::text
