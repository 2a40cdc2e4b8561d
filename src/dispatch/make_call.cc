#include "dispatch/make_call.h"

#include <variant>

namespace coterie::dispatch {

namespace {

struct Make {
  Station& station;
  void operator()(calls::Open& call) const { station.configure(call.options); }
  void operator()(calls::Configure& call) const { station.configure(call.options); }
  void operator()(calls::SetTenant& call) const { station.setTenant(call.tenant, call.options); }
  void operator()(calls::AddService& call) const { static_cast<void>(station.addService(call.options)); }
  void operator()(calls::SetService& call) const { station.setService(call.service, call.options); }
  void operator()(calls::RemoveService& call) const { station.removeService(call.service, call.now); }
  void operator()(calls::AddSlot& call) const { call.answer = station.addSlot(call.service, call.slotClass, call.cookie); }
  void operator()(calls::OpenSlot& call) const { station.setSlotOpen(call.slot, call.open); }
  void operator()(calls::RemoveSlot& call) const { station.removeSlot(call.slot); }
  void operator()(calls::Enqueue& call) const { call.answer = station.enqueue(call.request, call.now); }
  void operator()(calls::Foresee& call) const { call.answer = station.foresee(call.request, call.now); }
  void operator()(calls::Next& call) const {
    call.answer.clear();
    station.next(call.now, call.answer);
  }
  void operator()(calls::Complete& call) const { call.answer = station.completed(call.request, call.usage, call.outcome, call.now); }
  void operator()(calls::Cancel& call) const { call.answer = station.cancel(call.request, call.now); }
};

}  // namespace

void makeCall(Station& station, Call& call) { std::visit(Make{station}, call); }

}  // namespace coterie::dispatch
