// The recorded arrivals under a virtual clock: replay.h.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <variant>

#include "dispatch/call_check.h"
#include "dispatch/make_call.h"
#include "dispatch/replay.h"
#include "dispatch/station.h"

namespace coterie::dispatch {

namespace {

constexpr Nanos kUnknownRun = Millis(10);  // where nothing ever ran

Nanos median(std::vector<Nanos>& values) {
  if (values.empty()) return {};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A request of the record, named by the number of its arrival at its station.
struct Arrival {
  Request request;
  Instant arrived{};
  std::optional<Instant> started;
  std::optional<Nanos> ran;  // as its run took
  Usage usage;
  Outcome outcome{Outcome::Succeeded};
  RequestHandle handle;  // in the free run
};

// One station: what the record says of it, then the free run over it.
class Track {
 public:
  std::string read(Call& call);
  void run();
  void report(const std::string& name, FreeRunResult& result);
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Seen {
    std::int64_t arrivals{0};
    std::int64_t started{0};
    Nanos charged{};
    std::vector<Nanos> waits;
  };
  struct End {
    std::vector<std::size_t> members;
  };
  void arrive(const Request& request, Instant now);
  void note(std::size_t arrival, Instant started);
  void complete(const calls::Complete& call);
  [[nodiscard]] Nanos runOf(const Arrival& arrival);
  void until(Instant when);
  void step();
  void finish(const End& end);
  void outside(Call& call);

  CallCheck check_;
  std::string name_;
  Station recorded_;  // plays the record, for what was charged
  std::vector<Call> outside_;
  std::vector<Arrival> arrivals_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> byHandle_;  // of the record
  std::map<std::int32_t, std::vector<std::size_t>> running_;                 // by recorded slot
  std::map<std::int32_t, std::string> tenants_;
  std::map<std::int32_t, Seen> then_;
  std::map<std::int32_t, Nanos> usual_;  // median run of a tenant's; -1: of all

  Station free_;
  std::map<std::int32_t, Seen> now_;
  std::map<std::int32_t, SlotId> slots_;  // by recorded slot
  std::multimap<Instant, End> ends_;
  std::size_t next_{0};  // arrival of the free run
  Instant clock_{};
  Decisions decisions_;
};

std::string Track::read(Call& call) {
  if (std::string why = check_.refuse(call); !why.empty()) return why;
  Call made = call;
  makeCall(recorded_, made);
  if (auto* open = std::get_if<calls::Open>(&call)) {
    name_ = open->name;
    free_.configure(open->options);
    return {};
  }
  if (auto* next = std::get_if<calls::Next>(&call)) {
    for (const Dispatch& each : next->answer.dispatches) {
      const auto found = byHandle_.find({each.request.index, each.request.generation});
      if (found == byHandle_.end()) return "starts a request that did not arrive";
      if (!each.together) running_[each.slot.value].clear();
      running_[each.slot.value].push_back(found->second);
      note(found->second, next->now);
    }
    return {};
  }
  if (auto* done = std::get_if<calls::Complete>(&call)) {
    complete(*done);
    return {};
  }
  if (auto* tenant = std::get_if<calls::SetTenant>(&call)) {
    tenants_[tenant->tenant.value] = tenant->name;
  } else if (auto* arrival = std::get_if<calls::Enqueue>(&call)) {
    if (arrival->answer.accepted()) byHandle_[{arrival->answer.handle.index, arrival->answer.handle.generation}] = arrivals_.size();
    arrive(arrival->request, arrival->now);
  } else if (auto* early = std::get_if<calls::Foresee>(&call)) {
    if (!early->answer) return {};  // it comes again, whole
    arrive(early->request, early->now);
  } else if (auto* cancel = std::get_if<calls::Cancel>(&call)) {
    const auto found = byHandle_.find({cancel->request.index, cancel->request.generation});
    if (found == byHandle_.end()) return {};
    cancel->request.index = static_cast<std::uint32_t>(found->second);  // from here on: which arrival
  } else if (auto* slot = std::get_if<calls::AddSlot>(&call)) {
    if (std::get<calls::AddSlot>(made).answer != slot->answer) return "has another slot than this station gives";
  }
  outside_.push_back(std::move(call));
  return {};
}

void Track::arrive(const Request& request, Instant now) {
  arrivals_.push_back({request, now, {}, {}, {}, Outcome::Succeeded, {}});
  ++then_[request.tenant.value].arrivals;
}

void Track::note(std::size_t arrival, Instant started) {
  Arrival& one = arrivals_[arrival];
  if (!one.started) {
    Seen& seen = then_[one.request.tenant.value];
    ++seen.started;
    seen.waits.push_back(started - one.arrived);
  }
  one.started = started;
}

void Track::complete(const calls::Complete& call) {
  const auto found = byHandle_.find({call.request.index, call.request.generation});
  if (found == byHandle_.end()) return;
  for (const auto& [slot, members] : running_) {
    if (std::find(members.begin(), members.end(), found->second) == members.end()) continue;
    for (const std::size_t member : members) {
      Arrival& one = arrivals_[member];
      if (one.started) one.ran = call.now - *one.started;
      one.usage = call.usage;
      one.outcome = call.outcome;
    }
    running_[slot].clear();
    return;
  }
}

Nanos Track::runOf(const Arrival& arrival) {
  if (arrival.ran) return *arrival.ran;
  const auto own = usual_.find(arrival.request.tenant.value);
  return own != usual_.end() ? own->second : usual_.count(-1) != 0 ? usual_.at(-1) : kUnknownRun;
}

void Track::run() {
  std::map<std::int32_t, std::vector<Nanos>> runs;
  for (const Arrival& each : arrivals_) {
    if (!each.ran) continue;
    runs[each.request.tenant.value].push_back(*each.ran);
    runs[-1].push_back(*each.ran);
  }
  for (auto& [tenant, values] : runs) usual_[tenant] = median(values);
  for (Call& call : outside_) outside(call);
  until(Instant::max());
}

void Track::outside(Call& call) {
  if (const auto* gone = std::get_if<calls::RemoveService>(&call)) {
    until(gone->now);
    free_.removeService(gone->service, clock_);
  } else if (const auto* slot = std::get_if<calls::AddSlot>(&call)) {
    slots_[slot->answer.value] = free_.addSlot(slot->service, slot->slotClass, slot->cookie);
  } else if (const auto* opened = std::get_if<calls::OpenSlot>(&call)) {
    free_.setSlotOpen(slots_.at(opened->slot.value), opened->open);
  } else if (const auto* removed = std::get_if<calls::RemoveSlot>(&call)) {
    free_.removeSlot(slots_.at(removed->slot.value));
  } else if (const auto* cancel = std::get_if<calls::Cancel>(&call)) {
    until(cancel->now);
    if (cancel->request.index < next_) static_cast<void>(free_.cancel(arrivals_[cancel->request.index].handle, clock_));
    step();
  } else if (std::holds_alternative<calls::Enqueue>(call) || std::holds_alternative<calls::Foresee>(call)) {
    Arrival& arrival = arrivals_[next_];
    until(arrival.arrived);
    Request request = arrival.request;
    request.cookie = next_++;
    ++now_[request.tenant.value].arrivals;
    arrival.handle = free_.enqueue(request, clock_).handle;
    step();
  } else {  // tenants, services, options: as they were
    makeCall(free_, call);
  }
}

// Everything that happens by itself before `when`.
void Track::until(Instant when) {
  while (true) {
    const auto event = free_.nextEvent();
    const bool ends = !ends_.empty() && (!event || ends_.begin()->first <= *event);
    if (ends ? ends_.begin()->first > when : !event || *event > when) break;
    if (ends) {
      const End end = ends_.begin()->second;
      clock_ = std::max(clock_, ends_.begin()->first);
      ends_.erase(ends_.begin());
      finish(end);
    } else {
      if (when == Instant::max() && ends_.empty() && free_.queued() == 0) break;
      clock_ = std::max(clock_, *event);
    }
    step();
  }
  if (when != Instant::max()) clock_ = std::max(clock_, when);
}

void Track::finish(const End& end) {
  const Arrival& first = arrivals_[end.members.front()];
  const auto outcome = first.ran ? first.outcome : Outcome::Succeeded;
  const Nanos held = runOf(first);
  const Usage usage = first.ran ? first.usage : Usage{held, {}, held};
  static_cast<void>(free_.completed(first.handle, usage, outcome, clock_));
}

void Track::step() {
  decisions_.clear();
  free_.next(clock_, decisions_);
  for (std::size_t at = 0; at < decisions_.dispatches.size();) {
    End end;
    Nanos run{};
    do {
      const std::size_t member = decisions_.dispatches[at].cookie;
      Seen& seen = now_[arrivals_[member].request.tenant.value];
      ++seen.started;
      seen.waits.push_back(clock_ - arrivals_[member].arrived);
      run = std::max(run, runOf(arrivals_[member]));
      end.members.push_back(member);
      ++at;
    } while (at < decisions_.dispatches.size() && decisions_.dispatches[at].together);
    ends_.emplace(clock_ + run, std::move(end));
  }
}

void Track::report(const std::string& name, FreeRunResult& result) {
  const auto add = [&](const Station& station, std::map<std::int32_t, Seen>& seen, std::vector<TenantRun>& out) {
    Nanos all{};
    for (const auto& [tenant, text] : tenants_) all += station.stats(TenantId(tenant)).charged;
    for (const auto& [tenant, text] : tenants_) {
      Seen& one = seen[tenant];
      const Nanos charged = station.stats(TenantId(tenant)).charged;
      const double share = all > Nanos{} ? static_cast<double>(charged.count()) / static_cast<double>(all.count()) : 0;
      out.push_back({name, text, one.arrivals, one.started, charged, share, median(one.waits)});
    }
  };
  add(recorded_, then_, result.recorded);
  add(free_, now_, result.free);
}

}  // namespace

FreeRunResult freeRun(std::string_view bytes) {
  FreeRunResult result;
  RecordReader reader(bytes);
  std::map<std::uint32_t, std::unique_ptr<Track>> tracks;
  while (auto frame = reader.next()) {
    auto& track = tracks[frame->station];
    if (track == nullptr) track = std::make_unique<Track>();
    if (const std::string why = track->read(frame->call); !why.empty()) {
      result.fault = "frame " + std::to_string(reader.frames()) + " " + why;
      return result;
    }
  }
  result.fault = reader.fault();
  if (!result.fault.empty()) return result;
  for (const auto& [number, track] : tracks) {
    track->run();
    track->report(track->name(), result);
  }
  return result;
}

}  // namespace coterie::dispatch
