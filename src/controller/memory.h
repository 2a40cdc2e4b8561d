// How much memory an instance needs, and its limit (in-node scheduling, "Workers: Memory").
//
// Never loaded: need = 2 x files (external data included) + 128 MB. Loaded before: need = max(load peak, steady + lanes * arena). Limit = need * 1.2,
// or what the user wrote, which must not be below the need: too little is refused before loading, not found out by the kernel. But what once loaded
// within a limit that somebody wrote is let in with it again: it ran there. After an end by lack of memory the need grows by half. Pure; integers,
// saturating.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "ports/model_files.h"

namespace coterie::controller {

struct Measurement {
  Bytes steady;
  Bytes peak;
  Bytes provenLimit{};  // the least that somebody wrote and within which it loaded; 0: none
  friend bool operator==(const Measurement&, const Measurement&) = default;
};

struct MemoryNeed {
  Bytes need;
  Bytes limit;    // of one instance
  Bytes missing;  // > 0: the user's limit is below the need by this much
  bool measured{false};
};

[[nodiscard]] Bytes estimatedNeed(const ModelFile& file);
// wanted: spec.memory; 0: none. lanes: own and loan lanes together; arena: what a lane may add; states: what sequences may add.
[[nodiscard]] MemoryNeed memoryNeed(const ModelFile& file, const std::optional<Measurement>& measured, Bytes wanted, int lanes, Bytes arena,
                                    Bytes states = Bytes(0));
// What is known after one more start: the larger of both, and the least proven limit.
[[nodiscard]] Measurement merged(const std::optional<Measurement>& before, const Measurement& now);
[[nodiscard]] std::string memoryText(Bytes bytes);  // for people: "1.2 GiB", "300 MiB"

}  // namespace coterie::controller
