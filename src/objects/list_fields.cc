#include "objects/list_fields.h"

#include "objects/names.h"

namespace coterie::objects {

std::string itemPath(const Fields& fields, std::string_view list, std::size_t index) {
  return fields.pathOf(list) + "[" + std::to_string(index) + "]";
}

void eachItem(Fields& fields, std::string_view name, std::string_view what, std::size_t most,
              const std::function<void(Fields& item, int line)>& read) {
  if (fields.require(name, what) == nullptr) return;
  const Value::List* list = fields.list(name);
  if (list == nullptr) return;
  if (list->empty()) return fields.fault(name, "is empty: wanted " + std::string(what));
  if (list->size() > most) return fields.fault(name, "at most " + std::to_string(most) + " of them");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Value& value = (*list)[i];
    const int line = value.line > 0 ? value.line : fields.lineOf(name);
    if (value.isNull()) {
      fields.faultAt(itemPath(fields, name, i), line, "holds nothing: wanted " + std::string(what));
      continue;
    }
    Fields item(&value, itemPath(fields, name, i), line, fields.faults());
    if (!item.present()) continue;
    read(item, line);
    item.finish();
  }
}

std::string UniqueNames::read(Fields& item, std::string_view what, int line, Check check) {
  if (item.require("name", what) == nullptr) return {};
  const std::optional<std::string> name = item.text("name");
  if (!name) return {};
  if (const auto wrong = check(*name)) return item.fault("name", *wrong), std::string{};
  const auto [first, fresh] = lines_.try_emplace(*name, line);
  if (!fresh) item.fault("name", *name + " is there twice; first on line " + std::to_string(first->second) + ": give this one another name");
  return *name;
}

std::optional<std::string> groupNameFault(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash != std::string_view::npos) {
    if (const auto fault = labelNameFault(name.substr(0, slash))) return "the namespace " + *fault;
    name.remove_prefix(slash + 1);
  }
  return tenantNameFault(name);
}

std::optional<std::string> tenantNameFault(std::string_view name) {
  const auto wrong = labelNameFault(name);
  return wrong ? std::optional("the name " + *wrong) : std::nullopt;
}

}  // namespace coterie::objects
