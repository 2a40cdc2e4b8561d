#include "objects/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace coterie::objects {

namespace {
Error fault(std::string message) { return {Code::InvalidArgument, "BadQuantity", std::move(message)}; }

constexpr std::size_t kMostDigits = 16;  // before the point: more than any limit here

bool onlyDigits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}
// A number, but with more digits than any that is taken.
bool isHuge(std::string_view text) {
  const std::string_view whole = text.substr(0, text.find('.'));
  return whole.size() > kMostDigits && onlyDigits(whole);
}

// digits[.digits], at most 16 and 6 of them; nullopt if it is not that.
struct Decimal {
  std::int64_t whole{0};
  std::int64_t millionths{0};  // of the fraction
};
std::optional<Decimal> parseDecimal(std::string_view text) {
  const std::size_t dot = text.find('.');
  const std::string_view whole = text.substr(0, dot);
  const std::string_view fraction = dot == std::string_view::npos ? std::string_view{} : text.substr(dot + 1);
  if (whole.empty() || !onlyDigits(whole) || !onlyDigits(fraction) || (dot != std::string_view::npos && fraction.empty())) return std::nullopt;
  if (whole.size() > kMostDigits || fraction.size() > 6) return std::nullopt;
  Decimal decimal;
  for (const char c : whole) decimal.whole = decimal.whole * 10 + (c - '0');
  for (std::size_t i = 0; i < 6; ++i) decimal.millionths = decimal.millionths * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
  return decimal;
}

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<Unit, 9> kUnits = {{{"Ti", std::int64_t{1} << 40},
                                         {"T", 1000000000000},
                                         {"Gi", std::int64_t{1} << 30},
                                         {"G", 1000000000},
                                         {"Mi", std::int64_t{1} << 20},
                                         {"M", 1000000},
                                         {"Ki", std::int64_t{1} << 10},
                                         {"k", 1000},
                                         {"B", 1}}};

// Days since 1970-01-01 of a civil date, and back (proleptic Gregorian; the year counts from March so that the leap day is last).
std::int64_t daysOf(std::int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = year / 400;
  const std::int64_t ofEra = year - era * 400;
  const std::int64_t ofYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + ofEra * 365 + ofEra / 4 - ofEra / 100 + ofYear - 719468;
}
struct Date {
  std::int64_t year;
  int month;
  int day;
};
Date dateOf(std::int64_t days) {
  days += 719468;
  const std::int64_t era = days / 146097;
  const std::int64_t ofEra = days - era * 146097;
  const std::int64_t yearOfEra = (ofEra - ofEra / 1460 + ofEra / 36524 - ofEra / 146096) / 365;
  const std::int64_t ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100);
  const std::int64_t shifted = (5 * ofYear + 2) / 153;
  const int day = static_cast<int>(ofYear - (153 * shifted + 2) / 5 + 1);
  const int month = static_cast<int>(shifted < 10 ? shifted + 3 : shifted - 9);
  return {yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day};
}
std::string padded(std::int64_t number, std::size_t width) {
  std::string text = std::to_string(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}
}  // namespace

Result<MilliCpu> parseCpus(const Value& value) {
  std::int64_t milli = -1;
  constexpr std::string_view wanted = "wanted CPUs as 2, 0.5 or \"500m\"";
  if (const std::int64_t* whole = value.asInt()) {
    if (*whole < 0) return fault("must not be negative");
    if (*whole > kMostMilliCpus / 1000) return fault("wanted at most 65536 CPUs, found " + std::to_string(*whole));
    return MilliCpu(*whole * 1000);
  }
  if (const double* fraction = value.asDouble()) {
    if (!(*fraction >= 0)) return fault("must not be negative");
    if (*fraction > 65536) return fault("wanted at most 65536 CPUs");
    milli = static_cast<std::int64_t>(std::llround(*fraction * 1000));
    if (std::abs(static_cast<double>(milli) - *fraction * 1000) > 1e-6) return fault("a thousandth of a CPU is the smallest step");
    return MilliCpu(milli);
  }
  const std::string* text = value.asString();
  if (text == nullptr) return fault(std::string(wanted) + ", found " + std::string(value.typeName()));
  const bool inMilli = !text->empty() && text->back() == 'm';
  const std::optional<Decimal> decimal = parseDecimal(inMilli ? std::string_view(*text).substr(0, text->size() - 1) : std::string_view(*text));
  if (!decimal) return fault(std::string(wanted) + ", found \"" + text->substr(0, 60) + "\"");
  const std::int64_t milliPerUnit = inMilli ? 1 : 1000;
  if (decimal->millionths * milliPerUnit % 1000000 != 0) return fault("a thousandth of a CPU is the smallest step");
  if (decimal->whole > kMostMilliCpus) return fault("wanted at most 65536 CPUs");
  milli = decimal->whole * milliPerUnit + decimal->millionths * milliPerUnit / 1000000;
  if (milli > kMostMilliCpus) return fault("wanted at most 65536 CPUs");
  return MilliCpu(milli);
}

Value encodeCpus(MilliCpu cpus) {
  if (cpus.value % 1000 == 0) return Value(cpus.value / 1000);
  return Value(std::to_string(cpus.value) + "m");
}

std::string cpusText(MilliCpu cpus) { return cpus.value % 1000 == 0 ? std::to_string(cpus.value / 1000) : std::to_string(cpus.value) + "m"; }

Result<Bytes> parseBytes(const Value& value) {
  if (value.asInt() != nullptr || value.asDouble() != nullptr) return fault("a number without a unit: write \"512Mi\" or \"2Gi\"");
  const std::string* text = value.asString();
  if (text == nullptr) return fault("wanted memory as \"512Mi\", found " + std::string(value.typeName()));
  const std::size_t split = std::min(text->find_first_not_of("0123456789."), text->size());
  const std::string_view unitName = std::string_view(*text).substr(split);
  const std::optional<Decimal> decimal = parseDecimal(std::string_view(*text).substr(0, split));
  if (!decimal && isHuge(std::string_view(*text).substr(0, split))) return fault("wanted at most 1024Ti");
  if (!decimal) return fault("wanted memory as \"512Mi\", found \"" + text->substr(0, 60) + "\"");
  if (unitName.empty()) return fault("a number without a unit: write \"" + text->substr(0, 60) + "Mi\" or \"" + text->substr(0, 60) + "Gi\"");
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unitName; });
  if (unit == kUnits.end()) return fault("unknown unit \"" + std::string(unitName.substr(0, 20)) + "\": use Ki, Mi, Gi, Ti, k, M, G, T or B");
  const std::int64_t partOfUnit = decimal->millionths * unit->bytes;  // < 10^6 * 2^40
  if (decimal->whole > kMostBytes / unit->bytes) return fault("wanted at most 1024Ti");
  if (partOfUnit % 1000000 != 0) return fault("is not a whole number of bytes");
  const Bytes bytes(decimal->whole * unit->bytes + partOfUnit / 1000000);
  if (bytes.value > kMostBytes) return fault("wanted at most 1024Ti");
  return bytes;
}

std::string bytesText(Bytes bytes) {
  if (bytes.value == 0) return "0B";
  // The shortest exact text; binary units win ties, as people write memory in them.
  std::string best = std::to_string(bytes.value) + "B";
  for (const Unit& unit : kUnits) {
    if (bytes.value % unit.bytes != 0 || unit.bytes == 1) continue;
    std::string text = std::to_string(bytes.value / unit.bytes) + std::string(unit.name);
    const bool binary = unit.name.size() == 2;
    if (text.size() - (binary ? 1 : 0) < best.size()) best = std::move(text);
  }
  return best;
}

std::string timeText(std::int64_t micros) {
  micros = std::clamp<std::int64_t>(micros, 0, 253402300799999999);  // the last microsecond of 9999
  const std::int64_t seconds = micros / 1000000;
  const Date date = dateOf(seconds / 86400);
  const std::int64_t ofDay = seconds % 86400;
  return padded(date.year, 4) + "-" + padded(date.month, 2) + "-" + padded(date.day, 2) + "T" + padded(ofDay / 3600, 2) + ":" +
         padded(ofDay / 60 % 60, 2) + ":" + padded(ofDay % 60, 2) + "." + padded(micros % 1000000, 6) + "Z";
}

std::optional<std::int64_t> parseTime(std::string_view text) {
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' || text.back() != 'Z')
    return std::nullopt;
  const auto number = [&](std::size_t at, std::size_t length) -> std::int64_t {
    std::int64_t value = 0;
    for (const char c : text.substr(at, length)) {
      if (c < '0' || c > '9') return -1;
      value = value * 10 + (c - '0');
    }
    return value;
  };
  const std::int64_t year = number(0, 4), month = number(5, 2), day = number(8, 2), hour = number(11, 2), minute = number(14, 2),
                     second = number(17, 2);
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
      second > 60)
    return std::nullopt;
  std::int64_t fraction = 0;
  if (text.size() > 20) {
    const std::size_t digits = text.size() - 21;
    if (text[19] != '.' || digits < 1 || digits > 6 || number(20, digits) < 0) return std::nullopt;
    fraction = number(20, digits);
    for (std::size_t i = digits; i < 6; ++i) fraction *= 10;
  }
  return ((daysOf(year, static_cast<int>(month), static_cast<int>(day)) * 24 + hour) * 60 + minute) * 60000000 + second * 1000000 + fraction;
}

}  // namespace coterie::objects
