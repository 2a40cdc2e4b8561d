#include "plan_node/map_style.h"

#include <array>
#include <vector>

#include <fmt/format.h>

#include "text/text.h"

namespace coterie::plan_node {

namespace {
struct Colour {
  int red;
  int green;
  int blue;
};
constexpr std::array<Colour, 7> kColours{
    {{230, 159, 0}, {86, 180, 233}, {0, 158, 115}, {240, 228, 66}, {0, 114, 178}, {213, 94, 0}, {204, 121, 167}}};
constexpr std::size_t kTints = 3;  // as it is, lighter, darker
constexpr std::string_view kInk = "#000000";

enum class Shape : std::size_t { Plain, Dots, Rows, Columns, Grid, Rings, Crosses, Checks };
constexpr std::size_t kMarked = 7;  // all but Plain

int mixed(int part, std::size_t tint) {
  if (tint == 1) return part + (255 - part) * 55 / 100;
  return tint == 2 ? part * 65 / 100 : part;
}

std::string rect(int x, int y, int width, int height) {
  return fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}" fill-opacity="0.45"/>)", x, y, width, height, kInk);
}

// The marks of one tile, `pitch` pixels square.
std::string marks(Shape shape, int pitch) {
  const int half = pitch / 2;
  switch (shape) {
    case Shape::Plain: return {};
    case Shape::Dots: return fmt::format(R"(<circle cx="{}" cy="{}" r="1.6" fill="{}" fill-opacity="0.55"/>)", half, half, kInk);
    case Shape::Rows: return rect(0, half, pitch, 2);
    case Shape::Columns: return rect(half, 0, 2, pitch);
    case Shape::Grid: return rect(0, half, pitch, 1) + rect(half, 0, 1, pitch);
    case Shape::Rings:
      return fmt::format(R"(<circle cx="{0}" cy="{0}" r="{1}" fill="none" stroke="{2}" stroke-opacity="0.55" stroke-width="1"/>)", half, half - 1,
                         kInk);
    case Shape::Crosses: return rect(half - 2, half, 5, 1) + rect(half, half - 2, 1, 5);
    case Shape::Checks: return rect(0, 0, half, half) + rect(half, half, pitch - half, pitch - half);
  }
  return {};
}

struct Pattern {
  Shape shape{Shape::Plain};
  int pitch{7};
};
// Of a tenant's group by its place among them: the first is plain.
Pattern patternAt(std::size_t place) {
  static constexpr std::array<int, 3> kPitches{7, 11, 15};
  if (place == 0) return {};
  return {static_cast<Shape>(1 + (place - 1) % kMarked), kPitches[(place - 1) / kMarked % kPitches.size()]};
}

bool borrows(const allocation::GroupTarget& target) {
  for (const allocation::ContainerTarget& container : target.containers) {
    if (!container.loans.empty()) return true;
  }
  return false;
}
}  // namespace

std::string tenantColour(std::size_t tenant) {
  const Colour& colour = kColours[tenant % kColours.size()];
  const std::size_t tint = tenant / kColours.size() % kTints;
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(colour.red, tint), mixed(colour.green, tint), mixed(colour.blue, tint));
}

std::string patternDefinitions(const NodePlan& plan) {
  std::string text;
  std::vector<std::size_t> seen(plan.file->tenants.size(), 0);  // groups of each tenant so far
  for (std::size_t g = 0; g < plan.file->groups.size(); ++g) {
    const std::size_t tenant = plan.file->groups[g].tenant;
    const Pattern pattern = patternAt(seen[tenant]++);
    const std::string colour = tenantColour(tenant);
    text += fmt::format(
        R"(<pattern id="g{0}" width="{1}" height="{1}" patternUnits="userSpaceOnUse"><rect width="{1}" height="{1}" fill="{2}"/>{3}</pattern>)"
        "\n",
        g + 1, pattern.pitch, colour, marks(pattern.shape, pattern.pitch));
    if (!borrows(plan.plan.groups[g])) continue;
    text += fmt::format(R"x(<pattern id="loan{}" width="10" height="10" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">)x"
                        R"(<rect width="5" height="10" fill="#ffffff"/><rect x="1" width="3" height="10" fill="{}"/></pattern>)"
                        "\n",
                        g + 1, colour);
  }
  return text;
}

std::string groupFill(std::size_t group) { return fmt::format("url(#g{})", group + 1); }
std::string loanFill(std::size_t group) { return fmt::format("url(#loan{})", group + 1); }

std::string xmlText(std::string_view text) {
  const bool utf8 = text::firstBadUtf8Line(text) == 0;
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&': out += "&amp;"; continue;
      case '<': out += "&lt;"; continue;
      case '>': out += "&gt;"; continue;
      case '"': out += "&quot;"; continue;
      default: break;
    }
    const bool held = byte >= 0x80 ? utf8 : byte >= 0x20 || c == '\n' || c == '\t';
    out += held ? c : '?';
  }
  return out;
}

}  // namespace coterie::plan_node
