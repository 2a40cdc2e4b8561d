// What stations were told and what they answered, as bytes: `coterie serve --record` writes them, `coterie replay` reads them.
//
// A file is kRecordMagic, then frames: length (varint), station (varint), kind (one byte), fields. Whole numbers are varints (LEB128, 7 bits a byte,
// the least first), signed ones zigzag; instants are differences to the one before in the file, so a call takes about ten bytes. A call and its
// answer are one frame, written once the answer is there. Nothing of a request's content is in it: names of tenants and services, sizes, times.
// Reading: bytes are untrusted. A frame that is cut off ends the file (a server that was killed); whatever else does not fit is a fault, with the
// number of its frame. Decoded values are in their types' ranges and below the limits here, not more: replay.h checks ids and rules. What was decoded
// encodes to the same bytes. O(bytes), memory O(one frame). Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"
#include "dispatch/request.h"
#include "dispatch/station.h"
#include "model/ids.h"

namespace coterie::dispatch {

inline constexpr std::string_view kRecordMagic = "coterie record 1\n";
inline constexpr std::size_t kMostFrame = 1 << 20;  // bytes
inline constexpr std::size_t kMostName = 256;
inline constexpr std::int64_t kMostNanos = std::int64_t{1} << 55;  // 417 days: of any instant and duration

namespace calls {
struct Open {  // a new station; its number is the frame's
  std::string name;
  StationOptions options;
};
struct Configure {
  StationOptions options;
};
struct SetTenant {
  TenantId tenant;
  std::string name;
  TenantOptions options;
};
struct AddService {
  ServiceOptions options;
};
struct SetService {
  ServiceId service;
  ServiceOptions options;
};
struct RemoveService {
  ServiceId service;
  Instant now{};
};
struct AddSlot {
  ServiceId service;
  SlotClass slotClass{SlotClass::Own};
  std::uint64_t cookie{0};
  SlotId answer;
};
struct OpenSlot {
  SlotId slot;
  bool open{true};
};
struct RemoveSlot {
  SlotId slot;
};
struct Enqueue {
  Request request;
  Instant now{};
  Admission answer;
};
struct Next {
  Instant now{};
  Decisions answer;
};
struct Complete {
  RequestHandle request;
  Usage usage;
  Outcome outcome{Outcome::Succeeded};
  Instant now{};
  bool answer{false};
};
struct Cancel {
  RequestHandle request;
  Instant now{};
  CancelResult answer{CancelResult::Unknown};
};
}  // namespace calls

using Call = std::variant<calls::Open, calls::Configure, calls::SetTenant, calls::AddService, calls::SetService, calls::RemoveService, calls::AddSlot,
                          calls::OpenSlot, calls::RemoveSlot, calls::Enqueue, calls::Next, calls::Complete, calls::Cancel>;

struct Frame {
  std::uint32_t station{0};
  Call call;
};

class RecordWriter {
 public:
  void append(std::string& bytes, const Frame& frame);  // the magic before the first one is the caller's

 private:
  std::int64_t last_{0};  // ns
  std::string payload_;   // reused
};

class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes);  // they outlive it
  // Nullopt at the end, or at a fault.
  [[nodiscard]] std::optional<Frame> next();
  [[nodiscard]] const std::string& fault() const { return fault_; }  // empty: none
  [[nodiscard]] bool cutOff() const { return cutOff_; }              // the last frame is not whole
  [[nodiscard]] std::int64_t frames() const { return frames_; }      // read so far
  [[nodiscard]] std::string_view bytesOfLast() const { return last_; }

 private:
  std::string_view rest_;
  std::string_view last_;
  std::string fault_;
  bool cutOff_{false};
  std::int64_t frames_{0};
  std::int64_t lastInstant_{0};
};

}  // namespace coterie::dispatch
