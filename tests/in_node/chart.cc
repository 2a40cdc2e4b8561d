#include "chart.h"

#include <algorithm>

#include <fmt/format.h>

namespace coterie::in_node {

namespace {
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}
}  // namespace

std::string ratioChart(const std::string& title, const std::vector<Bar>& bars) {
  constexpr int kLeft = 360, kWidth = 900, kRow = 24, kTop = 50;
  double most = 1.2;
  for (const Bar& bar : bars) most = std::max(most, std::min(bar.ratio.high, bar.ratio.value * 1.5) * 1.05);
  const auto x = [&](double value) { return kLeft + (kWidth - kLeft - 80) * std::min(value, most) / most; };
  const int height = kTop + static_cast<int>(bars.size()) * kRow + 20;
  std::string svg =
      fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" font-family="sans-serif" font-size="13">)", kWidth, height);
  svg += fmt::format(R"(<rect width="100%" height="100%" fill="white"/><text x="12" y="24" font-size="16">{}</text>)", escaped(title));
  svg += fmt::format(R"(<line x1="{0}" x2="{0}" y1="{1}" y2="{2}" stroke="#888" stroke-dasharray="4 3"/>)", x(1), kTop - 10, height - 14);
  int y = kTop;
  for (const Bar& bar : bars) {
    svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", kLeft - 8, y + 13, escaped(bar.label));
    svg += fmt::format(R"(<rect x="{}" y="{}" width="{:.1f}" height="16" fill="{}"/>)", kLeft, y, x(bar.ratio.value) - kLeft,
                       bar.ratio.value >= 0.97 ? "#4a86c5" : "#c5674a");
    svg += fmt::format(R"(<line x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}" stroke="black"/>)", x(bar.ratio.low), x(bar.ratio.high), y + 8, y + 8);
    svg += fmt::format(R"(<text x="{:.1f}" y="{}">{:.2f}</text>)", x(bar.ratio.high) + 6, y + 13, bar.ratio.value);
    y += kRow;
  }
  return svg + "</svg>\n";
}

}  // namespace coterie::in_node
