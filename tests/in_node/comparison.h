// Runs two subjects in ABBA slices, one frozen while the other works, and reads the ratio of their throughput.
//
// A slice lasts max(0.25 s, 10 requests, 4 of every service); the first 50 ms after a thaw do not count. The work of a slice is the geometric mean
// over the services of their throughput. The interval is read after 12, 24 and 48 blocks, or at the time limit; it stops early when its half-width is
// at most 3 %. Source: benches.md ("Noise"). Wall time: minutes. Thread-compatible.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "scenario.h"
#include "shared_page.h"
#include "testing/freezable.h"
#include "testing/paired.h"

namespace coterie::in_node {

struct ServiceFigures {
  double throughput{0};  // requests/s, over all slices
  Nanos p50{};
  Nanos p99{};  // zero: fewer than 300 samples
  std::int64_t samples{0};
  std::int64_t failed{0};
};

class RunningSubject {
 public:
  // Starts the subject's process and waits until it is ready and warm; it is left frozen.
  [[nodiscard]] static Result<std::unique_ptr<RunningSubject>> start(const Scenario& scenario, const Subject& subject, const std::string& label);
  ~RunningSubject();

  Status thaw();
  Status freeze();
  // Runs one slice; log of the geometric mean throughput.
  [[nodiscard]] Result<double> slice();
  [[nodiscard]] std::vector<ServiceFigures> figures() const;
  [[nodiscard]] SharedPage& page() { return *page_; }
  [[nodiscard]] bool running() { return process_->running(); }
  [[nodiscard]] std::string failure() const;

 private:
  RunningSubject() = default;
  struct Reading {
    std::int64_t completed{0};
    std::int64_t at{0};
  };
  [[nodiscard]] Reading read(std::size_t service) const;

  std::size_t services_{0};
  SharedPage* page_{nullptr};
  std::unique_ptr<testing::FreezableProcess> process_;
  std::int64_t frozenSince_{0};
  std::vector<std::int64_t> counted_;  // completions inside counted spans
  std::vector<std::int64_t> spent_;    // active nanoseconds of them
};

struct Comparison {
  testing::Ratio ratio;  // b / a
  std::vector<ServiceFigures> a;
  std::vector<ServiceFigures> b;
};

[[nodiscard]] Result<Comparison> compare(const Scenario& scenario, const Subject& a, const Subject& b, Seconds limit);

// A short look at one subject alone: log of its geometric mean throughput over a few slices.
[[nodiscard]] Result<double> glance(const Scenario& scenario, const Subject& subject);

// A run of a fixed amount of work: active seconds from the first arrival to the last answer.
[[nodiscard]] Result<double> makespan(const Scenario& scenario, const Subject& subject);

}  // namespace coterie::in_node
