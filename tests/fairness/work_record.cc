#include "work_record.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <variant>

#include "dispatch/record.h"

namespace coterie::fairness {

namespace {

using namespace dispatch;

struct Run {
  Instant started{};
  std::vector<TenantId> tenants;
};

class Reader {
 public:
  Reader(std::string station, Nanos window) : station_(std::move(station)), window_(window) {}

  WorkRecord read(std::string_view bytes) {
    RecordReader reader(bytes);
    std::optional<std::uint32_t> number;
    while (const auto frame = reader.next()) {
      const auto* open = std::get_if<calls::Open>(&frame->call);
      if (open != nullptr && open->name == station_) number = frame->station;  // the last of that name: a replaced model's successor
      if (number && frame->station == *number) std::visit([this](const auto& call) { on(call); }, frame->call);
    }
    return std::move(result_);
  }

 private:
  // Time passes with things as they are.
  void pass(Instant now) {
    if (last_ && queued_ > 0) {
      const double seconds = std::chrono::duration<double>(now - *last_).count();
      result_.waiting += seconds;
      if (runs_.size() < open_.size()) result_.idleBesideWork += seconds;
    }
    last_ = now;
  }
  void count(TenantId tenant, Instant from, Instant to, double part) {
    if (!first_) return;
    while (from < to) {
      const auto at = static_cast<std::size_t>((from - *first_) / window_);
      const Instant end = std::min(to, *first_ + window_ * static_cast<std::int64_t>(at + 1));
      if (result_.windows.size() <= at) result_.windows.resize(at + 1);
      result_.windows[at][names_[tenant]] += std::chrono::duration<double>(end - from).count() * part;
      from = end;
    }
  }

  void opened(std::int32_t slot) {
    open_.insert(slot);
    if (first_) result_.slots = std::max(result_.slots, open_.size());
  }

  template <typename Call>
  void on(const Call&) {}
  void on(const calls::SetTenant& call) { names_[call.tenant] = call.name; }
  void on(const calls::AddSlot& call) { opened(call.answer.value); }
  void on(const calls::RemoveSlot& call) { open_.erase(call.slot.value); }
  void on(const calls::OpenSlot& call) {
    if (call.open) {
      opened(call.slot.value);
    } else {
      open_.erase(call.slot.value);
    }
  }
  void on(const calls::Enqueue& call) {
    pass(call.now);
    if (!call.answer.accepted()) return;
    if (!first_) first_ = call.now, result_.slots = open_.size();
    tenants_[{call.answer.handle.index, call.answer.handle.generation}] = call.request.tenant;
    deadlines_[{call.answer.handle.index, call.answer.handle.generation}] = call.request.deadline;
    ++result_.accepted;
    ++queued_;
  }
  void on(const calls::Next& call) {
    pass(call.now);
    for (const Dispatch& each : call.answer.dispatches) {
      Run& run = runs_[each.slot.value];
      if (!each.together) run = {call.now, {}};
      run.tenants.push_back(tenants_[{each.request.index, each.request.generation}]);
      slotOf_[{each.request.index, each.request.generation}] = each.slot.value;
      --queued_;
    }
    queued_ -= static_cast<std::int64_t>(call.answer.drops.size());
  }
  void on(const calls::Cancel& call) {
    pass(call.now);
    if (call.answer == CancelResult::Removed) --queued_;
  }
  void on(const calls::Complete& call) {
    pass(call.now);
    const auto slot = slotOf_.find({call.request.index, call.request.generation});
    if (slot == slotOf_.end()) return;
    const auto run = runs_.find(slot->second);
    if (run == runs_.end()) return;
    if (call.outcome == Outcome::Succeeded) {
      result_.held += std::chrono::duration<double>(call.now - run->second.started).count();
      ++result_.runs;
      if (call.now <= deadlines_[{call.request.index, call.request.generation}]) ++result_.inTime;
    }
    for (const TenantId tenant : run->second.tenants)
      count(tenant, run->second.started, call.now, 1.0 / static_cast<double>(run->second.tenants.size()));
    runs_.erase(run);
  }

  std::string station_;
  Nanos window_;
  WorkRecord result_;
  std::optional<Instant> first_;
  std::optional<Instant> last_;
  std::int64_t queued_{0};
  std::map<TenantId, std::string> names_;
  std::set<std::int32_t> open_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, TenantId> tenants_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int32_t> slotOf_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Instant> deadlines_;
  std::map<std::int32_t, Run> runs_;
};

}  // namespace

WorkRecord workOf(std::string_view bytes, const std::string& station, Nanos window) { return Reader(station, window).read(bytes); }

double jain(const std::map<std::string, double>& work, const std::map<std::string, double>& weights) {
  double sum = 0;
  double squares = 0;
  for (const auto& [tenant, weight] : weights) {
    const auto found = work.find(tenant);
    const double share = found == work.end() ? 0 : found->second / weight;
    sum += share;
    squares += share * share;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(weights.size()) * squares) : 0;
}

}  // namespace coterie::fairness
