#include "plan_node/plan_map.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "plan_node/cpu_owners.h"
#include "plan_node/map_layout.h"
#include "plan_node/map_legend.h"
#include "plan_node/map_style.h"
#include "plan_node/plan_table.h"

namespace coterie::plan_node {

namespace {
constexpr int kMargin = 16;
constexpr int kTitleFont = 16;
constexpr int kTextFont = 12;
constexpr int kLine = 20;  // of the head and the legend
constexpr int kSwatchWidth = 34;
constexpr int kSwatchHeight = 15;
constexpr int kBetweenColumns = 24;
constexpr std::size_t kMostHolders = 2;  // named in a cell

// Pixels that a text may take, on the safe side.
int widthOf(std::size_t characters, int font) { return static_cast<int>(characters) * font * 62 / 100; }

std::string joined(const std::vector<std::string>& lines, std::string_view between) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? std::string_view{} : between), text += line;
  return text;
}

// "1.0", "1.0,1", "1.*", "pool", "rsv", with "+2" for a borrower.
std::string shortOwner(const NodePlan& node, const CpuUse& use) {
  std::string text;
  if (use.planned.pool) {
    text = "pool";
  } else if (!use.planned.holders.empty()) {
    const std::size_t group = use.planned.holders.front().group;
    text = std::to_string(group + 1);
    if (use.planned.holders.size() > kMostHolders) {
      text += ".*";
    } else if (node.file->groups[group].containers.size() > 1) {
      for (std::size_t i = 0; i < use.planned.holders.size(); ++i) text += (i == 0 ? "." : ",") + std::to_string(use.planned.holders[i].container);
    }
  } else {
    switch (use.closed) {
      case Closed::No: break;
      case Closed::Reserved: return "rsv";
      case Closed::Isolated: return "iso";
      case Closed::NotAllowed: return "n/a";
    }
  }
  if (use.borrowers.size() > kMostHolders) return text + "+*";
  for (const std::size_t group : use.borrowers) text += "+" + std::to_string(group + 1);
  return text;
}

std::string fillOf(const CpuUse& use) {
  if (use.planned.pool) return std::string(kPoolFill);
  if (!use.planned.holders.empty()) return groupFill(use.planned.holders.front().group);
  return std::string(use.closed == Closed::No ? kFreeFill : kClosedFill);
}

std::string tooltip(const NodePlan& node, const CpuUse& use) {
  const Machine& machine = *node.machine;
  const Cpu& cpu = *machine.findCpu(use.cpu);
  const auto idOf = [&](int domain) { return machine.domains[static_cast<std::size_t>(domain)].id; };
  std::vector<std::string> lines{fmt::format("CPU {}: core {}", use.cpu, idOf(cpu.core))};
  if (machine.domains[static_cast<std::size_t>(cpu.cache)].level == DomainLevel::Cache) lines.back() += fmt::format(", cache {}", idOf(cpu.cache));
  lines.back() += fmt::format(", node {}, socket {}", idOf(cpu.node), idOf(cpu.socket));
  if (cpu.capacity.value != 1000) lines.push_back(fmt::format("{} thousandths of the fastest CPU", cpu.capacity.value));
  switch (use.closed) {
    case Closed::No: lines.push_back("owner: " + ownerText(node, use.planned)); break;
    case Closed::Reserved: lines.emplace_back("reserved"); break;
    case Closed::Isolated: lines.emplace_back("isolated (isolcpus)"); break;
    case Closed::NotAllowed: lines.emplace_back("not allowed to this process"); break;
  }
  for (const std::size_t group : use.borrowers) lines.push_back("lent to " + node.file->groups[group].name);
  if (use.changesHands) lines.push_back("now: " + ownerText(node, use.now));
  return joined(lines, "\n");
}

class Drawing {
 public:
  explicit Drawing(const NodePlan& node)
      : node_(node), layout_(layOut(*node.machine)), uses_(cpuUses(node)), legend_(legendOf(node, uses_)), head_(headLines(node)) {}

  std::string draw() {
    measure();
    begin();
    drawHead();
    for (const MapBox& box : layout_.boxes) drawBox(box, "box");
    for (const MapBox& box : layout_.memory) drawBox(box, "memory");
    std::size_t next = 0;  // both ascend by id
    for (const MapCell& cell : layout_.cells) {
      while (next < uses_.size() && uses_[next].cpu < cell.cpu) ++next;
      if (next < uses_.size() && uses_[next].cpu == cell.cpu) drawCell(cell, uses_[next]);
    }
    drawLegend();
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  static std::vector<std::string> headLines(const NodePlan& node) {
    const PlanText text = planText(node);
    std::vector<std::string> lines = text.summary;
    if (std::string pending = pendingText(node); !pending.empty()) lines.push_back(std::move(pending));
    constexpr std::size_t kLongest = 150;
    for (std::string& line : lines) {
      if (line.size() > kLongest) line.replace(kLongest, std::string::npos, "...");
    }
    return lines;
  }

  void measure() {
    std::size_t longest = 0;
    for (const LegendEntry& entry : legend_) longest = std::max(longest, entry.text.size());
    columnWidth_ = kSwatchWidth + 8 + widthOf(longest, kTextFont);
    int wide = std::max(layout_.width, columnWidth_);
    for (std::size_t i = 0; i < head_.size(); ++i) wide = std::max(wide, widthOf(head_[i].size(), i == 0 ? kTitleFont : kTextFont));
    columns_ = std::max(1, (wide + kBetweenColumns) / (columnWidth_ + kBetweenColumns));
    rows_ = (static_cast<int>(legend_.size()) + columns_ - 1) / columns_;
    mapTop_ = kMargin + static_cast<int>(head_.size()) * kLine + 8;
    legendTop_ = mapTop_ + layout_.height + kLine;
    width_ = wide + 2 * kMargin;
    height_ = legendTop_ + rows_ * kLine + kMargin;
  }

  void begin() {
    out_ += fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img" )"
                        R"(font-family="DejaVu Sans, Verdana, Arial, sans-serif" font-size="{2}">)"
                        "\n<title>{3}</title>\n<defs>\n{4}</defs>\n"
                        R"(<rect width="{0}" height="{1}" fill="#ffffff"/>)"
                        "\n",
                        width_, height_, kTextFont, xmlText(head_.front()), patternDefinitions(node_));
  }

  void drawHead() {
    int y = kMargin;
    for (std::size_t i = 0; i < head_.size(); ++i, y += kLine)
      out_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\">{}</text>\n", kMargin, y + kTitleFont - 2, i == 0 ? kTitleFont : kTextFont,
                          xmlText(head_[i]));
  }

  void drawBox(const MapBox& box, std::string_view kind) {
    static constexpr std::string_view kFills[] = {"#ffffff", "#eef1f4", "#f7f8fa", "#ffffff", "none"};  // by level, machine first
    const bool core = box.level == DomainLevel::Core;
    out_ += fmt::format(R"(<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="{}" fill="{}" stroke="{}"/>)", kind, left(box.x), top(box.y),
                        box.width, box.height, core ? 1 : 3, kFills[static_cast<std::size_t>(box.level)], core ? "#555555" : "#9aa0a6");
    if (!box.label.empty()) {
      const int font = layout_.cell.label * 10 / 13;
      out_ += fmt::format(R"(<text x="{}" y="{}" font-size="{}" fill="#333333">{}</text>)", left(box.x) + layout_.cell.gap,
                          top(box.y) + layout_.cell.gap / 2 + font, font, xmlText(box.label));
    }
    out_ += '\n';
  }

  // Text that stays readable on any pattern: on a plate of its own, squeezed if it is wider than its cell.
  void drawCellText(int middle, int baseline, int font, const std::string& text) {
    if (text.empty()) return;
    const int room = layout_.cell.width - 3;
    const int wide = widthOf(text.size(), font);
    const int plate = std::min(room, wide + 2);
    const std::string squeeze = wide > room ? fmt::format(R"( textLength="{}" lengthAdjust="spacingAndGlyphs")", room) : "";
    out_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" rx="2" fill="#ffffff" fill-opacity="0.8"/>)", middle - plate / 2,
                        baseline - font + 1, plate, font);
    out_ += fmt::format(R"(<text x="{}" y="{}" font-size="{}" text-anchor="middle"{}>{}</text>)", middle, baseline, font, squeeze, xmlText(text));
  }

  void drawCorner(int right, int y, int size) {
    out_ += fmt::format(R"(<path class="moved" d="M{} {}h{}v{}z" fill="#000000" stroke="#ffffff" stroke-width="1"/>)", right - size, y, size, size);
  }

  void drawCell(const MapCell& cell, const CpuUse& use) {
    const CellSize& size = layout_.cell;
    const int x = left(cell.x);
    const int y = top(cell.y);
    const bool slower = node_.machine->findCpu(use.cpu)->kind > 0;
    out_ += fmt::format(R"(<g class="cpu" id="cpu-{}"><title>{}</title>)", use.cpu, xmlText(tooltip(node_, use)));
    out_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}" stroke="#222222" stroke-width="0.7"{}/>)", x, y, size.width,
                        size.height, fillOf(use), slower ? R"( stroke-dasharray="3 2")" : "");
    // One strip of the right half for each borrower.
    const int shown = static_cast<int>(std::min<std::size_t>(use.borrowers.size(), 3));
    for (int i = 0; i < shown; ++i) {
      const int from = size.height * i / shown;
      out_ += fmt::format(R"(<rect class="loan" x="{}" y="{}" width="{}" height="{}" fill="{}"/>)", x + size.width / 2, y + from,
                          size.width - size.width / 2, size.height * (i + 1) / shown - from, loanFill(use.borrowers[static_cast<std::size_t>(i)]));
    }
    drawCellText(x + size.width / 2, y + size.idFont + 2, size.idFont, std::to_string(use.cpu));
    drawCellText(x + size.width / 2, y + size.height - 3, size.ownerFont, shortOwner(node_, use));
    if (use.changesHands) drawCorner(x + size.width, y, size.height / 3);
    out_ += "</g>\n";
  }

  void drawLegend() {
    for (std::size_t i = 0; i < legend_.size(); ++i) {
      const LegendEntry& entry = legend_[i];
      const int x = kMargin + static_cast<int>(i) / rows_ * (columnWidth_ + kBetweenColumns);
      const int y = legendTop_ + static_cast<int>(i) % rows_ * kLine;
      const std::string id = entry.id.empty() ? "" : fmt::format(R"( id="{}")", entry.id);
      out_ += fmt::format(R"(<g class="{}"{}>)", entry.kind, id);
      if (!entry.title.empty()) out_ += fmt::format("<title>{}</title>", xmlText(entry.title));
      out_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}" stroke="#222222" stroke-width="0.7"{}/>)", x, y, kSwatchWidth,
                          kSwatchHeight, entry.fill, entry.mark == LegendMark::Dashed ? R"( stroke-dasharray="3 2")" : "");
      if (!entry.stripes.empty())
        out_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>)", x + kSwatchWidth / 2, y, kSwatchWidth / 2, kSwatchHeight,
                            entry.stripes);
      if (entry.mark == LegendMark::Corner) drawCorner(x + kSwatchWidth, y, 8);
      out_ += fmt::format("<text x=\"{}\" y=\"{}\">{}</text></g>\n", x + kSwatchWidth + 8, y + kTextFont, xmlText(entry.text));
    }
  }

  [[nodiscard]] static int left(int x) { return kMargin + x; }
  [[nodiscard]] int top(int y) const { return mapTop_ + y; }

  const NodePlan& node_;
  MapLayout layout_;
  std::vector<CpuUse> uses_;
  std::vector<LegendEntry> legend_;
  std::vector<std::string> head_;
  int columnWidth_{0};
  int columns_{1};
  int rows_{1};
  int mapTop_{0};
  int legendTop_{0};
  int width_{0};
  int height_{0};
  std::string out_;
};
}  // namespace

std::string planMap(const NodePlan& plan) { return Drawing(plan).draw(); }

}  // namespace coterie::plan_node
