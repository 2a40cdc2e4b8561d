#include "testing/fake_backend.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <utility>

namespace coterie::testing {

namespace {

class HeapCell final : public InputCell {
 public:
  HeapCell(std::size_t bytes, std::shared_ptr<std::size_t> cells, std::shared_ptr<std::size_t> used)
      : size_((bytes + 63) / 64 * 64),
        memory_(static_cast<std::byte*>(std::aligned_alloc(64, size_))),
        cells_(std::move(cells)),
        used_(std::move(used)) {
    ++*cells_;
    *used_ += size_;
  }
  ~HeapCell() override {
    --*cells_;
    *used_ -= size_;
    std::free(memory_);
  }
  std::span<std::byte> bytes() override { return {memory_, size_}; }

 private:
  std::size_t size_;
  std::byte* memory_;
  std::shared_ptr<std::size_t> cells_;
  std::shared_ptr<std::size_t> used_;
};

class EchoAnswer final : public Answer {
 public:
  std::span<const OutputTensor> outputs() const override { return outputs_; }
  void add(int output, Shape shape, std::vector<std::byte> bytes) {
    bytes_.push_back(std::move(bytes));
    outputs_.push_back({output, std::move(shape), bytes_.back()});
  }

 private:
  std::vector<OutputTensor> outputs_;
  std::vector<std::vector<std::byte>> bytes_;
};

bool agree(const InputTensor& a, const InputTensor& b) {
  return a.input == b.input && std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1, b.shape.end());
}

}  // namespace

FakeBackend::FakeBackend(EventLoop& loop, ModelSignature signature, Mode mode)
    : loop_(loop),
      signature_(std::move(signature)),
      mode_(mode),
      cells_(std::make_shared<std::size_t>(0)),
      used_(std::make_shared<std::size_t>(0)),
      self_(std::make_shared<FakeBackend*>(this)) {}

FakeBackend::~FakeBackend() { *self_ = nullptr; }

void FakeBackend::setListener(Listener* listener) {
  listener_ = listener;
  if (listener_ == nullptr) return;
  for (const LaneInfo& lane : std::vector(lanes_)) listener_->laneReady(lane);
}

Result<std::shared_ptr<InputCell>> FakeBackend::allocate(std::size_t bytes) {
  if (bytes > arenaBytes) return Error{Code::TooLarge, "CellTooLarge", "the input is larger than the arena"};
  if (*used_ + bytes > arenaBytes) return Error{Code::ResourceExhausted, "ArenaFull", "the arena is full"};
  return std::shared_ptr<InputCell>(std::make_shared<HeapCell>(bytes, cells_, used_));
}

void FakeBackend::run(const LaneRef& lane, RunRequest request, Completion completion) {
  assert(!running_.contains(lane));
  assert(!request.members.empty() && std::cmp_less_equal(request.members.size(), mostInBatch(signature_)));
  ++runCount;
  running_.insert_or_assign(lane, Running{std::move(request), std::move(completion), false});
  if (mode_ == Mode::Echo) {
    loop_.post([self = self_, lane] {
      if (*self != nullptr) (*self)->finish(lane.instance.value, lane.lane.value);
    });
  }
}

void FakeBackend::terminate(const LaneRef& lane) {
  if (const auto found = running_.find(lane); found != running_.end()) found->second.terminated = true;
}

void FakeBackend::addLane(int instance, int lane, LaneClass laneClass) {
  gone_.erase(InstanceId(instance));
  lanes_.push_back({{InstanceId(instance), LaneId(lane)}, laneClass});
  if (listener_ != nullptr) listener_->laneReady(lanes_.back());
}

void FakeBackend::removeLane(int instance, int lane) {
  const LaneRef ref{InstanceId(instance), LaneId(lane)};
  std::erase_if(lanes_, [&](const LaneInfo& info) { return info.ref == ref; });
  if (listener_ != nullptr) listener_->laneGone(ref);
}

void FakeBackend::complete(const LaneRef& lane, RunOutcome outcome) {
  const auto found = running_.find(lane);
  assert(found != running_.end());
  const Completion completion = std::move(found->second.completion);
  running_.erase(found);
  completion(std::move(outcome));
}

std::unique_ptr<Answer> FakeBackend::echo(const RunRequest& request) const {
  auto answer = std::make_unique<EchoAnswer>();
  const std::vector<InputTensor>& first = request.members.front().inputs;
  for (const int output : request.outputs) {
    const auto found = std::find_if(first.begin(), first.end(), [&](const InputTensor& each) { return each.input == output; });
    assert(found != first.end());
    const auto place = static_cast<std::size_t>(found - first.begin());
    Shape shape = found->shape;
    std::vector<std::byte> bytes;
    for (const RunMember& member : request.members) {
      const InputTensor& input = member.inputs.at(place);
      if (&member != &request.members.front()) {
        assert(member.inputs.size() == first.size() && agree(input, *found));
        shape.front() += input.shape.front();
      }
      const std::span<const std::byte> rows = member.cell->bytes().subspan(input.offset, input.length);
      bytes.insert(bytes.end(), rows.begin(), rows.end());
    }
    if (!shape.empty() && rowsToo != 0) {
      bytes.resize(bytes.size() / static_cast<std::size_t>(shape.front()) * static_cast<std::size_t>(shape.front() + rowsToo));
      shape.front() += rowsToo;
    }
    answer->add(output, std::move(shape), std::move(bytes));
  }
  return answer;
}

void FakeBackend::finish(int instance, int lane) {
  const LaneRef ref{InstanceId(instance), LaneId(lane)};
  const Running& running = running_.at(ref);
  if (running.terminated) return complete(ref, {Error{Code::Cancelled, "Terminated", "the run was stopped"}, Micros(10), {}, Micros(10)});
  if (running.request.sequence) keepState(ref.instance, *running.request.sequence);
  complete(ref, {echo(running.request), Micros(10), {}, Micros(10)});
}

void FakeBackend::finishWhateverWasSaid(int instance, int lane) {
  running_.at({InstanceId(instance), LaneId(lane)}).terminated = false;
  finish(instance, lane);
}

void FakeBackend::keepState(InstanceId instance, const SequencePart& part) {
  assert(part.handle != 0 && (part.fresh || states_.contains({instance, part.handle})));
  const std::pair key(instance, part.handle);
  const int began = part.fresh ? 0 : part.takesBack ? before_.at(key) : states_.at(key);
  if (part.end) {
    states_.erase(key);
  } else {
    before_[key] = began;
    states_[key] = began + 1;
  }
}

void FakeBackend::endInstance(int instance) {
  gone_.insert(InstanceId(instance));
  std::erase_if(states_, [&](const auto& each) { return each.first.first == InstanceId(instance); });
}

void FakeBackend::fail(int instance, int lane, Error error) {
  complete({InstanceId(instance), LaneId(lane)}, {std::move(error), Micros(10), {}, Micros(10)});
}

void FakeBackend::crash(int instance, int lane) {
  endInstance(instance);
  complete({InstanceId(instance), LaneId(lane)},
           {Error{Code::Unavailable, "InstanceCrashed", "the worker died"}, Micros(10), {}, Micros(10), false, true});
  removeLane(instance, lane);
}

void FakeBackend::loseUnstarted(int instance, int lane) {
  endInstance(instance);
  complete({InstanceId(instance), LaneId(lane)}, {Error{Code::Unavailable, "InstanceLost", "the worker went"}, {}, {}, {}, true, false});
  removeLane(instance, lane);
}

}  // namespace coterie::testing
