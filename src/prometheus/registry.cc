#include "prometheus/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/log.h"

namespace coterie::prometheus {

namespace {
constexpr const char* kOther = "other";
constexpr std::size_t kForOthers = 500;  // lines kept free for the sums of late names, one series a family

using Out = std::back_insert_iterator<std::string>;

std::int64_t divisorOf(Unit unit) {
  switch (unit) {
    case Unit::Nanos: return 1'000'000'000;
    case Unit::MilliCpu:
    case Unit::Permille: return 1000;
    case Unit::None:
    case Unit::Bytes: return 1;
  }
  return 1;
}

std::string_view suffixOf(Unit unit) {
  switch (unit) {
    case Unit::Nanos: return "_seconds";
    case Unit::MilliCpu: return "_cpus";
    case Unit::Permille: return "_ratio";
    case Unit::Bytes: return "_bytes";
    case Unit::None: return "";
  }
  return "";
}

// value / divisor in decimal, exact, without trailing zeros.
void writeNumber(std::string& out, std::int64_t value, std::int64_t divisor) {
  const auto size = value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  if (value < 0) out.push_back('-');
  const auto d = static_cast<std::uint64_t>(divisor);
  fmt::format_to(Out(out), "{}", size / d);
  std::uint64_t rest = size % d;
  if (rest == 0) return;
  out.push_back('.');
  for (std::uint64_t place = d / 10; rest > 0; place /= 10) {
    out.push_back(static_cast<char>('0' + rest / place));
    rest %= place;
  }
}

void writeEscaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out.push_back(c);
    }
  }
}

// A label's value is shown as UTF-8: other bytes would make the whole scrape unreadable.
std::string cleaned(std::string value) {
  for (char& c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || byte < 0x20) c = '?';
  }
  if (value.size() > 128) value.resize(128);
  return value;
}

void writeSeries(std::string& out, std::string_view name, std::string_view suffix, const Description& description,
                 const std::vector<std::string>& values, std::string_view bound) {
  out.append(name).append(suffix);
  if (values.empty() && bound.empty()) {
    out.push_back(' ');
    return;
  }
  char separator = '{';
  for (std::size_t i = 0; i < values.size(); ++i) {
    out.push_back(separator);
    separator = ',';
    out.append(description.labels[i]).append("=\"");
    writeEscaped(out, values[i], true);
    out.push_back('"');
  }
  if (!bound.empty()) {
    out.push_back(separator);
    out.append("le=\"").append(bound).append("\"");
  }
  out += "} ";
}

void writeHeader(std::string& out, const Description& description, std::string_view type) {
  out.append("# HELP ").append(description.name).push_back(' ');
  writeEscaped(out, description.help, false);
  out.append("\n# TYPE ").append(description.name).append(" ").append(type).push_back('\n');
}

template <typename Metric>
void writeSimple(std::string& out, const Description& description, const std::vector<std::string>& values, const Metric& metric) {
  writeSeries(out, description.name, "", description, values, "");
  writeNumber(out, metric.value(), divisorOf(description.unit));
  out.push_back('\n');
}

void writeSeriesOf(std::string& out, const Description& description, const std::vector<std::string>& values, const Counter& metric) {
  writeSimple(out, description, values, metric);
}
void writeSeriesOf(std::string& out, const Description& description, const std::vector<std::string>& values, const Gauge& metric) {
  writeSimple(out, description, values, metric);
}
void writeSeriesOf(std::string& out, const Description& description, const std::vector<std::string>& values, const Histogram& metric) {
  const std::int64_t divisor = divisorOf(description.unit);
  std::int64_t below = 0;
  for (std::size_t i = 0; i <= metric.bounds().size(); ++i) {
    std::string bound = "+Inf";
    if (i < metric.bounds().size()) {
      bound.clear();
      writeNumber(bound, metric.bounds()[i], divisor);
    }
    below += metric.bucket(i);
    writeSeries(out, description.name, "_bucket", description, values, bound);
    fmt::format_to(Out(out), "{}\n", below);
  }
  writeSeries(out, description.name, "_sum", description, values, "");
  writeNumber(out, metric.sum(), divisor);
  out.push_back('\n');
  writeSeries(out, description.name, "_count", description, values, "");
  fmt::format_to(Out(out), "{}\n", below);
}

[[noreturn]] void broken(const Description& description, std::string_view rule) {
  log::error("metrics", fmt::format("{}: {}", description.name, rule));
  std::abort();
}

bool validName(std::string_view name) {
  if (name.empty() || name.front() == '_' || name.back() == '_' || (name.front() >= '0' && name.front() <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}
}  // namespace

Histogram::Histogram(const std::vector<std::int64_t>& bounds) : bounds_(bounds), buckets_(std::make_unique<Cell[]>(bounds.size() + 1)) {
  assert(std::is_sorted(bounds.begin(), bounds.end()));
}

void Histogram::mirror(const std::vector<std::int64_t>& atMost, std::int64_t count, std::int64_t sum) {
  std::int64_t before = 0;
  const auto put = [this](Cell& cell, std::int64_t value) { sums_ ? cell.add(value) : cell.set(value); };
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    const std::int64_t upTo = std::max(before, atMost[i]);
    put(buckets_[i], upTo - before);
    before = upTo;
  }
  put(buckets_[bounds_.size()], std::max<std::int64_t>(count - before, 0));
  put(sum_, sum);
}

void Histogram::beginSum() {
  sums_ = true;
  for (std::size_t i = 0; i <= bounds_.size(); ++i) buckets_[i].set(0);
  sum_.set(0);
}

void Histogram::observe(std::int64_t value) {
  std::size_t i = 0;
  while (i < bounds_.size() && value > bounds_[i]) ++i;
  buckets_[i].add(1);
  sum_.add(value);
}

std::int64_t Histogram::count() const {
  std::int64_t all = 0;
  for (std::size_t i = 0; i <= bounds_.size(); ++i) all += buckets_[i].get();
  return all;
}

template <typename Metric>
Metric& Family<Metric>::find(std::vector<std::string> values) {
  if (values.size() != description_.labels.size()) broken(description_, "as many label values as labels");
  const std::lock_guard lock(registry_.mutex_);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = registry_.admit(description_.labels[i], cleaned(std::move(values[i])));
  if (const auto known = series_.find(values); known != series_.end()) return known->second;
  const std::size_t lines = Metric::lines(bounds_);
  const bool late = !values.empty() && registry_.series_ + lines > registry_.maxSeries_ - std::min(registry_.maxSeries_, kForOthers);
  if (late) {
    for (std::string& value : values) value = kOther;
    folded_ = values;
  }
  const auto [entry, added] = series_.try_emplace(std::move(values), bounds_);
  if (added) registry_.series_ += lines;
  if (added && late && registry_.rounds_) entry->second.beginSum();
  return entry->second;
}
template class Family<Counter>;
template class Family<Gauge>;
template class Family<Histogram>;

void Registry::checkName(const Description& description, Kind kind) const {
  std::string_view name = description.name;
  if (!validName(name) || name.substr(0, 8) != "coterie_") broken(description, "names are lower case and begin with coterie_");
  if (description.help.empty()) broken(description, "each metric has a help text");
  for (const std::string& label : description.labels) {
    if (!validName(label) || label == "le" || label.size() < 2) broken(description, "labels are lower case, longer than one letter, and not le");
  }
  constexpr std::string_view kTotal = "_total";
  const bool total = name.size() > kTotal.size() && name.substr(name.size() - kTotal.size()) == kTotal;
  if (total != (kind == Kind::Counter)) broken(description, "counters, and only they, end in _total");
  if (total) name.remove_suffix(kTotal.size());
  const std::string_view suffix = suffixOf(description.unit);
  if (name.size() < suffix.size() || name.substr(name.size() - suffix.size()) != suffix)
    broken(description, fmt::format("the unit asks for a name in {}", suffix));
}

template <typename Metric>
Family<Metric>& Registry::add(Families<Metric>& families, const Description& description, const std::vector<std::int64_t>& bounds, Kind kind) {
  checkName(description, kind);
  const std::lock_guard lock(mutex_);
  auto& family = families[description.name];
  if (family == nullptr) family.reset(new Family<Metric>(*this, description, bounds));
  if (family->description_.labels != description.labels) broken(description, "registered twice with different labels");
  return *family;
}

Family<Counter>& Registry::counter(const Description& description) { return add(counters_, description, {}, Kind::Counter); }
Family<Gauge>& Registry::gauge(const Description& description) { return add(gauges_, description, {}, Kind::Gauge); }
Family<Histogram>& Registry::histogram(const Description& description, const std::vector<std::int64_t>& bounds) {
  return add(histograms_, description, bounds, Kind::Histogram);
}

std::string Registry::admit(const std::string& label, std::string value) {
  Values& values = labels_[label];
  if (values.pinned.count(value) != 0 || values.seen.count(value) != 0) return value;
  if (values.seen.size() >= maxLabelValues_) return kOther;
  values.seen.insert(value);
  return value;
}

template <typename Metric>
void Registry::drop(Families<Metric>& families, const std::string& label, const std::string& value) {
  for (auto& [name, family] : families) {
    const auto& labels = family->description_.labels;
    const auto at = static_cast<std::size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
    if (at >= labels.size()) continue;
    const std::size_t gone = std::erase_if(family->series_, [&](const auto& entry) { return entry.first[at] == value; });
    series_ -= gone * Metric::lines(family->bounds_);
  }
}

void Registry::pin(const std::string& label, const std::string& value) {
  const std::string shown = cleaned(value);
  const std::lock_guard lock(mutex_);
  labels_[label].pinned.insert(shown);
  labels_[label].seen.erase(shown);
}

void Registry::forget(const std::string& label, const std::string& value) {
  const std::string shown = cleaned(value);
  const std::lock_guard lock(mutex_);
  labels_[label].pinned.erase(shown);
  labels_[label].seen.erase(shown);
  drop(counters_, label, shown);
  drop(gauges_, label, shown);
  drop(histograms_, label, shown);
}

void Registry::keepOnly(const std::string& label, const std::set<std::string>& present) {
  std::set<std::string> gone;
  {
    const std::lock_guard lock(mutex_);
    gone = labels_[label].pinned;
  }
  for (const std::string& value : present) gone.erase(cleaned(value));
  for (const std::string& value : gone) forget(label, value);
  for (const std::string& value : present) pin(label, value);
}

void Registry::beginRound() {
  const std::lock_guard lock(mutex_);
  rounds_ = true;
  const auto begin = [](auto& families) {
    for (auto& [name, family] : families) {
      const auto late = family->folded_.empty() ? family->series_.end() : family->series_.find(family->folded_);
      if (late != family->series_.end()) late->second.beginSum();
    }
  };
  begin(counters_);
  begin(gauges_);
  begin(histograms_);
}

std::string Registry::scrape(const Shown& shown) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  const auto write = [&](const auto& families, std::string_view type) {
    for (const auto& [name, family] : families) {
      bool begun = false;  // no header without a series
      for (const auto& [values, metric] : family->series_) {
        if (shown && ((!values.empty() && values == family->folded_) || !shown(family->description_.labels, values))) continue;
        if (!std::exchange(begun, true)) writeHeader(out, family->description_, type);
        writeSeriesOf(out, family->description_, values, metric);
      }
    }
  };
  write(counters_, "counter");
  write(gauges_, "gauge");
  write(histograms_, "histogram");
  return out;
}

std::vector<std::int64_t> latencyBounds() {
  std::vector<std::int64_t> bounds;
  for (const std::int64_t millis : {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10'000, 30'000, 60'000})
    bounds.push_back(millis * 1'000'000);
  return bounds;
}

}  // namespace coterie::prometheus
