#include "base/histogram.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace coterie {
namespace {

RC_GTEST_PROP(Histogram, quantileIsWithinSevenPercentAboveTheExactOne, (std::vector<std::uint32_t> values)) {
  RC_PRE(!values.empty());
  Histogram histogram;
  for (const auto v : values) histogram.record(v);
  std::sort(values.begin(), values.end());
  for (const double q : {0.5, 0.9, 0.99, 1.0}) {
    const auto rank = std::max<std::size_t>(1, static_cast<std::size_t>(q * static_cast<double>(values.size()) + 0.5));
    const auto exact = static_cast<std::int64_t>(values[rank - 1]);
    RC_ASSERT(histogram.quantile(q) >= exact);
    RC_ASSERT(histogram.quantile(q) <= exact + exact / 15 + 1);
  }
}

}  // namespace
}  // namespace coterie
