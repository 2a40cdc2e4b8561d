#include "dispatch/sequences.h"

#include <algorithm>

namespace coterie::dispatch {

namespace {
struct Row {
  std::string_view name;
  Code code;
};

Row row(SequenceRefusal refusal) {
  switch (refusal) {
    case SequenceRefusal::Unknown: return {"SequenceUnknown", Code::NotFound};
    case SequenceRefusal::Lost: return {"SequenceLost", Code::Conflict};
    case SequenceRefusal::Limit: return {"SequenceLimit", Code::ResourceExhausted};
    case SequenceRefusal::Backlog: return {"SequenceBacklog", Code::ResourceExhausted};
  }
  return {"Unknown", Code::Internal};
}

// Those that need a state which is no more.
void dropToStart(std::deque<SequenceRequest>& waiting, std::vector<std::uint64_t>& dropped) {
  while (!waiting.empty() && !waiting.front().start) {
    dropped.push_back(waiting.front().cookie);
    waiting.pop_front();
  }
}
}  // namespace

std::string_view sequenceRefusalName(SequenceRefusal refusal) { return row(refusal).name; }
Code sequenceRefusalCode(SequenceRefusal refusal) { return row(refusal).code; }

std::int64_t SequenceTable::count(TenantId tenant, ServiceId service, bool lost) const {
  std::int64_t found = 0;
  for (auto at = sequences_.lower_bound({tenant, service, 0, {}}); at != sequences_.end(); ++at) {
    if (at->first.tenant != tenant || at->first.service != service) break;
    found += at->second.lost == lost ? 1 : 0;
  }
  return found;
}

std::int64_t SequenceTable::live(TenantId tenant, ServiceId service) const { return count(tenant, service, false); }

std::int64_t SequenceTable::live(ServiceId service) const {
  return std::count_if(sequences_.begin(), sequences_.end(), [&](const auto& each) { return each.first.service == service && !each.second.lost; });
}

std::optional<SequenceRefusal> SequenceTable::arrive(const SequenceKey& key, const SequenceRequest& request, const SequenceLimits& limits,
                                                     Instant now) {
  auto at = sequences_.find(key);
  const bool isLive = at != sequences_.end() && !at->second.lost;
  if (!request.start) {
    if (at == sequences_.end()) return SequenceRefusal::Unknown;
    if (at->second.lost) return SequenceRefusal::Lost;
    if (!at->second.open) return SequenceRefusal::Unknown;
  }
  if (isLive && static_cast<std::int64_t>(at->second.waiting.size()) >= limits.maxWaiting) return SequenceRefusal::Backlog;
  if (!isLive) {
    if (live(key.tenant, key.service) >= limits.maxSequences) return SequenceRefusal::Limit;
    if (limits.stateBytes.value > 0 && live(key.service) >= limits.maxBytes.value / 2 / limits.stateBytes.value) return SequenceRefusal::Limit;
    at = sequences_.insert_or_assign(key, Sequence{}).first;
  }
  Sequence& sequence = at->second;
  sequence.waiting.push_back(request);
  sequence.open = !request.end;
  sequence.maxIdle = limits.maxIdle;
  sequence.maxSequences = limits.maxSequences;
  sequence.lastUse = now;
  return std::nullopt;
}

std::optional<SequenceTurn> SequenceTable::turn(const SequenceKey& key) const {
  const auto at = sequences_.find(key);
  if (at == sequences_.end() || at->second.running || at->second.waiting.empty()) return std::nullopt;
  const SequenceRequest& next = at->second.waiting.front();
  return SequenceTurn{next.cookie, next.start, next.end, next.start ? std::nullopt : at->second.instance};
}

void SequenceTable::free(const SequenceKey& key, const Sequence& sequence) {
  if (sequence.instance && sequence.handle != 0) freed_.push_back({key, *sequence.instance, sequence.handle});
}

std::optional<SequenceRun> SequenceTable::run(const SequenceKey& key, InstanceId instance) {
  const std::optional<SequenceTurn> next = turn(key);
  if (!next || (next->instance && *next->instance != instance)) return std::nullopt;
  Sequence& sequence = sequences_.find(key)->second;
  if (next->fresh) {
    free(key, sequence);
    sequence.handle = ++handles_;
    sequence.takesBack = false;
  }
  sequence.running = sequence.waiting.front();
  sequence.waiting.pop_front();
  sequence.instance = instance;
  return SequenceRun{sequence.handle, next->fresh, next->end, sequence.takesBack};
}

std::optional<InstanceId> SequenceTable::instanceOf(const SequenceKey& key) const {
  const auto at = sequences_.find(key);
  return at == sequences_.end() ? std::nullopt : at->second.instance;
}

bool SequenceTable::finish(const SequenceKey& key, SequenceOutcome outcome, Instant now, std::vector<std::uint64_t>& unknown) {
  const auto at = sequences_.find(key);
  if (at == sequences_.end() || !at->second.running) return false;
  Sequence& sequence = at->second;
  const SequenceRequest ran = *sequence.running;
  const bool succeeded = outcome == SequenceOutcome::Succeeded;
  const bool ended = ran.end || (ran.start && !succeeded);
  // The instance has freed what ended well, and has nothing of a start that failed.
  const bool kept = outcome == SequenceOutcome::Untold ? !ran.end : !succeeded && !ran.start;
  if (ended && kept) free(key, sequence);
  if (outcome != SequenceOutcome::Failed) sequence.takesBack = outcome == SequenceOutcome::Untold;
  sequence.running.reset();
  sequence.lastUse = now;
  if (ended) {
    sequence.instance.reset();
    dropToStart(sequence.waiting, unknown);
  }
  if (ended && sequence.waiting.empty()) sequences_.erase(at);
  return true;
}

bool SequenceTable::cancel(const SequenceKey& key, std::uint64_t cookie, std::vector<std::uint64_t>& unknown, Instant now) {
  const auto at = sequences_.find(key);
  if (at == sequences_.end()) return false;
  Sequence& sequence = at->second;
  std::deque<SequenceRequest>& waiting = sequence.waiting;
  auto left = std::find_if(waiting.begin(), waiting.end(), [&](const SequenceRequest& each) { return each.cookie == cookie; });
  if (left == waiting.end()) return false;
  const bool started = left->start;
  left = waiting.erase(left);
  // Those behind a start that left counted on a fresh state; to run them on the old one would be as wrong as a fresh one elsewhere.
  while (started && left != waiting.end() && !left->start) {
    unknown.push_back(left->cookie);
    left = waiting.erase(left);
  }
  const bool holds = sequence.running ? !sequence.running->end : sequence.instance.has_value();
  sequence.open = waiting.empty() ? holds : !waiting.back().end;
  sequence.lastUse = now;
  if (waiting.empty() && !sequence.running && !holds) sequences_.erase(at);
  return true;
}

bool SequenceTable::remember(Sequences::iterator at, Instant now) {
  if (count(at->first.tenant, at->first.service, true) >= at->second.maxSequences) return false;
  at->second.lost = true;
  at->second.open = false;
  at->second.lastUse = now;
  return true;
}

SequenceTable::Sequences::iterator SequenceTable::loseAt(Sequences::iterator at, Instant now, std::vector<std::uint64_t>& lost) {
  Sequence& sequence = at->second;
  const bool ended = sequence.running && sequence.running->end;
  sequence.running.reset();
  sequence.instance.reset();
  dropToStart(sequence.waiting, lost);
  const bool keep = !sequence.waiting.empty() || (!ended && remember(at, now));
  return keep ? std::next(at) : sequences_.erase(at);
}

void SequenceTable::lose(InstanceId instance, Instant now, std::vector<std::uint64_t>& lost) {
  for (auto at = sequences_.begin(); at != sequences_.end();) at = at->second.instance == instance ? loseAt(at, now, lost) : std::next(at);
}

void SequenceTable::lose(const SequenceKey& key, Instant now, std::vector<std::uint64_t>& lost) {
  const auto at = sequences_.find(key);
  if (at == sequences_.end() || !at->second.instance) return;
  free(key, at->second);
  loseAt(at, now, lost);
}

std::optional<Instant> SequenceTable::expire(Instant now) {
  std::optional<Instant> next;
  for (auto at = sequences_.begin(); at != sequences_.end();) {
    const Sequence& sequence = at->second;
    const bool quiet = !sequence.running && sequence.waiting.empty();
    if (quiet && now - sequence.lastUse >= sequence.maxIdle) {
      if (!sequence.lost) free(at->first, sequence);
      at = sequences_.erase(at);
      continue;
    }
    const Instant then = (quiet ? sequence.lastUse : now) + sequence.maxIdle;
    if (!next || then < *next) next = then;
    ++at;
  }
  return next;
}

}  // namespace coterie::dispatch
