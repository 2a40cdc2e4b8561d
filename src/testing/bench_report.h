// What every benchmark prints and writes: figures with name, unit, value and the case they belong to, as a table and as build/bench/NAME.json.
//
// The JSON: {"bench", "commit" ($COTERIE_COMMIT), "seed", "repetitions", "machine": {"cpus", "model", "kernel", "governor"}, "figures": [{"name",
// "unit", "value", "low", "high", "case": {...}}]}; low and high (95 % interval) only where given. Case values that are numbers are written as
// numbers. Not thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace coterie::testing {

struct BenchCase {
  std::string key;
  std::string value;
  bool number{false};
  BenchCase(std::string k, std::string v) : key(std::move(k)), value(std::move(v)) {}
  BenchCase(std::string k, const char* v) : key(std::move(k)), value(v) {}
  BenchCase(std::string k, std::int64_t v) : key(std::move(k)), value(std::to_string(v)), number(true) {}
  BenchCase(std::string k, int v) : key(std::move(k)), value(std::to_string(v)), number(true) {}
};

struct Figure {
  std::string name;
  std::string unit;
  double value{0};
  std::vector<BenchCase> of;  // the case
  std::optional<double> low;
  std::optional<double> high;
};

struct BenchMachine {
  int cpus{0};  // that this process may use
  std::string model;
  std::string kernel;
  std::string governor;  // "none" where the machine does not say
};
[[nodiscard]] BenchMachine thisMachine();

class BenchReport {
 public:
  BenchReport(std::string bench, std::uint64_t seed, int repetitions);
  void add(Figure figure) { figures_.push_back(std::move(figure)); }
  [[nodiscard]] const std::vector<Figure>& figures() const { return figures_; }
  // One row per case, one column per figure name (with its unit), in the order of first appearance.
  [[nodiscard]] std::string table() const;
  [[nodiscard]] std::string json() const;
  // Creates the folder. Errors: Unavailable where the file cannot be written.
  [[nodiscard]] Status write(const std::string& path) const;

 private:
  std::string bench_;
  std::uint64_t seed_;
  int repetitions_;
  BenchMachine machine_;
  std::vector<Figure> figures_;
};

// What a figure has to reach.
struct BenchTarget {
  enum class Bound : std::uint8_t { None, AtMost, AtLeast };
  Bound bound{Bound::None};
  double value{0};
};

// A bench's figures one by one: each is printed with what it has to reach and whether it did, and added to the report.
class BenchVerdicts {
 public:
  explicit BenchVerdicts(BenchReport& report) : report_(report) {}
  void add(Figure figure, BenchTarget target = {});
  // A figure for which there were too few samples: not held.
  void tooFew(const std::string& name);
  [[nodiscard]] bool good() const { return good_; }

 private:
  BenchReport& report_;
  bool good_{true};
};

// The value of `--name VALUE` or `--name=VALUE`; `otherwise` if it is not there.
[[nodiscard]] std::string benchOption(int argc, char** argv, std::string_view name, std::string otherwise);
[[nodiscard]] bool benchFlag(int argc, char** argv, std::string_view name);  // "--name" stands alone

// For the beginning of a bench's main: true if every argument is one of these (`options` take a value). Else it says what there is; an option that is
// not understood never starts a long run of something else.
[[nodiscard]] bool benchArguments(int argc, char** argv, std::initializer_list<std::string_view> flags,
                                  std::initializer_list<std::string_view> options);

// The q-quantile (0..1) of the values, nearest rank; 0 if there are none.
[[nodiscard]] double quantile(std::vector<double> values, double q);
[[nodiscard]] double geometricMean(const std::vector<double>& values);
// Slope of the least-squares line through (log x, log y).
[[nodiscard]] double logLogSlope(const std::vector<std::pair<double, double>>& points);

}  // namespace coterie::testing
