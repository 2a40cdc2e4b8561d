#include "session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

namespace coterie::in_node {

namespace {

constexpr int kReference = -1;
constexpr std::size_t kGlance = 3;        // blocks
constexpr std::size_t kFewestBlocks = 4;  // however short the time is
constexpr double kBeaten = 0.1;           // log ratio
using SteadyClock = std::chrono::steady_clock;

Bytes available() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return Bytes(std::atoll(line.c_str() + line.find(':') + 1) * 1024);
  }
  return Bytes(INT64_MAX / 2);
}

// The subjects that are resident together, and what their blocks have shown so far.
class Batch {
 public:
  Batch(const Scenario& scenario, RunningSubject& reference, const Subject& referenceName, const SessionOptions& options, Rng& rng)
      : scenario_(scenario), reference_(reference), referenceName_(referenceName), options_(options), rng_(rng) {}

  // Starts rivals from `first` on until memory is short or all are there; the number of those that run.
  [[nodiscard]] Result<std::size_t> start(const std::vector<Rival>& rivals, std::size_t first);
  Status measure(SteadyClock::time_point end);
  [[nodiscard]] std::vector<Compared> take();

 private:
  struct Member {
    Rival rival;
    std::unique_ptr<RunningSubject> running;
    std::vector<double> logRatios;
    testing::Decision decision;
  };

  void dropBeatenCandidates();
  Status round(std::size_t block, const std::vector<int>& open, Work& reference, std::vector<Work>& rivals);

  const Scenario& scenario_;
  RunningSubject& reference_;
  const Subject& referenceName_;
  const SessionOptions& options_;
  Rng& rng_;
  std::vector<Member> members_;
};

Result<std::size_t> Batch::start(const std::vector<Rival>& rivals, std::size_t first) {
  constexpr std::int64_t kReserve = 2LL << 30;  // for what else runs on the machine
  std::int64_t largest = 0;
  for (std::size_t i = first; i < rivals.size(); ++i) {
    const std::int64_t before = available().value;
    if (i > first && before - largest - largest / 4 < kReserve) break;
    auto running = RunningSubject::start(scenario_, rivals[i].subject, std::to_string(i));
    if (!running) return running.error();
    if (auto status = (*running)->slice(); !status) return status.error();  // warms caches and estimates; leaves it frozen
    largest = std::max(largest, before - available().value);
    members_.push_back({rivals[i], std::move(running).value(), {}, {}});
  }
  return members_.size();
}

Status Batch::round(std::size_t block, const std::vector<int>& open, Work& reference, std::vector<Work>& rivals) {
  std::vector<int> order = drawHalf(open, rng_);
  for (std::size_t i = order.size(); i > 0; --i) order.push_back(order[i - 1]);
  for (const int which : order) {
    const auto index = static_cast<std::size_t>(std::max(which, 0));
    const auto work = which == kReference ? reference_.slice() : members_[index].running->slice();
    if (!work) return work.error();
    (which == kReference ? reference : rivals[index]) += *work;
    if (options_.observer) options_.observer({which == kReference ? referenceName_.name() : members_[index].rival.subject.name(), block, *work});
  }
  return {};
}

// Candidates that are 10 % worse than the best candidate of their policy after a few blocks.
void Batch::dropBeatenCandidates() {
  const auto mean = [](const Member& member) {
    return std::accumulate(member.logRatios.begin(), member.logRatios.end(), 0.0) / static_cast<double>(member.logRatios.size());
  };
  for (Member& member : members_) {
    const bool beaten = std::any_of(members_.begin(), members_.end(), [&](const Member& other) {
      return other.rival.candidate && other.rival.subject.policy == member.rival.subject.policy && mean(other) < mean(member) - kBeaten;
    });
    if (member.rival.candidate && !member.rival.measuredAnyway && beaten)
      member.decision = {testing::Verdict::Inconclusive, testing::pairedRatio(member.logRatios)};
  }
}

Status Batch::measure(SteadyClock::time_point end) {
  const auto began = SteadyClock::now();
  const auto perBlock = (end - began) / testing::kLooks.back();
  for (std::size_t block = 0;; ++block) {
    std::vector<int> open;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].decision.verdict == testing::Verdict::Open) open.push_back(static_cast<int>(i));
    }
    if (open.empty()) return {};
    Work reference;
    std::vector<Work> rivals(members_.size());
    const auto from = SteadyClock::now();
    do {
      if (auto status = round(block, open, reference, rivals); !status) return status;
    } while (SteadyClock::now() - from < perBlock);
    const testing::Look look = block + 1 >= kFewestBlocks && SteadyClock::now() > end ? testing::Look::Last : testing::Look::Planned;
    for (const int which : open) {
      Member& member = members_[static_cast<std::size_t>(which)];
      member.logRatios.push_back(reference.logRate() - rivals[static_cast<std::size_t>(which)].logRate());
      member.decision = testing::decide(member.logRatios, member.rival.bound, look);
    }
    if (block + 1 == kGlance) dropBeatenCandidates();
  }
}

std::vector<Compared> Batch::take() {
  std::vector<Compared> compared;
  for (Member& member : members_) compared.push_back({member.decision, member.running->figures()});
  members_.clear();
  return compared;
}

}  // namespace

std::vector<int> drawHalf(const std::vector<int>& rivals, Rng& rng) {
  std::vector<int> shuffled = rivals;
  for (std::size_t i = shuffled.size(); i > 1; --i)
    std::swap(shuffled[i - 1], shuffled[static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(i) - 1))]);
  const auto references = static_cast<std::size_t>(std::max(1L, std::lround(std::sqrt(static_cast<double>(rivals.size())))));
  std::vector<int> half;
  std::size_t next = 0;
  for (std::size_t part = 0; part < references; ++part) {  // equal parts, the reference in the middle of each
    const std::size_t end = (part + 1) * shuffled.size() / references;
    const std::size_t middle = next + (end - next + static_cast<std::size_t>(rng.between(0, 1))) / 2;
    for (; next < middle; ++next) half.push_back(shuffled[next]);
    half.push_back(kReference);
    for (; next < end; ++next) half.push_back(shuffled[next]);
  }
  return half;
}

Result<SessionResult> compareAll(const Scenario& scenario, const Subject& reference, const std::vector<Rival>& rivals,
                                 const SessionOptions& options) {
  const auto began = SteadyClock::now();
  auto running = RunningSubject::start(scenario, reference, "reference");
  if (!running) return running.error();
  if (auto status = (*running)->slice(); !status) return status.error();
  SessionResult result;
  Rng rng(options.seed);
  while (result.rivals.size() < rivals.size()) {
    Batch batch(scenario, **running, reference, options, rng);
    const auto size = batch.start(rivals, result.rivals.size());
    if (!size) return size.error();
    // What time is left is shared by the batches in proportion to their rivals.
    const auto left = began + options.limit - SteadyClock::now();
    const auto end = SteadyClock::now() + left * static_cast<std::int64_t>(*size) / static_cast<std::int64_t>(rivals.size() - result.rivals.size());
    if (auto status = batch.measure(end); !status) return status.error();
    for (Compared& compared : batch.take()) result.rivals.push_back(std::move(compared));
  }
  result.reference = (*running)->figures();
  return result;
}

}  // namespace coterie::in_node
