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

// Of an Authorization header; empty where it has another scheme.
std::string_view bearerOf(std::string_view value) {
  constexpr std::string_view kScheme = "Bearer ";
  if (value.size() <= kScheme.size() || !equalsIgnoreCase(value.substr(0, kScheme.size()), kScheme)) return {};
  value.remove_prefix(kScheme.size());
  while (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

}  // namespace

// Two that say the same are one: some clients send both.
bool hasSeveralKeys(const RequestHead& head) {
  const Shown shown = count(head);
  const std::string_view bearer = bearerOf(valueOf(head, "Authorization"));
  return shown.authorizations > 1 || shown.keys > 1 || (shown.keys == 1 && !bearer.empty() && bearer != valueOf(head, "X-API-Key"));
}

bool showsKey(const RequestHead& head) {
  const Shown shown = count(head);
  return shown.authorizations > 0 || shown.keys > 0;
}

std::string_view keyOf(const RequestHead& head) {
  const std::string_view bearer = bearerOf(valueOf(head, "Authorization"));
  return bearer.empty() ? valueOf(head, "X-API-Key") : bearer;
}

}  // namespace coterie::http
