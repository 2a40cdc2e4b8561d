// Metrics with bounded labels, and their text form (Prometheus exposition format 0.0.4).
//
//   Registry registry;
//   registry.pin("tenant", "audio");
//   auto& requests = registry.counter({"coterie_requests_total", "Requests answered, by tenant and status class.", {"tenant", "code"}});
//   Counter& ok = requests.with({"audio", "2xx"});     // once; keep the reference
//   ok.add();                                          // hot path: one load and one store
//   std::string body = registry.scrape();              // Content-Type: kContentType
//
// Names are checked when a family is made (a wrong one is a broken invariant): prefix coterie_, lower case, counters end in _total (after the unit),
// times are given in Nanos and shown as _seconds, sizes as _bytes; HELP and TYPE on all. A family asked for twice is the same one. Cardinality: of
// each label (by its name, over all families) at most `maxLabelValues` values are shown; later ones become "other". Pinned values (configured names)
// do not count. Of all families together at most `maxSeries` series are shown (lines of the page; a histogram is its buckets and two more): what
// comes later is "other" in all its labels, one for each family. Whoever mirrors figures that are counted elsewhere says beginRound() before each
// round, so that what was set of several names that are one "other" is their sum. forget() drops a deleted name's series with their memory; if the
// name comes back they begin anew, which readers take for a restart. Thread rule: one writer per metric (its loop), with()/pin()/forget()/scrape()
// from any thread (a mutex, never taken by add/set/observe). References stay valid until one of their label's values is forgotten, else as long as
// the registry. Complexity: add, set O(1); observe O(buckets); with O(log series); forget and scrape O(series). Errors: none.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace coterie::prometheus {

inline constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

// One writer, any number of readers: no read-modify-write instruction.
class Cell {
 public:
  void set(std::int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(std::int64_t more) { set(get() + more); }
  [[nodiscard]] std::int64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

class Counter {  // never falls
 public:
  explicit Counter(const std::vector<std::int64_t>& /*none*/ = {}) {}
  void add(std::int64_t more = 1) { value_.add(more); }
  void add(Nanos more) { value_.add(more.count()); }
  void mirror(std::int64_t total) { sums_ ? value_.add(total) : value_.set(total); }  // for totals that are counted elsewhere
  [[nodiscard]] std::int64_t value() const { return value_.get(); }

 private:
  template <typename Metric>
  friend class Family;
  friend class Registry;
  void beginSum() { sums_ = true, value_.set(0); }
  static std::size_t lines(const std::vector<std::int64_t>& /*none*/) { return 1; }
  Cell value_;
  bool sums_{false};
};

class Gauge {
 public:
  explicit Gauge(const std::vector<std::int64_t>& /*none*/ = {}) {}
  void set(std::int64_t value) { sums_ ? value_.add(value) : value_.set(value); }
  void set(Nanos value) { set(value.count()); }
  void add(std::int64_t more) { value_.add(more); }
  [[nodiscard]] std::int64_t value() const { return value_.get(); }

 private:
  template <typename Metric>
  friend class Family;
  friend class Registry;
  void beginSum() { sums_ = true, value_.set(0); }
  static std::size_t lines(const std::vector<std::int64_t>& /*none*/) { return 1; }
  Cell value_;
  bool sums_{false};
};

class Histogram {
 public:
  explicit Histogram(const std::vector<std::int64_t>& bounds);
  void observe(std::int64_t value);
  void observe(Nanos value) { observe(value.count()); }
  // For distributions that are counted elsewhere: how many values are at most each bound, how many there are in all, and their sum.
  void mirror(const std::vector<std::int64_t>& atMost, std::int64_t count, std::int64_t sum);
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] std::int64_t sum() const { return sum_.get(); }
  [[nodiscard]] const std::vector<std::int64_t>& bounds() const { return bounds_; }
  [[nodiscard]] std::int64_t bucket(std::size_t i) const { return buckets_[i].get(); }  // not cumulative; the last one has no bound

 private:
  template <typename Metric>
  friend class Family;
  friend class Registry;
  void beginSum();
  static std::size_t lines(const std::vector<std::int64_t>& bounds) { return bounds.size() + 3; }
  std::vector<std::int64_t> bounds_;  // ascending, inclusive
  std::unique_ptr<Cell[]> buckets_;   // bounds + 1; each bucket only grows, so a scrape in between is at most behind
  Cell sum_;
  bool sums_{false};
};

enum class Unit : std::uint8_t {
  None,      // shown as it is
  Nanos,     // kept in ns, shown in seconds; the name ends in _seconds (counters: _seconds_total)
  MilliCpu,  // kept in thousandths, shown in CPUs; the name ends in _cpus
  Permille,  // kept in thousandths, shown as a ratio; the name ends in _ratio
  Bytes,     // the name ends in _bytes (counters: _bytes_total)
};

struct Description {
  std::string name;
  std::string help;
  std::vector<std::string> labels{};
  Unit unit{Unit::None};
};

class Registry;

template <typename Metric>
class Family {
 public:
  // Values in the order of the description's labels.
  Metric& with(std::initializer_list<std::string_view> values = {}) { return find({values.begin(), values.end()}); }
  Metric& find(std::vector<std::string> values);

 private:
  friend class Registry;
  Family(Registry& registry, Description description, std::vector<std::int64_t> bounds)
      : registry_(registry), description_(std::move(description)), bounds_(std::move(bounds)) {}

  Registry& registry_;
  Description description_;
  std::vector<std::int64_t> bounds_;  // histograms only
  std::map<std::vector<std::string>, Metric> series_;
  std::vector<std::string> folded_;  // the labels of the series that stands for all that came too late; empty: there is none
};

class Registry {
 public:
  // Of a series, the names of its labels and their values: is it to be shown?
  using Shown = std::function<bool(const std::vector<std::string>& labels, const std::vector<std::string>& values)>;

  explicit Registry(std::size_t maxLabelValues = 200, std::size_t maxSeries = 20'000) : maxLabelValues_(maxLabelValues), maxSeries_(maxSeries) {}
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  Family<Counter>& counter(const Description& description);
  Family<Gauge>& gauge(const Description& description);
  // Bounds: ascending, in the unit that is kept (Nanos: nanoseconds).
  Family<Histogram>& histogram(const Description& description, const std::vector<std::int64_t>& bounds);

  void pin(const std::string& label, const std::string& value);
  void forget(const std::string& label, const std::string& value);
  // Of the label these values are there: they are pinned, and pinned ones that are not among them are forgotten.
  void keepOnly(const std::string& label, const std::set<std::string>& present);

  // From here on until the next round, what is mirrored into a series of late names is added up.
  void beginRound();

  // All series, or those that `shown` says: sums over late names are not among these, whoever they are of.
  [[nodiscard]] std::string scrape(const Shown& shown = {}) const;

 private:
  template <typename Metric>
  friend class Family;
  template <typename Metric>
  using Families = std::map<std::string, std::unique_ptr<Family<Metric>>>;
  struct Values {
    std::set<std::string> pinned;
    std::set<std::string> seen;
  };
  enum class Kind : std::uint8_t { Counter, Gauge, Histogram };

  template <typename Metric>
  Family<Metric>& add(Families<Metric>& families, const Description& description, const std::vector<std::int64_t>& bounds, Kind kind);
  void checkName(const Description& description, Kind kind) const;
  // "other" once the label has too many values. Call with the mutex held.
  [[nodiscard]] std::string admit(const std::string& label, std::string value);
  template <typename Metric>
  void drop(Families<Metric>& families, const std::string& label, const std::string& value);

  std::size_t maxLabelValues_;
  std::size_t maxSeries_;
  std::size_t series_{0};  // lines of all families
  bool rounds_{false};     // beginRound() is used
  mutable std::mutex mutex_;
  std::map<std::string, Values> labels_;
  Families<Counter> counters_;
  Families<Gauge> gauges_;
  Families<Histogram> histograms_;
};

// Bounds for latencies: 1 ms to 60 s, about three per decade, in nanoseconds.
[[nodiscard]] std::vector<std::int64_t> latencyBounds();

}  // namespace coterie::prometheus
