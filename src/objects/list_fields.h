// Lists of maps as several kinds of documents have them ("tenants", "groups"): each must be there, hold something, and name its items once. Every
// fault carries path, line and fix. Pure. Thread-compatible.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "objects/fields.h"

namespace coterie::objects {

// "groups[2]"
[[nodiscard]] std::string itemPath(const Fields& fields, std::string_view list, std::size_t index);

// Hands over each map of a list that must be there and hold something; finishes it afterwards. what: "the teams that share the machine, each with a
// name".
void eachItem(Fields& fields, std::string_view name, std::string_view what, std::size_t most,
              const std::function<void(Fields& item, int line)>& read);

// Names of one kind, each given once.
class UniqueNames {
 public:
  using Check = std::optional<std::string> (*)(std::string_view name);  // what is wrong with it, or nothing
  // item.name, if it is there, well-formed and new; else a fault and "".
  [[nodiscard]] std::string read(Fields& item, std::string_view what, int line, Check check);

 private:
  std::map<std::string, int> lines_;
};

// NAME or NAMESPACE/NAME.
[[nodiscard]] std::optional<std::string> groupNameFault(std::string_view name);
[[nodiscard]] std::optional<std::string> tenantNameFault(std::string_view name);

}  // namespace coterie::objects
