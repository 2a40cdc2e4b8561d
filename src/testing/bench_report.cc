#include "testing/bench_report.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace coterie::testing {

namespace {
std::string firstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string cpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

std::string jsonText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

// JSON has no infinity and no NaN.
std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null"; }

std::string caseText(const Figure& figure) {
  std::string text;
  for (const BenchCase& one : figure.of) text += fmt::format("{}{}={}", text.empty() ? "" : " ", one.key, one.value);
  return text.empty() ? "all" : text;
}

std::string figureJson(const Figure& figure) {
  std::string text = fmt::format("{{\"name\": {}, \"unit\": {}, \"value\": {}", jsonText(figure.name), jsonText(figure.unit), number(figure.value));
  if (figure.low) text += fmt::format(", \"low\": {}", number(*figure.low));
  if (figure.high) text += fmt::format(", \"high\": {}", number(*figure.high));
  text += ", \"case\": {";
  for (std::size_t i = 0; i < figure.of.size(); ++i) {
    const BenchCase& one = figure.of[i];
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", jsonText(one.key), one.number ? one.value : jsonText(one.value));
  }
  return text + "}}";
}

std::size_t indexIn(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.push_back(name);
  return names.size() - 1;
}
}  // namespace

BenchMachine thisMachine() {
  BenchMachine machine;
  cpu_set_t set;
  machine.cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  machine.model = cpuModel();
  utsname name{};
  machine.kernel = uname(&name) == 0 ? name.release : "unknown";
  machine.governor = firstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (machine.governor.empty()) machine.governor = "none";
  return machine;
}

BenchReport::BenchReport(std::string bench, std::uint64_t seed, int repetitions)
    : bench_(std::move(bench)), seed_(seed), repetitions_(repetitions), machine_(thisMachine()) {}

std::string BenchReport::table() const {
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> cells;
  for (const Figure& figure : figures_) {
    const std::size_t row = indexIn(rows, caseText(figure));
    const std::size_t column = indexIn(columns, figure.unit.empty() ? figure.name : figure.name + " [" + figure.unit + "]");
    cells.resize(rows.size());
    if (cells[row].size() <= column) cells[row].resize(column + 1);
    cells[row][column] = figure.low && figure.high ? fmt::format("{:.4g} ({:.4g}..{:.4g})", figure.value, *figure.low, *figure.high)
                                                   : fmt::format("{:.4g}", figure.value);
  }
  std::size_t first = 4;
  for (const std::string& row : rows) first = std::max(first, row.size());
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns.size(); ++column) {
    widths.push_back(columns[column].size());
    for (auto& row : cells) {
      row.resize(columns.size());
      widths.back() = std::max(widths.back(), row[column].size());
    }
  }
  std::string text = fmt::format("{}: {} CPUs, {}, Linux {}\n{:<{}}", bench_, machine_.cpus, machine_.model, machine_.kernel, "case", first);
  for (std::size_t column = 0; column < columns.size(); ++column) text += fmt::format("  {:>{}}", columns[column], widths[column]);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    text += fmt::format("\n{:<{}}", rows[row], first);
    for (std::size_t column = 0; column < columns.size(); ++column) text += fmt::format("  {:>{}}", cells[row][column], widths[column]);
  }
  return text + "\n";
}

std::string BenchReport::json() const {
  const char* commit = std::getenv("COTERIE_COMMIT");
  std::string text = fmt::format(
      "{{\"bench\": {}, \"commit\": {}, \"seed\": {}, \"repetitions\": {},\n \"machine\": {{\"cpus\": {}, \"model\": {}, \"kernel\": {}, "
      "\"governor\": {}}},\n \"figures\": [",
      jsonText(bench_), jsonText(commit != nullptr ? commit : "unknown"), seed_, repetitions_, machine_.cpus, jsonText(machine_.model),
      jsonText(machine_.kernel), jsonText(machine_.governor));
  for (std::size_t i = 0; i < figures_.size(); ++i) text += (i == 0 ? "\n  " : ",\n  ") + figureJson(figures_[i]);
  return text + "\n ]}\n";
}

Status BenchReport::write(const std::string& path) const {
  std::error_code error;
  const std::filesystem::path file(path);
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), error);
  std::ofstream out(file);
  out << json();
  out.close();
  if (!out) return Error{Code::Unavailable, "ReportNotWritten", "cannot write " + path + ": choose another place with --json PATH"};
  return {};
}

void BenchVerdicts::add(Figure figure, BenchTarget target) {
  std::string verdict;
  if (target.bound != BenchTarget::Bound::None) {
    const bool most = target.bound == BenchTarget::Bound::AtMost;
    const bool held = most ? figure.value <= target.value : figure.value >= target.value;
    verdict = fmt::format("{} {:<6g} {}", most ? "<=" : ">=", target.value, held ? "held" : "MISSED");
    good_ = good_ && held;
  }
  const std::string name = figure.of.empty() ? figure.name : figure.name + " (" + caseText(figure) + ")";
  std::printf("  %-56s %10.3f %-10s %s\n", name.c_str(), figure.value, figure.unit.c_str(), verdict.c_str());
  report_.add(std::move(figure));
}

void BenchVerdicts::tooFew(const std::string& name) {
  std::printf("  %-56s too few samples\n", name.c_str());
  good_ = false;
}

std::string benchOption(int argc, char** argv, std::string_view name, std::string otherwise) {
  const std::string dashed = "--" + std::string(name);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == dashed && i + 1 < argc) return argv[i + 1];
    if (argument.rfind(dashed + "=", 0) == 0) return argument.substr(dashed.size() + 1);
  }
  return otherwise;
}

bool benchFlag(int argc, char** argv, std::string_view name) {
  const std::string dashed = "--" + std::string(name);
  return std::any_of(argv + 1, argv + argc, [&](const char* argument) { return dashed == argument; });
}

bool benchArguments(int argc, char** argv, std::initializer_list<std::string_view> flags, std::initializer_list<std::string_view> options) {
  const auto isOneOf = [](const std::initializer_list<std::string_view>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::string unknown;
  for (int i = 1; i < argc && unknown.empty(); ++i) {
    const std::string_view argument = argv[i];
    const std::string_view name = argument.substr(0, argument.find('='));
    const bool dashed = name.starts_with("--");
    const bool option = dashed && isOneOf(options, name.substr(2));
    if (option && name.size() == argument.size() && ++i == argc) unknown = std::string(argument) + " without a value";
    if (!option && !(dashed && name.size() == argument.size() && isOneOf(flags, name.substr(2)))) unknown = argument;
  }
  if (unknown.empty()) return true;
  std::fprintf(stderr, "%s is not an option here; these are:", unknown.c_str());
  for (const std::string_view flag : flags) std::fprintf(stderr, " --%s", std::string(flag).c_str());
  for (const std::string_view option : options) std::fprintf(stderr, " --%s VALUE", std::string(option).c_str());
  std::fprintf(stderr, "\n");
  return false;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  const std::size_t index = std::min(values.size() - 1, rank == 0 ? 0 : rank - 1);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
  return values[index];
}

double geometricMean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

double logLogSlope(const std::vector<std::pair<double, double>>& points) {
  double sx = 0;
  double sy = 0;
  double sxx = 0;
  double sxy = 0;
  for (const auto& [x, y] : points) {
    const double lx = std::log(x);
    const double ly = std::log(y);
    sx += lx, sy += ly, sxx += lx * lx, sxy += lx * ly;
  }
  const auto n = static_cast<double>(points.size());
  const double spread = n * sxx - sx * sx;
  return spread == 0 ? 0 : (n * sxy - sx * sy) / spread;
}

}  // namespace coterie::testing
