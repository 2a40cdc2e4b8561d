#include "audit/line.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "model/value.h"
#include "objects/quantity.h"
#include "text/text.h"

namespace coterie::audit {

namespace {

constexpr std::string_view kHashMember = ",\"hash\":\"";
constexpr std::size_t kTail = kHashMember.size() + kHashDigits + 2;  // and "}

template <typename Enum>
using Names = std::vector<std::pair<Enum, std::string_view>>;

const Names<Outcome>& outcomes() {
  static const Names<Outcome> kNames{
      {Outcome::Begun, "begun"}, {Outcome::Done, "done"}, {Outcome::Failed, "failed"}, {Outcome::Refused, "refused"}, {Outcome::Noted, "noted"}};
  return kNames;
}
const Names<Through>& ways() {
  static const Names<Through> kNames{{Through::Server, "server"}, {Through::Admin, "admin"}, {Through::Gateway, "gateway"}};
  return kNames;
}
const Names<Actor::Kind>& actorKinds() {
  static const Names<Actor::Kind> kNames{
      {Actor::Kind::Server, "server"}, {Actor::Kind::Key, "key"}, {Actor::Kind::User, "user"}, {Actor::Kind::Source, "source"}};
  return kNames;
}

template <typename Enum>
std::string_view nameOf(const Names<Enum>& names, Enum wanted) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& one) { return one.first == wanted; });
  return found == names.end() ? std::string_view() : found->second;
}
template <typename Enum>
std::optional<Enum> named(const Names<Enum>& names, std::string_view wanted) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& one) { return one.second == wanted; });
  return found == names.end() ? std::nullopt : std::optional(found->first);
}

bool isHash(std::string_view text) {
  return text.size() == kHashDigits && std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string sha256(std::string_view first, std::string_view second) {
  std::string bytes(first);
  bytes.append(second);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  // Without a hash there is no chain, and nothing that could be said instead.
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1) std::abort();
  std::string hex;
  hex.reserve(kHashDigits);
  for (unsigned i = 0; i < length; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4U];
    hex += "0123456789abcdef"[digest[i] & 15U];
  }
  return hex;
}

Value valueOf(const Actor& actor) {
  Value value = Value::emptyMap();
  value.set("kind", nameOf(actorKinds(), actor.kind));
  if (!actor.id.empty()) value.set("id", cleanText(actor.id));
  if (!actor.tenant.empty()) value.set("tenant", cleanText(actor.tenant.value));
  if (actor.role) value.set("role", roleName(*actor.role));
  return value;
}

Value valueOf(std::uint64_t sequence, const Entry& entry) {
  Value value = Value::emptyMap();
  value.set("seq", static_cast<std::int64_t>(sequence));
  value.set("time", objects::timeText(entry.time.micros));
  value.set("through", nameOf(ways(), entry.through));
  value.set("actor", valueOf(entry.actor));
  const auto text = [&](std::string_view name, const std::string& content) {
    if (!content.empty()) value.set(name, cleanText(content));
  };
  text("verb", entry.verb);
  text("kind", entry.kind);
  text("object", entry.object);
  text("tenant", entry.tenant.value);
  value.set("result", nameOf(outcomes(), entry.outcome));
  text("reason", entry.reason);
  if (entry.of != 0) value.set("of", static_cast<std::int64_t>(entry.of));
  if (entry.count != 1) value.set("count", entry.count);
  if (entry.since.micros != 0) value.set("since", objects::timeText(entry.since.micros));
  Value changes = Value::emptyList();
  for (const std::string& change : entry.changes) {
    if (changes.asList()->size() < kMostChanges) changes.push(cleanText(change));
  }
  if (!entry.changes.empty()) value.set("changes", std::move(changes));
  if (entry.begins) {
    value.set("begins", Value(Value::Map{{"format", kFormat}, {"file", entry.begins->file}, {"after", entry.begins->after}}));
  }
  return value;
}

Error noLine(const std::string& why) { return {Code::InvalidArgument, "NoAuditLine", why}; }

// Members as they are read: what is of another type is as if it were not there, and so does not print as the same bytes again.
std::string textIn(const Value& value, std::string_view name) {
  const Value* member = value.find(name);
  const std::string* text = member == nullptr ? nullptr : member->asString();
  return text == nullptr ? std::string() : *text;
}
std::int64_t numberIn(const Value& value, std::string_view name, std::int64_t otherwise) {
  const Value* member = value.find(name);
  const std::int64_t* number = member == nullptr ? nullptr : member->asInt();
  return number == nullptr ? otherwise : *number;
}
WallTime timeIn(const Value& value, std::string_view name) { return {objects::parseTime(textIn(value, name)).value_or(0)}; }

std::optional<Entry> entryOf(const Value& value) {
  const Value* actor = value.find("actor");
  const auto through = named(ways(), textIn(value, "through"));
  const auto outcome = named(outcomes(), textIn(value, "result"));
  const auto kind = actor == nullptr ? std::nullopt : named(actorKinds(), textIn(*actor, "kind"));
  if (!through || !outcome || !kind) return std::nullopt;
  Entry entry;
  entry.time = timeIn(value, "time");
  entry.through = *through;
  entry.actor = {*kind, textIn(*actor, "id"), TenantName(textIn(*actor, "tenant")), roleNamed(textIn(*actor, "role"))};
  entry.verb = textIn(value, "verb");
  entry.kind = textIn(value, "kind");
  entry.object = textIn(value, "object");
  entry.tenant = TenantName(textIn(value, "tenant"));
  entry.outcome = *outcome;
  entry.reason = textIn(value, "reason");
  entry.of = static_cast<std::uint64_t>(std::max<std::int64_t>(0, numberIn(value, "of", 0)));
  entry.count = numberIn(value, "count", 1);
  entry.since = timeIn(value, "since");
  if (const Value* changes = value.find("changes"); changes != nullptr && changes->asList() != nullptr) {
    for (const Value& change : *changes->asList()) entry.changes.push_back(change.asString() == nullptr ? std::string() : *change.asString());
  }
  if (const Value* begins = value.find("begins"); begins != nullptr && begins->asMap() != nullptr) {
    if (numberIn(*begins, "format", 0) != kFormat || !isHash(textIn(*begins, "after"))) return std::nullopt;
    entry.begins = Begins{numberIn(*begins, "file", 0), textIn(*begins, "after")};
  }
  return entry;
}

// The line's text as it is without its hash; empty: it does not end with one.
std::string bodyOf(std::string_view text) {
  if (text.size() <= kTail) return {};
  const std::string_view tail = text.substr(text.size() - kTail);
  if (tail.substr(0, kHashMember.size()) != kHashMember || tail.substr(kTail - 2) != "\"}") return {};
  if (!isHash(tail.substr(kHashMember.size(), kHashDigits))) return {};
  return std::string(text.substr(0, text.size() - kTail)) + "}";
}

// The bytes of the character that begins at `at`; 0: it is none.
std::size_t characterAt(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  const bool second = first == 0xC2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0;  // control characters, too
  const bool printable = first >= 0x20 && first != 0x7F && !second;
  return printable && at + length <= text.size() && text::firstBadUtf8Line(text.substr(at, length)) == 0 ? length : 0;
}

}  // namespace

std::string cleanText(std::string_view text, std::size_t most) {
  constexpr std::string_view kMore = "...";
  std::string out;
  std::size_t fits = 0;  // of out, so that kMore finds room behind it
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = characterAt(text, at);
    if (out.size() + std::max<std::size_t>(length, 1) > most) return out.substr(0, fits).append(kMore);
    length == 0 ? out.append("?") : out.append(text.substr(at, length));
    at += std::max<std::size_t>(length, 1);
    if (out.size() + kMore.size() <= most) fits = out.size();
  }
  return out;
}

std::string hashAfter(std::string_view before, std::string_view text) {
  const std::string body = bodyOf(text);
  return body.empty() ? std::string() : sha256(before, body);
}

Sealed encode(std::uint64_t sequence, const Entry& entry, std::string_view before) {
  std::string text = text::printJson(valueOf(sequence, entry));
  std::string hash = sha256(before, text);
  text.pop_back();
  text.append(kHashMember).append(hash).append("\"}");
  return {std::move(text), std::move(hash)};
}

Result<Line> decode(std::string_view text) {
  if (text.size() >= kMostLine) return noLine("it is longer than any line of an audit log");
  const std::string body = bodyOf(text);
  if (body.empty()) return noLine("it does not end with a hash");
  text::Limits limits;
  limits.depth = 4;
  const auto value = text::parseJson(body, limits);
  if (!value.ok()) return noLine(value.error().message);
  Line line;
  const std::int64_t sequence = numberIn(*value, "seq", 0);
  if (sequence < 1 || static_cast<std::uint64_t>(sequence) > kMostSequence) return noLine("it has no number");
  line.sequence = static_cast<std::uint64_t>(sequence);
  auto entry = entryOf(*value);
  if (!entry) return noLine("it does not say who did what, and how it ended");
  line.entry = std::move(*entry);
  if (text::printJson(valueOf(line.sequence, line.entry)) != body) return noLine("it is not written as this log writes its lines");
  line.hash = std::string(text.substr(text.size() - kHashDigits - 2, kHashDigits));
  return line;
}

std::string_view outcomeName(Outcome outcome) { return nameOf(outcomes(), outcome); }
std::string_view throughName(Through through) { return nameOf(ways(), through); }

std::string actorText(const Actor& actor) {
  switch (actor.kind) {
    case Actor::Kind::Server: return "the server";
    case Actor::Kind::Key: return "key " + actor.id;
    case Actor::Kind::User: return "user " + actor.id;
    case Actor::Kind::Source: break;
  }
  return actor.id;
}

}  // namespace coterie::audit
