// One line of the audit log: who did what to what, and how it ended; and the chain that ties each line to the one before.
//
// A line is one JSON object. Its members, in this order: seq, time, through, actor, verb, kind, object, tenant, result, reason, of, count, since,
// changes, begins, hash; those without a value are left out. hash is the last one: SHA-256, in hex, over the hash of the line before (64 hex digits)
// and the line's own text as it is without that member. Each file begins with a line of its own that carries `begins`: format, number of the file,
// and the hash of the last line of the file before (64 zeros before the first). Text is cut to kMostText bytes and made printable UTF-8, so a line is
// below kMostLine bytes; decode() takes no longer one. Reading: bytes are untrusted; what decode() accepts, encode() prints as the same bytes.
// O(bytes). Pure but for OpenSSL. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/ids.h"
#include "model/role.h"

namespace coterie::audit {

inline constexpr std::size_t kMostText = 256;       // bytes of one text
inline constexpr std::size_t kMostChanges = 24;     // of one line
inline constexpr std::size_t kMostLine = 64 << 10;  // bytes, end of line included
inline constexpr std::uint64_t kMostSequence = std::uint64_t{1} << 53;
inline constexpr int kFormat = 1;
inline constexpr std::size_t kHashDigits = 64;
[[nodiscard]] inline std::string noHash() { return std::string(kHashDigits, '0'); }

struct Actor {
  enum class Kind : std::uint8_t {
    Server,  // the server itself: it starts, it applies the manifests that it was started with
    Key,     // id: the key's; tenant and role are the key's
    User,    // id: the user's number at the admin socket
    Source,  // nobody is known; id: where it came from
  };
  Kind kind{Kind::Server};
  std::string id;
  TenantName tenant;
  std::optional<Role> role;
  friend bool operator==(const Actor&, const Actor&) = default;
};

enum class Through : std::uint8_t { Server, Admin, Gateway };

enum class Outcome : std::uint8_t {
  Begun,    // checked, permitted, and about to be made: written before the change
  Done,     // of: the line that began it
  Failed,   // of, reason: nothing was changed
  Refused,  // 401 or 403; count: how often since `since`
  Noted,    // about the log or the server itself
};

// Where a file begins.
struct Begins {
  std::int64_t file{1};
  std::string after;  // 64 hex digits
  friend bool operator==(const Begins&, const Begins&) = default;
};

struct Entry {
  WallTime time;
  Through through{Through::Server};
  Actor actor;
  std::string verb;  // "create", as tenancy/authorization.h has it; "start", "cut" of notes
  std::string kind;  // "ModelService"
  std::string object;
  TenantName tenant;  // whose line this is; empty: the platform's alone
  Outcome outcome{Outcome::Noted};
  std::string reason;
  std::uint64_t of{0};    // 0: none
  std::int64_t count{1};  // of Refused
  WallTime since;         // the first of them; 0: the time
  std::vector<std::string> changes;
  std::optional<Begins> begins;
  friend bool operator==(const Entry&, const Entry&) = default;
};

struct Line {
  std::uint64_t sequence{0};
  Entry entry;
  std::string hash;  // as the line says
};

// The line, without an end of line, and its hash.
struct Sealed {
  std::string text;
  std::string hash;
};
[[nodiscard]] Sealed encode(std::uint64_t sequence, const Entry& entry, std::string_view before);
// InvalidArgument/NoAuditLine. Says nothing about the chain.
[[nodiscard]] Result<Line> decode(std::string_view text);
// What the hash of this line must be after that one; empty if the line has no hash in its place.
[[nodiscard]] std::string hashAfter(std::string_view before, std::string_view text);

// Printable UTF-8 of at most kMostText bytes: control characters and broken bytes become '?', what is cut off becomes "...".
[[nodiscard]] std::string cleanText(std::string_view text, std::size_t most = kMostText);

[[nodiscard]] std::string_view outcomeName(Outcome outcome);
[[nodiscard]] std::string_view throughName(Through through);
// "key 4fR2xQ9LmT0a", "user 0", "192.0.2.7", "the server"
[[nodiscard]] std::string actorText(const Actor& actor);

}  // namespace coterie::audit
