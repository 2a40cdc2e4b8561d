#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "objects/quantity.h"

namespace coterie::cli {
namespace {

// Columns on a terminal: UTF-8 sequences count once.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string styled(std::string_view text, Style style, bool colors) {
  if (!colors || style == Style::Plain || text.empty()) return std::string(text);
  static constexpr std::array<std::string_view, 6> kCodes{"0", "32", "31", "33", "1", "2"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(style)], text);
}

std::string printable(std::string_view text) {
  std::string out(text);
  std::replace_if(out.begin(), out.end(), [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F; }, '?');
  return out;
}

void Table::add(std::vector<Cell> row) {
  row.resize(header_.size(), Cell("-"));
  for (Cell& cell : row) {
    cell.text = printable(cell.text);
    std::replace_if(cell.text.begin(), cell.text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    if (cell.text.empty()) cell.text = "-";
  }
  rows_.push_back(std::move(row));
}

void Table::print(std::ostream& out, bool colors, Header header) const {
  std::vector<std::size_t> widths;
  for (const auto& title : header_) widths.push_back(header == Header::Shown ? width(title) : 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i].text));
  }
  const auto line = [&](const auto& cells, const auto& textOf, const auto& styleOf) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      out << styled(textOf(cells[i]), styleOf(cells[i]), colors);
      if (i + 1 < cells.size()) out << std::string(widths[i] - width(textOf(cells[i])) + 2, ' ');
    }
    out << "\n";
  };
  if (header == Header::Shown) {
    line(header_, [](const std::string& title) -> const std::string& { return title; }, [](const std::string&) { return Style::Strong; });
  }
  for (const auto& row : rows_)
    line(row, [](const Cell& cell) -> const std::string& { return cell.text; }, [](const Cell& cell) { return cell.style; });
}

std::string ageText(std::int64_t micros) {
  const std::int64_t s = std::max<std::int64_t>(micros, 0) / 1'000'000;
  const std::int64_t m = s / 60;
  const std::int64_t h = m / 60;
  const std::int64_t d = h / 24;
  if (s < 120) return fmt::format("{}s", s);
  if (m < 10) return s % 60 == 0 ? fmt::format("{}m", m) : fmt::format("{}m{}s", m, s % 60);
  if (h < 3) return fmt::format("{}m", m);
  if (h < 8) return m % 60 == 0 ? fmt::format("{}h", h) : fmt::format("{}h{}m", h, m % 60);
  if (h < 48) return fmt::format("{}h", h);
  if (d < 8) return h % 24 == 0 ? fmt::format("{}d", d) : fmt::format("{}d{}h", d, h % 24);
  return fmt::format("{}d", d);
}

std::string latencyText(Nanos duration) {
  const double ms = static_cast<double>(duration.count()) * 1e-6;
  if (duration.count() <= 0) return "-";
  if (ms < 1) return fmt::format("{:.2f}ms", ms);
  if (ms < 100) return fmt::format("{:.1f}ms", ms);
  if (ms < 1000) return fmt::format("{:.0f}ms", ms);
  return fmt::format("{:.1f}s", ms / 1000);
}

std::string cpuText(MilliCpu cpus) { return cpus.value == 0 ? "-" : fmt::format("{:.2f}", static_cast<double>(cpus.value) / 1000); }

std::string sizeText(Bytes bytes) {
  static constexpr std::array<std::string_view, 5> kUnits{"B", "Ki", "Mi", "Gi", "Ti"};
  if (bytes.value == 0) return "-";
  auto size = static_cast<double>(bytes.value);
  std::size_t unit = 0;
  while (size >= 1024 && unit + 1 < kUnits.size()) {
    size /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{}B", bytes.value) : fmt::format("{:.1f}{}", size, kUnits[unit]);
}

std::string clockText(std::int64_t micros) {
  if (micros == 0) return "-";
  std::string text = objects::timeText(micros).substr(0, 19);
  std::replace(text.begin(), text.end(), 'T', ' ');
  return text;
}

}  // namespace coterie::cli
