#include "audit/refusals.h"

#include <utility>

#include "audit/changes.h"

namespace coterie::audit {

namespace {
constexpr std::string_view kOthers = "others";
constexpr std::string_view kAnyReason = "Various";
}  // namespace

Refusals::Refusals(EventLoop& loop, Through through, Sink sink) : loop_(loop), through_(through), sink_(std::move(sink)) {}

Refusals::~Refusals() { flush(); }

Refusals::Row* Refusals::find(std::string_view who, std::string_view reason) {
  key_.assign(who).append(1, '\n').append(reason);
  const auto found = rows_.find(key_);
  return found == rows_.end() ? nullptr : &found->second;
}

Refusals::Row& Refusals::open(std::string_view who, std::string_view reason, Entry entry) {
  key_.assign(who).append(1, '\n').append(reason);
  entry.through = through_;
  entry.outcome = Outcome::Refused;
  entry.reason = reason;
  entry.object = withoutSecrets(entry.object);
  entry.count = 0;
  entry.since = loop_.clock().wall();
  order_.push_back(key_);
  Row& row = rows_.insert_or_assign(key_, Row{loop_.clock().now(), std::move(entry)}).first->second;
  if (order_.size() == 1) arm();
  return row;
}

void Refusals::add(std::string_view who, std::string_view reason, const std::function<Entry()>& first) {
  Row* row = find(who, reason);
  if (row == nullptr && rows_.size() - others_ < kMostRows) row = &open(who, reason, first());
  if (row == nullptr) {
    const std::string_view shared = others_ + 1 < kMostOthers ? reason : kAnyReason;
    row = find(kOthers, reason);
    if (row == nullptr) row = find(kOthers, shared);
    if (row == nullptr) {
      Entry entry;
      entry.actor = {Actor::Kind::Source, std::string(kOthers), {}, {}};
      row = &open(kOthers, shared, std::move(entry));
      ++others_;
    }
  }
  ++row->entry.count;
  row->entry.time = loop_.clock().wall();
}

void Refusals::arm() {
  if (order_.empty()) return timer_.reset();
  const Nanos left = rows_.find(order_.front())->second.began + kWindow - loop_.clock().now();
  timer_ = loop_.after(left > Nanos{} ? left : Nanos{}, [this] { endOver(); });
}

void Refusals::endOver() {
  std::vector<Entry> over;
  while (!order_.empty()) {
    const auto row = rows_.find(order_.front());
    if (row->second.began + kWindow > loop_.clock().now()) break;
    if (row->first.substr(0, kOthers.size() + 1) == std::string(kOthers) + "\n") --others_;
    over.push_back(std::move(row->second.entry));
    rows_.erase(row);
    order_.pop_front();
  }
  arm();
  if (!over.empty()) sink_(std::move(over));
}

void Refusals::flush() {
  std::vector<Entry> open;
  for (const std::string& key : order_) open.push_back(std::move(rows_.find(key)->second.entry));
  rows_.clear();
  order_.clear();
  others_ = 0;
  timer_.reset();
  if (!open.empty()) sink_(std::move(open));
}

}  // namespace coterie::audit
