#include "dispatch/replay.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>

#include "dispatch/call_check.h"
#include "dispatch/make_call.h"
#include "dispatch/station.h"

namespace coterie::dispatch {

namespace {

std::string handleText(const Dispatch& dispatch) {
  return "request " + std::to_string(dispatch.cookie) + " on slot " + std::to_string(dispatch.slot.value) +
         (dispatch.together ? " (in a batch)" : "");
}

std::string answerText(const Call& call) {
  if (const auto* enqueue = std::get_if<calls::Enqueue>(&call))
    return enqueue->answer.accepted() ? "accepted" : "refused, " + std::string(refusalReasonName(enqueue->answer.refusal.reason));
  if (const auto* early = std::get_if<calls::Foresee>(&call))
    return early->answer ? "refused, " + std::string(refusalReasonName(early->answer->reason)) : "not refused yet";
  if (const auto* next = std::get_if<calls::Next>(&call)) {
    std::string text;
    for (const Dispatch& each : next->answer.dispatches) text += (text.empty() ? "" : ", ") + handleText(each);
    for (const Drop& each : next->answer.drops)
      text +=
          (text.empty() ? "dropped " : ", dropped ") + std::to_string(each.cookie) + " (" + std::string(refusalReasonName(each.refusal.reason)) + ")";
    return text.empty() ? "nothing" : text;
  }
  if (const auto* slot = std::get_if<calls::AddSlot>(&call)) return "slot " + std::to_string(slot->answer.value);
  if (const auto* cancel = std::get_if<calls::Cancel>(&call)) return "cancel " + std::to_string(static_cast<int>(cancel->answer));
  if (const auto* complete = std::get_if<calls::Complete>(&call)) return complete->answer ? "run again one by one" : "ended";
  return "done";
}

void count(const Call& call, ReplayResult& result) {
  result.stations += std::holds_alternative<calls::Open>(call) ? 1 : 0;
  const auto* early = std::get_if<calls::Foresee>(&call);
  result.arrivals += std::holds_alternative<calls::Enqueue>(call) || (early != nullptr && early->answer) ? 1 : 0;
  if (const auto* next = std::get_if<calls::Next>(&call)) {
    result.dispatches += static_cast<std::int64_t>(next->answer.dispatches.size());
    result.drops += static_cast<std::int64_t>(next->answer.drops.size());
  }
}

}  // namespace

ReplayResult replay(std::string_view bytes) {
  struct Played {
    Station station;
    CallCheck check;
  };
  ReplayResult result;
  RecordReader reader(bytes);
  RecordWriter writer;
  std::string again;
  std::map<std::uint32_t, std::unique_ptr<Played>> played;
  while (auto frame = reader.next()) {
    auto& one = played[frame->station];
    if (one == nullptr) one = std::make_unique<Played>();
    if (const std::string why = one->check.refuse(frame->call); !why.empty()) {
      result.fault = "frame " + std::to_string(reader.frames()) + " " + why;
      break;
    }
    const std::string recorded = answerText(frame->call);
    makeCall(one->station, frame->call);
    count(frame->call, result);
    again.clear();
    writer.append(again, *frame);
    if (again == reader.bytesOfLast()) continue;
    result.different = reader.frames();
    result.difference = "recorded: " + recorded + "; now: " + answerText(frame->call);
    break;
  }
  result.frames = reader.frames();
  result.cutOff = reader.cutOff();
  if (result.fault.empty()) result.fault = reader.fault();
  return result;
}

}  // namespace coterie::dispatch
