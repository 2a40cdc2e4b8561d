#include "agent/apply_batch.h"

#include <cassert>
#include <utility>

namespace coterie::agent {

ApplyBatch::ApplyBatch(std::vector<ApplyStep> steps) : steps_(std::move(steps)), marks_(std::make_unique<Mark[]>(steps_.size())) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    for ([[maybe_unused]] const int other : steps_[i].waitsFor) assert(other >= 0 && static_cast<std::size_t>(other) < i);
  }
}

bool ApplyBatch::allFinal() const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const ApplyState seen = state(i);
    if (seen == ApplyState::Waiting || seen == ApplyState::Running) return false;
  }
  return true;
}

void ApplyBatch::refuse(std::size_t index, int error) {
  marks_[index].error.store(error, std::memory_order_relaxed);
  marks_[index].state.store(ApplyState::Failed, std::memory_order_release);
}

void ApplyBatch::cancelWaiting() {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    ApplyState expected = ApplyState::Waiting;
    marks_[i].state.compare_exchange_strong(expected, ApplyState::Skipped, std::memory_order_acq_rel);
  }
}

ApplyBatch::Readiness ApplyBatch::readiness(std::size_t index) const noexcept {
  Readiness result = Readiness::Ready;
  for (const int other : steps_[index].waitsFor) {
    const ApplyState seen = state(static_cast<std::size_t>(other));
    if (seen == ApplyState::Failed || seen == ApplyState::Skipped) return Readiness::Never;
    if (seen != ApplyState::Done) result = Readiness::NotYet;
  }
  return result;
}

int ApplyBatch::claim() noexcept {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (state(i) != ApplyState::Waiting) continue;
    const Readiness ready = readiness(i);
    if (ready == Readiness::NotYet) continue;
    ApplyState expected = ApplyState::Waiting;
    const ApplyState next = ready == Readiness::Ready ? ApplyState::Running : ApplyState::Skipped;
    const bool claimed = marks_[i].state.compare_exchange_strong(expected, next, std::memory_order_acq_rel);
    if (claimed && ready == Readiness::Ready) return static_cast<int>(i);
  }
  return -1;
}

void ApplyBatch::finish(std::size_t index, int error) noexcept {
  marks_[index].error.store(error, std::memory_order_relaxed);
  marks_[index].state.store(error == 0 ? ApplyState::Done : ApplyState::Failed, std::memory_order_release);
}

bool ApplyBatch::workOne(Execute execute) noexcept {
  const int index = claim();
  if (index < 0) return false;
  int error = 0;
  for (const PreparedWrite& write : steps_[static_cast<std::size_t>(index)].change.writes) {
    error = execute(write);
    if (error != 0) break;
  }
  finish(static_cast<std::size_t>(index), error);
  return true;
}

}  // namespace coterie::agent
