#include "testing/xml_tree.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace coterie::testing {

namespace {
constexpr int kDeepest = 64;

bool isBlank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool startsName(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':'; }
bool inName(char c) { return startsName(c) || (c >= '0' && c <= '9') || c == '-' || c == '.'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<XmlElement> parse() {
    blanks();
    std::optional<XmlElement> root = element(0);
    blanks();
    if (root && at_ != text_.size()) root.reset(), say("something behind the root");
    if (!root) return Error{Code::InvalidArgument, "NotWellFormed", "byte " + std::to_string(at_) + ": " + wrong_};
    return std::move(*root);
  }

 private:
  std::nullopt_t say(std::string wrong) {
    if (wrong_.empty()) wrong_ = std::move(wrong);
    return std::nullopt;
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }
  void blanks() {
    while (isBlank(peek())) ++at_;
  }

  std::optional<std::string> name() {
    if (!startsName(peek())) return say("a name is missing");
    const std::size_t begin = at_;
    while (inName(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Behind '&'.
  bool entity(std::string& into) {
    static constexpr std::array<std::pair<std::string_view, char>, 5> kNamed{
        {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}}};
    for (const auto& [text, character] : kNamed) {
      if (take(text)) return into += character, true;
    }
    if (take("#")) {
      const std::size_t begin = at_;
      while (peek() >= '0' && peek() <= '9') ++at_;
      if (at_ > begin && take(";")) return into += '?', true;
    }
    (void)say("an unknown entity");
    return false;
  }

  // Characters up to one of `ends`.
  bool characters(std::string_view ends, std::string& into) {
    while (at_ < text_.size() && ends.find(peek()) == std::string_view::npos) {
      const char c = text_[at_++];
      const bool control = static_cast<unsigned char>(c) < 0x20 && !isBlank(c);
      if (control || c == '<') return (void)say(control ? "a control character" : "'<' in an attribute"), false;
      if (c != '&') {
        into += c;
      } else if (!entity(into)) {
        return false;
      }
    }
    return true;
  }

  bool attributes(XmlElement& into) {
    for (;;) {
      const bool apart = isBlank(peek());
      blanks();
      if (peek() == '>' || peek() == '/') return true;
      if (!apart) return (void)say("attributes are not apart"), false;
      const std::optional<std::string> key = name();
      const char quote = key && take("=") ? peek() : '\0';
      if (quote != '"' && quote != '\'') return (void)say("an attribute without a quoted value"), false;
      ++at_;
      std::string value;
      if (!characters(std::string_view(&quote, 1), value)) return false;
      if (peek() != quote) return (void)say("a quotation is open"), false;
      ++at_;
      if (!into.attributes.emplace(*key, std::move(value)).second) return (void)say("attribute " + *key + " is there twice"), false;
    }
  }

  std::optional<XmlElement> element(int depth) {
    if (depth > kDeepest) return say("nested too deep");
    if (!take("<")) return say("an element is missing");
    const std::optional<std::string> tag = name();
    if (!tag) return std::nullopt;
    XmlElement here;
    here.name = *tag;
    if (!attributes(here)) return std::nullopt;
    if (take("/>")) return here;
    if (!take(">")) return say("a tag is open");
    for (;;) {
      if (!characters("<", here.text)) return std::nullopt;
      if (take("</")) break;
      std::optional<XmlElement> child = element(depth + 1);
      if (!child) return std::nullopt;
      here.children.push_back(std::move(*child));
    }
    if (!take(*tag)) return say("</" + *tag + "> is missing");
    blanks();
    if (!take(">")) return say("</" + *tag + "> is missing");
    return here;
  }

  std::string_view text_;
  std::size_t at_{0};
  std::string wrong_;
};

void collect(const XmlElement& here, std::string_view name, std::string_view cssClass, std::vector<const XmlElement*>& found) {
  if ((name.empty() || here.name == name) && (cssClass.empty() || here.attribute("class") == cssClass)) found.push_back(&here);
  for (const XmlElement& child : here.children) collect(child, name, cssClass, found);
}
}  // namespace

std::string XmlElement::attribute(const std::string& key) const {
  const auto found = attributes.find(key);
  return found == attributes.end() ? std::string{} : found->second;
}

std::vector<const XmlElement*> XmlElement::all(std::string_view wantedName, std::string_view cssClass) const {
  std::vector<const XmlElement*> found;
  collect(*this, wantedName, cssClass, found);
  return found;
}

Result<XmlElement> parseXml(std::string_view document) { return Parser(document).parse(); }

}  // namespace coterie::testing
