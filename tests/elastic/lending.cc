#include "lending.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/rng.h"
#include "testing/bench_report.h"
#include "testing/foreign_load.h"

namespace coterie::elastic {

namespace {

constexpr Nanos kDrain = Millis(700);
enum Condition : std::size_t { Alone, Lending, Partition };

struct PhaseFigures {
  std::vector<double> owner;  // latencies, ms
  double borrowerRate{0};
};

class Duel {
 public:
  Duel(ElasticNode& node, std::size_t owner, std::size_t borrower) : node_(node), owner_(owner), borrower_(borrower) {}

  Status start();
  // The rate of a closed loop of one.
  Result<double> ownerAlone();
  Result<PhaseFigures> phase(Condition condition, double rate, std::uint64_t seed, Nanos length);
  [[nodiscard]] std::int64_t failed() const { return ownerCounters_.failed.load() + borrowerCounters_.failed.load(); }

 private:
  void arrive(Instant due);

  ElasticNode& node_;
  std::size_t owner_;
  std::size_t borrower_;
  in_node::ServiceCounters ownerCounters_;
  in_node::ServiceCounters borrowerCounters_;
  std::vector<in_node::AnswerSeen> ownerAnswers_;
  std::vector<Instant> borrowerAnswers_;
  Rng rng_{1};
  double rate_{0};
  Instant arrivalsEnd_{};
  TimerHandle arrival_;
};

Status Duel::start() {
  if (Status status = node_.serve(owner_, "mobilenet_v2"); !status) return status;
  if (Status status = node_.serve(borrower_, "resnet50"); !status) return status;
  in_node::ClosedLoopOptions load;
  load.outstanding = 0;
  load.observer = [this](const in_node::AnswerSeen& seen) { ownerAnswers_.push_back(seen); };
  node_.node().beginLoad(owner_, ownerCounters_, load, {});
  load.observer = [this](const in_node::AnswerSeen& seen) { borrowerAnswers_.push_back(seen.answered); };
  node_.node().beginLoad(borrower_, borrowerCounters_, load, {});
  return node_.pass(Seconds(1));
}

Result<double> Duel::ownerAlone() {
  constexpr Seconds kTime{3};
  node_.node().load(owner_).setOutstanding(node_.home(owner_).count());
  if (const Status status = node_.pass(Seconds(1)); !status) return status.error();
  ownerAnswers_.clear();
  if (const Status status = node_.pass(kTime); !status) return status.error();
  const double rate = static_cast<double>(ownerAnswers_.size()) / std::chrono::duration<double>(kTime).count();
  node_.node().load(owner_).setOutstanding(0);
  if (const Status status = node_.pass(kDrain); !status) return status.error();
  return rate;
}

void Duel::arrive(Instant due) {
  if (due >= arrivalsEnd_) return;
  arrival_ = node_.loop().after(due - node_.now(), [this, due] {
    node_.node().load(owner_).offer(due);
    node_.node().drc().demandChanged(GroupId(static_cast<std::int32_t>(owner_)));
    arrive(due + Nanos(static_cast<std::int64_t>(-std::log(1 - rng_.unit()) / rate_ * 1e9)));
  });
}

Result<PhaseFigures> Duel::phase(Condition condition, double rate, std::uint64_t seed, Nanos length) {
  node_.node().drc().setLending(condition == Lending);
  node_.node().load(borrower_).setOutstanding(condition == Alone ? 0 : 2 * node_.node().cpus());
  node_.node().drc().demandChanged(GroupId(static_cast<std::int32_t>(borrower_)));
  rng_ = Rng(seed);
  rate_ = rate;
  const Instant begin = node_.now() + kDrain;
  const Instant end = begin + length;
  arrivalsEnd_ = end;
  arrive(node_.now() + Nanos(static_cast<std::int64_t>(-std::log(1 - rng_.unit()) / rate_ * 1e9)));
  ownerAnswers_.clear();
  borrowerAnswers_.clear();
  if (const Status status = node_.passUntil(end); !status) return status.error();
  const std::size_t borrowed = borrowerAnswers_.size();
  if (const Status status = node_.pass(Millis(200)); !status) return status.error();  // for the owner's last answers
  PhaseFigures figures;
  for (const auto& seen : ownerAnswers_) {
    if (seen.submitted >= begin && seen.submitted < end) figures.owner.push_back(static_cast<double>((seen.answered - seen.submitted).count()) / 1e6);
  }
  std::vector<Instant> counted;
  for (std::size_t i = 0; i < borrowed; ++i) {
    if (borrowerAnswers_[i] >= begin) counted.push_back(borrowerAnswers_[i]);
  }
  if (counted.size() >= 2)
    figures.borrowerRate = static_cast<double>(counted.size() - 1) / std::chrono::duration<double>(counted.back() - counted.front()).count();
  return figures;
}

}  // namespace

Result<LendingFigures> measureLending(ElasticNode& node, std::size_t owner, std::size_t borrower, const LendingOptions& options) {
  Duel duel(node, owner, borrower);
  if (const Status status = duel.start(); !status) return status.error();
  const auto alone = duel.ownerAlone();
  if (!alone) return alone.error();
  const testing::ForeignLoad foreign({node.node().firstReady(owner).pid, node.node().firstReady(borrower).pid});
  LendingFigures figures;
  figures.ownerRate = options.load * *alone;
  std::vector<double> p50, gain, borrowedLending, borrowedPartition;
  for (int half = 0; half < 2 * options.blocks; ++half) {
    if (half % 4 == 0) std::fprintf(stderr, "elastic: lending, block %d of %d\n", half / 2 + 1, options.blocks);
    std::array<Condition, 3> order{Alone, Lending, Partition};
    if (half % 2 == 1) order = {Partition, Lending, Alone};
    std::array<PhaseFigures, 3> seen;
    for (const Condition condition : order) {
      auto phase = duel.phase(condition, figures.ownerRate, static_cast<std::uint64_t>(half) + 1, options.phase);
      if (!phase) return phase.error();
      seen[condition] = std::move(phase).value();
    }
    figures.alone.insert(figures.alone.end(), seen[Alone].owner.begin(), seen[Alone].owner.end());
    figures.lending.insert(figures.lending.end(), seen[Lending].owner.begin(), seen[Lending].owner.end());
    figures.partition.insert(figures.partition.end(), seen[Partition].owner.begin(), seen[Partition].owner.end());
    borrowedLending.push_back(seen[Lending].borrowerRate);
    borrowedPartition.push_back(seen[Partition].borrowerRate);
    if (seen[Alone].owner.empty() || seen[Lending].owner.empty() || seen[Partition].borrowerRate <= 0 || seen[Lending].borrowerRate <= 0)
      return Error{Code::Unavailable, "NoAnswers", "a phase of the lending part had too few answers"};
    p50.push_back(std::log(testing::quantile(seen[Lending].owner, 0.5) / testing::quantile(seen[Alone].owner, 0.5)));
    gain.push_back(std::log(seen[Lending].borrowerRate / seen[Partition].borrowerRate));
  }
  figures.ownerP50 = testing::pairedRatio(p50, 0.95);
  figures.gain = testing::pairedRatio(gain, 0.95);
  figures.borrowerLending = testing::geometricMean(borrowedLending);
  figures.borrowerPartition = testing::geometricMean(borrowedPartition);
  figures.failed = duel.failed();
  figures.foreignCpus = foreign.cpus();
  return figures;
}

}  // namespace coterie::elastic
