// What lending costs an owner and brings a borrower.
//
// The owner (MobileNetV2) has Poisson arrivals at 30 % of what its own CPUs carry; the borrower (ResNet50) keeps 2 requests per CPU outstanding.
// Three conditions take turns, A B C C B A within a block: the owner alone (the borrower is there and idle), with the borrower and lending, with the
// borrower and a static partition (lending off). The same arrivals in all phases of a half block. The first part of a phase, in which the last one
// drains, does not count. Latency counts from the intended arrival.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "elastic_node.h"
#include "testing/paired.h"

namespace coterie::elastic {

struct LendingOptions {
  int blocks{8};
  Nanos phase{Seconds(5)};
  double load{0.3};  // of the owner's CPUs
};

struct LendingFigures {
  double ownerRate{0};        // arrivals/s
  std::vector<double> alone;  // owner's latencies, ms
  std::vector<double> lending;
  std::vector<double> partition;
  double borrowerLending{0};  // answers/s
  double borrowerPartition{0};
  testing::Ratio ownerP50;  // per half block
  testing::Ratio gain;
  std::int64_t failed{0};
  double foreignCpus{0};  // used by others meanwhile
};

// Services `owner` and `borrower` of the node are started here and stay.
[[nodiscard]] Result<LendingFigures> measureLending(ElasticNode& node, std::size_t owner, std::size_t borrower, const LendingOptions& options);

}  // namespace coterie::elastic
