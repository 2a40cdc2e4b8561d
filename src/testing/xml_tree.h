// A strict reader of small XML documents, for tests of what the product prints: what any parser must refuse, it refuses.
//
// Elements, attributes, text, the five named entities and character references; no declarations, comments, CDATA or processing instructions. Refused:
// tags that do not match, a second root, text beside the root, an attribute without quotes or there twice, '<' in an attribute, an unknown entity,
// control characters, nesting beyond 64. O(bytes). Errors: InvalidArgument/NotWellFormed (names the byte). Pure. Thread-compatible.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace coterie::testing {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // directly in it, joined
  std::vector<XmlElement> children;

  [[nodiscard]] std::string attribute(const std::string& key) const;
  // All elements below (itself included) of which `name` is "" or theirs, and whose class is `cssClass` or any ("").
  [[nodiscard]] std::vector<const XmlElement*> all(std::string_view name, std::string_view cssClass = "") const;
};
[[nodiscard]] Result<XmlElement> parseXml(std::string_view document);

}  // namespace coterie::testing
