// A load of requests on one service through a Station and a ModelBackend, as the gateway would, without HTTP: a closed loop that keeps a number of
// requests outstanding, or single requests offered at times of the caller's choice.
//
// The same for every subject of a bench. Counts and latencies go to the counters, each answer to the observer, if there is one. Thread rule: the
// subject's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dispatch/station.h"
#include "ports/clock.h"
#include "ports/model_backend.h"
#include "shared_page.h"

namespace coterie::in_node {

struct AnswerSeen {
  LaneClass laneClass{LaneClass::Own};
  int lane{0};  // rank among the instance's lanes of its class
  Instant submitted{};
  Instant dispatched{};
  Instant answered{};
  Nanos cpu{};
  bool good{true};
};

struct ClosedLoopOptions {
  int outstanding{4};  // 0: only what is offered
  int requests{0};     // then stop; 0: run on
  Nanos initialRun{Millis(10)};
  std::vector<Shape> shapes;                        // one per input
  std::function<void(const AnswerSeen&)> observer;  // may be empty
};

class ClosedLoop final : public ModelBackend::Listener {
 public:
  ClosedLoop(EventLoop& loop, ModelBackend& backend, ServiceCounters& counters, const ClosedLoopOptions& options, std::function<void()> finished);
  ~ClosedLoop() override;

  void start();
  void setOutstanding(int outstanding);  // what runs beyond it is not replaced
  // One request more; its latency counts from `intended`. A refusal counts as failed.
  void offer(Instant intended);
  void laneReady(const LaneInfo& lane) override;
  void laneGone(const LaneRef& lane) override;
  // The first `own` of the instance's own lanes and the first `loan` of its loan lanes may run.
  void setLanes(InstanceId instance, int own, int loan);
  [[nodiscard]] dispatch::Demand demand() const { return station_.demand(service_, loop_.clock().now()); }
  [[nodiscard]] bool queuedBeyondOwnLanes() const { return station_.queued() > 0; }

 private:
  struct Lane {
    LaneRef ref;
    LaneClass laneClass{LaneClass::Own};
    int rank{0};  // among the instance's lanes of its class
    dispatch::SlotId slot;
    bool present{true};
    Nanos run{};  // what a run takes on this lane, smoothed
  };
  struct Allowance {
    int own{1};
    int loan{0};
  };

  [[nodiscard]] bool submit(Instant intended);
  void fill();
  void pump();
  void completed(std::size_t lane, dispatch::RequestHandle request, Instant submitted, RunOutcome outcome);
  [[nodiscard]] bool open(const Lane& lane) const;

  EventLoop& loop_;
  ModelBackend& backend_;
  ServiceCounters& counters_;
  ClosedLoopOptions options_;
  std::function<void()> finished_;
  dispatch::Station station_;
  dispatch::ServiceId service_;
  std::vector<Lane> lanes_;
  std::map<InstanceId, Allowance> allowances_;
  std::shared_ptr<InputCell> cell_;
  std::vector<InputTensor> inputs_;
  std::vector<int> outputs_;
  dispatch::Decisions decisions_;
  int submitted_{0};
  int answered_{0};
  bool pumping_{false};
  TimerHandle timer_;
  TimerHandle retry_;
  std::shared_ptr<bool> alive_{std::make_shared<bool>(true)};  // a backend that goes later completes what runs
};

}  // namespace coterie::in_node
