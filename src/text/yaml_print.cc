#include <algorithm>
#include <cmath>
#include <initializer_list>

#include <fmt/format.h>

#include "text/text.h"
#include "text/yaml_scalar.h"

namespace coterie::text {

namespace {
enum class Place : std::uint8_t { Block, Flow };

bool isPlainSafe(std::string_view text, Place place) {
  if (text.empty() || text.back() == ' ' || text.back() == ':') return false;
  const auto alnum = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  if (!alnum(text[0]) && text[0] != '_' && text[0] != '/') return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (alnum(c) || c == '_' || c == '.' || c == '/' || c == '-') continue;
    if (c == ' ' && text[i - 1] != ' ') continue;
    if (c == ':' && place == Place::Block && text[i + 1] != ' ') continue;
    return false;
  }
  const bool time = text[0] >= '0' && text[0] <= '9' && text.find(':') != std::string_view::npos;  // YAML 1.1 reads base 60 and dates
  const std::initializer_list<std::string_view> oldBooleans = {"y",  "Y",  "n",  "N",  "yes", "Yes", "YES", "no",
                                                               "No", "NO", "on", "On", "ON",  "off", "Off", "OFF"};
  if (time || std::find(oldBooleans.begin(), oldBooleans.end(), text) != oldBooleans.end()) return false;
  const PlainScalar read = readPlainScalar(text);
  return read.fault.empty() && read.value.asString() != nullptr;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const auto third = i + 2 < text.size() ? static_cast<unsigned char>(text[i + 2]) : 0;
    if (byte == '"' || byte == '\\') {
      out += '\\', out += text[i];
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xc2 && next >= 0x80 && next <= 0xa0) {  // C1 controls (next line among them) and no-break space
      out += fmt::format("\\x{:02x}", next), i += 1;
    } else if (byte == 0xe2 && next == 0x80 && (third == 0xa8 || third == 0xa9)) {  // line and paragraph separator
      out += third == 0xa8 ? "\\L" : "\\P", i += 2;
    } else if (byte == 0xef && next == 0xbb && third == 0xbf) {  // byte order mark
      out += "\\ufeff", i += 2;
    } else {
      out += text[i];
    }
  }
  return out + "\"";
}

std::string textOf(std::string_view text, Place place) { return isPlainSafe(text, place) ? std::string(text) : quoted(text); }

bool isScalar(const Value& value) { return value.asMap() == nullptr && value.asList() == nullptr; }

std::string scalar(const Value& value, Place place) {
  if (const std::string* s = value.asString()) return textOf(*s, place);
  return printJson(value);
}

void print(std::string& out, const Value& value, int indent);

// What stands after "key:" or "-", newline included.
void printAfter(std::string& out, const Value& value, int indent) {
  if (isScalar(value)) {
    out += ' ' + scalar(value, Place::Block) + '\n';
  } else if (const Value::List* list = value.asList(); list != nullptr && std::all_of(list->begin(), list->end(), isScalar)) {
    out += " [";
    for (std::size_t i = 0; i < list->size(); ++i) out += (i == 0 ? "" : ", ") + scalar((*list)[i], Place::Flow);
    out += "]\n";
  } else if (value.asMap() != nullptr && value.asMap()->empty()) {
    out += " {}\n";
  } else {
    out += '\n';
    print(out, value, indent);
  }
}

void print(std::string& out, const Value& value, int indent) {
  const std::string space(static_cast<std::size_t>(indent), ' ');
  if (const Value::Map* map = value.asMap()) {
    for (const auto& [key, member] : *map) {
      out += space + textOf(key, Place::Flow) + ':';
      printAfter(out, member, indent + 2);
    }
  } else if (const Value::List* list = value.asList()) {
    for (const Value& item : *list) {
      out += space + '-';
      printAfter(out, item, indent + 2);
    }
  }
}
}  // namespace

std::string printYaml(const Value& value) {
  std::string out;
  const bool block = (value.asMap() != nullptr && !value.asMap()->empty()) ||
                     (value.asList() != nullptr && !std::all_of(value.asList()->begin(), value.asList()->end(), isScalar));
  if (block) {
    print(out, value, 0);
  } else {
    printAfter(out, value, 0);
    out.erase(0, 1);
  }
  return out;
}

}  // namespace coterie::text
