// What people read: aligned tables, colours, durations. Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace coterie::cli {

enum class Style : std::uint8_t { Plain, Good, Bad, Doubtful, Strong, Faint };

// The text in that style if colours are on.
[[nodiscard]] std::string styled(std::string_view text, Style style, bool colors);
// Control characters (a tenant's text may hold some) become '?', so that nothing drives the terminal.
[[nodiscard]] std::string printable(std::string_view text);

struct Cell {
  Cell(std::string t, Style s = Style::Plain) : text(std::move(t)), style(s) {}  // NOLINT: implicit by design
  Cell(const char* t) : text(t) {}                                               // NOLINT: implicit by design
  std::string text;
  Style style{Style::Plain};
};

class Table {
 public:
  enum class Header : std::uint8_t { Shown, Hidden };
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<Cell> row);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Columns are as wide as their widest cell, two blanks apart; nothing behind the last.
  void print(std::ostream& out, bool colors, Header header = Header::Shown) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<Cell>> rows_;
};

[[nodiscard]] std::string ageText(std::int64_t micros);    // "5s", "3m12s", "4h", "12d"
[[nodiscard]] std::string latencyText(Nanos duration);     // "0.14ms", "12.3ms", "1.2s"; "-" for 0
[[nodiscard]] std::string cpuText(MilliCpu cpus);          // "1.50"; "-" for 0
[[nodiscard]] std::string sizeText(Bytes bytes);           // "76.0Mi"; "-" for 0
[[nodiscard]] std::string clockText(std::int64_t micros);  // "2026-01-31 23:59:59" UTC

}  // namespace coterie::cli
