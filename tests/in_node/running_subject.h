// A subject of the bench: a process tree that runs a scenario's services under one policy, and that can be frozen and thawed as one.
//
// A slice is a span of work between a thaw and a freeze: at least 0.25 s, 10 requests, and one of every service; the first 50 ms after the thaw do
// not count. Runs under way count in part (shared_page.h). Source: benches.md ("Noise"). Errors: SubjectNotReady, SubjectFailed, SubjectDied,
// NoProgress. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "scenario.h"
#include "shared_page.h"
#include "testing/freezable.h"

namespace coterie::in_node {

struct ServiceFigures {
  double throughput{0};  // requests/s, over all slices
  Nanos p50{};
  Nanos p99{};  // zero: fewer than 300 samples
  std::int64_t samples{0};
  std::int64_t failed{0};
};

// What was done in a counted span, or in several.
struct Work {
  std::vector<double> requests;  // per service
  Nanos time{};                  // active

  Work& operator+=(const Work& other);
  [[nodiscard]] double logRate() const;  // log of the geometric mean over the services of requests/s; all must have done something
};

class RunningSubject {
 public:
  // Starts the subject's process and waits until it is ready.
  [[nodiscard]] static Result<std::unique_ptr<RunningSubject>> start(const Scenario& scenario, const Subject& subject, const std::string& label);
  ~RunningSubject();
  RunningSubject(const RunningSubject&) = delete;
  RunningSubject& operator=(const RunningSubject&) = delete;

  Status thaw();
  Status freeze();
  // Runs one slice; the subject is frozen afterwards.
  [[nodiscard]] Result<Work> slice();
  // Runs a fixed amount of work on for a while at most: active seconds from the first arrival to the last answer, 0 while there is work left. Before
  // and after, the subject is frozen.
  [[nodiscard]] Result<double> finishWithin(Seconds time);
  [[nodiscard]] std::vector<ServiceFigures> figures() const;
  [[nodiscard]] const SharedPage& page() const { return *page_; }
  [[nodiscard]] bool running() { return process_->running(); }
  [[nodiscard]] std::string failure() const { return page_->failure.data(); }

 private:
  struct Reading {
    Nanos at{};  // active time
    std::vector<double> work;
  };
  RunningSubject() = default;
  [[nodiscard]] Reading read() const;
  void untilFirstAnswers();

  std::size_t services_{0};
  SharedPage* page_{nullptr};
  std::unique_ptr<testing::FreezableProcess> process_;
  Nanos frozenSince_{};
  Work counted_;  // over all slices
};

// A few slices of one subject alone: requests/s, geometric mean over its services.
[[nodiscard]] Result<double> throughputAlone(const Scenario& scenario, const Subject& subject);

}  // namespace coterie::in_node
