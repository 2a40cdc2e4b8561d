#include "http/api_key.h"

namespace coterie::http {

namespace {

struct Shown {
  int authorizations{0};
  int keys{0};
};

Shown count(const RequestHead& head) {
  Shown shown;
  for (const Header& header : head.headers) {
    shown.authorizations += equalsIgnoreCase(header.name, "Authorization") ? 1 : 0;
    shown.keys += equalsIgnoreCase(header.name, "X-API-Key") ? 1 : 0;
  }
  return shown;
}

std::string_view valueOf(const RequestHead& head, std::string_view name) {
  const std::string_view* value = head.find(name);
  return value == nullptr ? std::string_view{} : *value;
}

}  // namespace

bool hasSeveralKeys(const RequestHead& head) {
  const Shown shown = count(head);
  return shown.authorizations > 1 || shown.keys > 1;
}

bool showsKey(const RequestHead& head) {
  const Shown shown = count(head);
  return shown.authorizations > 0 || shown.keys > 0;
}

std::string_view keyOf(const RequestHead& head) {
  constexpr std::string_view kScheme = "Bearer ";
  std::string_view value = valueOf(head, "Authorization");
  if (value.size() > kScheme.size() && equalsIgnoreCase(value.substr(0, kScheme.size()), kScheme)) {
    value.remove_prefix(kScheme.size());
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    return value;
  }
  return valueOf(head, "X-API-Key");
}

}  // namespace coterie::http
