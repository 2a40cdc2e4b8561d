#include "dispatch/record.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

namespace coterie::dispatch {

namespace {

constexpr int kBits = 7;
constexpr std::uint8_t kMore = 0x80;

void putWhole(std::string& out, std::uint64_t value) {
  while (value >= kMore) {
    out.push_back(static_cast<char>((value & (kMore - 1U)) | kMore));
    value >>= kBits;
  }
  out.push_back(static_cast<char>(value));
}

// Nullopt: cut off, or no shortest form of a 64-bit number. `cut` says which.
std::optional<std::uint64_t> takeWhole(std::string_view& in, bool* cut = nullptr) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += kBits) {
    if (in.empty()) {
      if (cut != nullptr) *cut = true;
      return std::nullopt;
    }
    const auto byte = static_cast<std::uint8_t>(in.front());
    in.remove_prefix(1);
    const std::uint64_t part = byte & (kMore - 1U);
    if (shift == 63 && part > 1) return std::nullopt;
    value |= part << shift;
    if ((byte & kMore) == 0) return byte == 0 && shift > 0 ? std::nullopt : std::optional(value);
  }
  return std::nullopt;
}

std::uint64_t zigzag(std::int64_t value) { return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63); }
std::int64_t unzigzag(std::uint64_t value) { return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1); }

// The two directions over the same lists of fields.
class Put {
 public:
  Put(std::string& out, std::int64_t& last) : out_(out), last_(last) {}
  void whole(std::uint64_t value, std::uint64_t = 0) { putWhole(out_, value); }
  void number(std::int64_t value) { putWhole(out_, zigzag(value)); }
  void instant(Instant when) {
    const std::int64_t now = when.time_since_epoch().count();
    number(now - std::exchange(last_, now));
  }
  void text(const std::string& value) {
    const std::string_view kept = std::string_view(value).substr(0, kMostName);
    putWhole(out_, kept.size());
    out_ += kept;
  }

 private:
  std::string& out_;
  std::int64_t& last_;
};

class Take {
 public:
  Take(std::string_view in, std::int64_t last) : in_(in), last_(last) {}
  void whole(std::uint64_t& value, std::uint64_t most) {
    const auto taken = takeWhole(in_);
    good_ = good_ && taken && *taken <= most;
    value = good_ ? *taken : 0;
  }
  void number(std::int64_t& value) {
    const auto taken = takeWhole(in_);
    const std::int64_t number = taken ? unzigzag(*taken) : 0;
    good_ = good_ && taken && number >= -kMostNanos && number <= kMostNanos;
    value = good_ ? number : 0;
  }
  void instant(Instant& when) {
    std::int64_t difference = 0;
    number(difference);
    const std::int64_t now = last_ + difference;
    good_ = good_ && now >= 0 && now <= kMostNanos;
    if (good_) last_ = now;
    when = Instant(Nanos(good_ ? now : 0));
  }
  void text(std::string& value) {
    std::uint64_t size = 0;
    whole(size, std::min<std::uint64_t>(in_.size(), kMostName));
    good_ = good_ && size <= in_.size();
    if (!good_) return;
    value.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }
  void spoil() { good_ = false; }
  [[nodiscard]] bool done() const { return good_ && in_.empty(); }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] std::size_t left() const { return in_.size(); }
  [[nodiscard]] std::int64_t last() const { return last_; }

 private:
  std::string_view in_;
  std::int64_t last_;
  bool good_{true};
};

// Every field is given by name and type once; `Io` is Put (const values) or Take.
template <typename Io, typename Value>
void whole(Io& io, Value& value, std::uint64_t most) {
  if constexpr (std::is_same_v<Io, Put>) {
    io.whole(static_cast<std::uint64_t>(value));
  } else {
    std::uint64_t taken = 0;
    io.whole(taken, most);
    value = static_cast<Value>(taken);
  }
}
template <typename Io, typename Value>
void number(Io& io, Value& value) {
  if constexpr (std::is_same_v<Io, Put>) {
    io.number(static_cast<std::int64_t>(value));
  } else {
    std::int64_t taken = 0;
    io.number(taken);
    value = static_cast<Value>(taken);
    if (static_cast<std::int64_t>(value) != taken) io.spoil();
  }
}
template <typename Io, typename Id>
void id(Io& io, Id& value) {  // -1: none
  std::int32_t plain = value.value;
  number(io, plain);
  if constexpr (std::is_same_v<Io, Take>) {
    value = Id(plain);
    if (plain < -1) io.spoil();
  }
}
template <typename Io, typename Time>
void nanos(Io& io, Time& value) {
  std::int64_t plain = value.count();
  number(io, plain);
  if constexpr (std::is_same_v<Io, Take>) value = Nanos(plain);
}
template <typename Io, typename Size>
void bytes(Io& io, Size& value) {
  std::int64_t plain = value.value;
  number(io, plain);
  if constexpr (std::is_same_v<Io, Take>) value = Bytes(plain);
}
template <typename Io, typename Handle>
void handle(Io& io, Handle& value) {
  whole(io, value.index, std::numeric_limits<std::uint32_t>::max());
  whole(io, value.generation, std::numeric_limits<std::uint32_t>::max());
}
template <typename Io, typename TheCaps>
void caps(Io& io, TheCaps& value) {
  number(io, value.requests);
  bytes(io, value.bytes);
}
template <typename Io, typename Options>
void stationOptions(Io& io, Options& value) {
  caps(io, value.caps);
  number(io, value.concurrency);
  for (auto& guarantee : value.guarantees) whole(io, guarantee, 1000);
}
template <typename Io, typename Options>
void serviceOptions(Io& io, Options& value) {
  number(io, value.weight);
  caps(io, value.caps);
  nanos(io, value.initialRun);
  whole(io, value.maxBatch, BatchCosts::kMost);
}
template <typename Io, typename TheRefusal>
void refusal(Io& io, TheRefusal& value) {
  whole(io, value.reason, static_cast<std::uint64_t>(RefusalReason::ExpiredInQueue));
  nanos(io, value.retryAfter);
  number(io, value.limit);
}

template <typename Io, typename List>
void count(Io& io, List& list) {  // each item takes at least one byte, so a frame bounds them
  if constexpr (std::is_same_v<Io, Put>) {
    io.whole(list.size());
  } else {
    std::uint64_t size = 0;
    io.whole(size, io.left());
    list.resize(io.good() ? size : 0);
  }
}

template <typename Io, typename TheDecisions>
void decisions(Io& io, TheDecisions& value) {
  count(io, value.dispatches);
  for (auto& each : value.dispatches) {
    handle(io, each.request);
    whole(io, each.cookie, std::numeric_limits<std::uint64_t>::max());
    id(io, each.slot);
    whole(io, each.slotCookie, std::numeric_limits<std::uint64_t>::max());
    whole(io, each.together, 1);
  }
  count(io, value.drops);
  for (auto& each : value.drops) {
    whole(io, each.cookie, std::numeric_limits<std::uint64_t>::max());
    refusal(io, each.refusal);
  }
}

template <typename Io, typename C>
void fields(Io& io, C& c) {
  using Plain = std::remove_const_t<C>;
  if constexpr (std::is_same_v<Plain, calls::Open>) {
    io.text(c.name);
    stationOptions(io, c.options);
  } else if constexpr (std::is_same_v<Plain, calls::Configure>) {
    stationOptions(io, c.options);
  } else if constexpr (std::is_same_v<Plain, calls::SetTenant>) {
    id(io, c.tenant);
    io.text(c.name);
    number(io, c.options.weight);
    whole(io, c.options.band, kBands - 1);
    whole(io, c.options.sharesBatches, 1);
    caps(io, c.options.caps);
    nanos(io, c.options.queuedCost);
  } else if constexpr (std::is_same_v<Plain, calls::AddService>) {
    serviceOptions(io, c.options);
  } else if constexpr (std::is_same_v<Plain, calls::SetService>) {
    id(io, c.service);
    serviceOptions(io, c.options);
  } else if constexpr (std::is_same_v<Plain, calls::RemoveService>) {
    id(io, c.service);
    io.instant(c.now);
  } else if constexpr (std::is_same_v<Plain, calls::AddSlot>) {
    id(io, c.service);
    whole(io, c.slotClass, 1);
    whole(io, c.cookie, std::numeric_limits<std::uint64_t>::max());
    id(io, c.answer);
  } else if constexpr (std::is_same_v<Plain, calls::OpenSlot>) {
    id(io, c.slot);
    whole(io, c.open, 1);
  } else if constexpr (std::is_same_v<Plain, calls::RemoveSlot>) {
    id(io, c.slot);
  } else if constexpr (std::is_same_v<Plain, calls::Enqueue>) {
    io.instant(c.now);
    id(io, c.request.tenant);
    id(io, c.request.service);
    whole(io, c.request.version, std::numeric_limits<std::uint32_t>::max());
    std::int64_t within = (c.request.deadline - c.now).count();
    number(io, within);
    if constexpr (std::is_same_v<Io, Take>) c.request.deadline = c.now + Nanos(within);
    whole(io, c.request.inputElements, std::numeric_limits<std::uint64_t>::max());
    bytes(io, c.request.bytes);
    whole(io, c.request.cookie, std::numeric_limits<std::uint64_t>::max());
    whole(io, c.request.batchKey, std::numeric_limits<std::uint64_t>::max());
    handle(io, c.answer.handle);
    if (!c.answer.accepted()) refusal(io, c.answer.refusal);
  } else if constexpr (std::is_same_v<Plain, calls::Next>) {
    io.instant(c.now);
    decisions(io, c.answer);
  } else if constexpr (std::is_same_v<Plain, calls::Complete>) {
    io.instant(c.now);
    handle(io, c.request);
    nanos(io, c.usage.held);
    nanos(io, c.usage.queuedForCpu);
    nanos(io, c.usage.cpu);
    whole(io, c.outcome, static_cast<std::uint64_t>(Outcome::NeverStarted));
    whole(io, c.answer, 1);
  } else {
    static_assert(std::is_same_v<Plain, calls::Cancel>);
    io.instant(c.now);
    handle(io, c.request);
    whole(io, c.answer, static_cast<std::uint64_t>(CancelResult::Unknown));
  }
}

template <std::size_t Kind = 0>
bool makeKind(std::size_t kind, Call& call) {
  if constexpr (Kind < std::variant_size_v<Call>) {
    if (kind != Kind) return makeKind<Kind + 1>(kind, call);
    call.emplace<Kind>();
    return true;
  } else {
    return false;
  }
}

}  // namespace

void RecordWriter::append(std::string& bytes, const Frame& frame) {
  payload_.clear();
  putWhole(payload_, frame.station);
  payload_.push_back(static_cast<char>(frame.call.index()));
  Put put(payload_, last_);
  std::visit([&](const auto& call) { fields(put, call); }, frame.call);
  putWhole(bytes, payload_.size());
  bytes += payload_;
}

RecordReader::RecordReader(std::string_view bytes) : rest_(bytes) {
  if (rest_.starts_with(kRecordMagic)) {
    rest_.remove_prefix(kRecordMagic.size());
  } else {
    fault_ = "it does not begin as a record of `coterie serve --record` does";
  }
}

std::optional<Frame> RecordReader::next() {
  if (!fault_.empty() || cutOff_ || rest_.empty()) return std::nullopt;
  const auto broken = [&](const std::string& what) {
    fault_ = "frame " + std::to_string(frames_ + 1) + " " + what;
    return std::nullopt;
  };
  std::string_view rest = rest_;
  const auto size = takeWhole(rest, &cutOff_);
  if (cutOff_) return std::nullopt;
  if (!size || *size > kMostFrame) return broken("has no sound length: the file is damaged");
  if (*size > rest.size()) {
    cutOff_ = true;
    return std::nullopt;
  }
  std::string_view payload = rest.substr(0, *size);
  last_ = rest_.substr(0, rest_.size() - rest.size() + *size);
  rest_ = rest.substr(*size);
  Frame frame;
  const auto station = takeWhole(payload);
  if (!station || *station > std::numeric_limits<std::uint32_t>::max() || payload.empty()) return broken("has no station");
  frame.station = static_cast<std::uint32_t>(*station);
  const auto kind = static_cast<std::uint8_t>(payload.front());
  if (!makeKind(kind, frame.call)) return broken("is of kind " + std::to_string(kind) + ", which this Coterie does not know");
  Take take(payload.substr(1), lastInstant_);
  std::visit([&](auto& call) { fields(take, call); }, frame.call);
  if (!take.done()) return broken("is not what its kind says: the file is damaged");
  lastInstant_ = take.last();
  ++frames_;
  return frame;
}

}  // namespace coterie::dispatch
