// Which sequences of stateful models live, where their state is, and whose request is next in each.
//
// A sequence is named by (tenant, service, version, id): another tenant's id is simply unknown. Its requests run in the order they came, one at a
// time, and from the first run on only on the instance that keeps the state. A request that starts comes in order like the others and then begins
// afresh, on any instance. Never silently fresh: without a start a request is refused
//   404 SequenceUnknown   never started, ended, or idle for longer than maxIdle
//   409 SequenceLost      its instance went; remembered for maxIdle, at most maxSequences of a tenant and service (then unknown)
// and by the caps on what a tenant has of a service
//   429 SequenceLimit     maxSequences of the tenant live, or the state of all tenants' would be more than maxBytes
//   429 SequenceBacklog   maxWaiting requests wait in this sequence
// Each start has a handle of its own, by which the instance keeps the state; what is not needed any more, and that the instance cannot know of, is
// the caller's to free there (takeFreed). Complexity: run, finish O(log sequences); a start, lose and expire O(sequences). Errors: misuse (run of
// what is not next) is ignored and false. Pure: time is an argument, instants may not go back. Thread-compatible.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "dispatch/request.h"

namespace coterie::dispatch {

struct SequenceKey {
  TenantId tenant;
  ServiceId service;
  std::uint32_t version{0};
  std::string id;
  friend auto operator<=>(const SequenceKey&, const SequenceKey&) = default;
};

struct SequenceLimits {           // of a service
  std::int64_t maxSequences{64};  // of a tenant
  Bytes stateBytes{};             // of one sequence; it is kept twice, as it is and as it was before the last run
  Bytes maxBytes{64LL << 20};     // of all tenants' together
  Nanos maxIdle{Seconds(300)};    // since its last request ended
  std::int64_t maxWaiting{16};    // behind the one that runs, in one sequence
};

enum class SequenceRefusal : std::uint8_t { Unknown, Lost, Limit, Backlog };
[[nodiscard]] std::string_view sequenceRefusalName(SequenceRefusal refusal);
[[nodiscard]] Code sequenceRefusalCode(SequenceRefusal refusal);

struct SequenceRequest {
  bool start{false};
  bool end{false};
  std::uint64_t cookie{0};  // the caller's own reference
};

struct SequenceTurn {  // may be handed to the station now
  std::uint64_t cookie{0};
  bool fresh{false};                   // begins with initial state
  bool end{false};                     // its state is freed after it
  std::optional<InstanceId> instance;  // only there; none: anywhere
};

struct SequenceRun {
  std::uint64_t handle{0};  // not 0
  bool fresh{false};
  bool end{false};
  bool takesBack{false};  // begins with the state before the last run, whose outcome nobody was told
};

enum class SequenceOutcome : std::uint8_t {
  Succeeded,
  Failed,  // the state is as it was before
  Untold,  // it succeeded, and its caller was told otherwise before (a deadline, a closed connection): the next run takes it back
};

struct FreedState {
  SequenceKey key;
  InstanceId instance;
  std::uint64_t handle{0};
};

class SequenceTable {
 public:
  // None: it is accepted, and runs when turn() names it.
  [[nodiscard]] std::optional<SequenceRefusal> arrive(const SequenceKey& key, const SequenceRequest& request, const SequenceLimits& limits,
                                                      Instant now);
  // Who is next, if nothing of the sequence is in flight.
  [[nodiscard]] std::optional<SequenceTurn> turn(const SequenceKey& key) const;
  // The next one goes to that instance; from now on the state is there. None: nobody's turn, or the state is elsewhere.
  std::optional<SequenceRun> run(const SequenceKey& key, InstanceId instance);
  // Where its state is, or will be once its first run has ended; none: nowhere yet.
  [[nodiscard]] std::optional<InstanceId> instanceOf(const SequenceKey& key) const;
  // The one in flight ended. Where it failed the state is that before it, so behind a failed start there is none: appends those that waited for it to
  // `unknown`. An untold start is as a failed one, an untold end has ended the sequence. False: nothing was in flight.
  bool finish(const SequenceKey& key, SequenceOutcome outcome, Instant now, std::vector<std::uint64_t>& unknown);
  // A waiting request's client left. A start or end that leaves takes nothing with it but itself: what needed its start is refused as unknown.
  bool cancel(const SequenceKey& key, std::uint64_t cookie, std::vector<std::uint64_t>& unknown, Instant now);
  // The instance went. Appends who waited for its state (answer 409 SequenceLost); the one in flight is the caller's own to answer. What waits from a
  // later start on goes on, elsewhere.
  void lose(InstanceId instance, Instant now, std::vector<std::uint64_t>& lost);
  // The same of one sequence: what became of its state is not known. It is to be freed.
  void lose(const SequenceKey& key, Instant now, std::vector<std::uint64_t>& lost);
  // Forgets those that were idle for too long. When the next one may be: nothing while none is known.
  std::optional<Instant> expire(Instant now);
  // States that the instances keep and nobody needs any more, since the last call.
  [[nodiscard]] std::vector<FreedState> takeFreed() { return std::exchange(freed_, {}); }

  [[nodiscard]] std::int64_t live(TenantId tenant, ServiceId service) const;
  [[nodiscard]] std::int64_t live(ServiceId service) const;  // O(sequences)

 private:
  struct Sequence {
    std::deque<SequenceRequest> waiting;
    std::optional<SequenceRequest> running;
    std::optional<InstanceId> instance;
    std::uint64_t handle{0};  // of its latest start that ran
    bool takesBack{false};    // its next run does
    bool open{false};         // the last accepted request did not end it
    bool lost{false};         // only remembered
    Nanos maxIdle{};
    std::int64_t maxSequences{0};
    Instant lastUse{};
  };
  using Sequences = std::map<SequenceKey, Sequence>;

  [[nodiscard]] std::int64_t count(TenantId tenant, ServiceId service, bool lost) const;
  bool remember(Sequences::iterator at, Instant now);  // as lost; false: there are too many, it is to be forgotten
  void free(const SequenceKey& key, const Sequence& sequence);
  Sequences::iterator loseAt(Sequences::iterator at, Instant now, std::vector<std::uint64_t>& lost);  // the next one

  Sequences sequences_;
  std::uint64_t handles_{0};
  std::vector<FreedState> freed_;
};

}  // namespace coterie::dispatch
