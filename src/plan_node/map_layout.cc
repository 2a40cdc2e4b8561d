#include "plan_node/map_layout.h"

#include <algorithm>
#include <utility>

#include "objects/quantity.h"

namespace coterie::plan_node {

namespace {
constexpr int kCompactFrom = 129;
constexpr std::int64_t kWide = 8;  // a box is kWide / kHigh times as wide as high
constexpr std::int64_t kHigh = 5;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Size {
  int width{0};
  int height{0};
};
struct Point {
  int x{0};
  int y{0};
};

// Puts things of these sizes into rows no wider than `limit`; returns the room they take together.
Size flowWithin(const std::vector<Size>& sizes, int gap, int limit, std::vector<Point>& places) {
  Size room;
  Point next;
  int rowHeight = 0;
  for (const Size& size : sizes) {
    if (next.x > 0 && next.x + size.width > limit) next = {0, next.y + rowHeight + gap}, rowHeight = 0;
    places.push_back(next);
    room.width = std::max(room.width, next.x + size.width);
    rowHeight = std::max(rowHeight, size.height);
    room.height = std::max(room.height, next.y + rowHeight);
    next.x += size.width + gap;
  }
  return room;
}

// The same in rows as wide as the first row of one, two, ... things: whichever fits the smallest frame of the wanted shape.
Size flow(const std::vector<Size>& sizes, int gap, std::vector<Point>& places) {
  Size best;
  std::int64_t least = -1;
  int limit = 0;
  for (const Size& first : sizes) {
    limit += first.width + (limit > 0 ? gap : 0);
    std::vector<Point> tried;
    const Size room = flowWithin(sizes, gap, limit, tried);
    const std::int64_t frame = std::max(room.width * kHigh, room.height * kWide);
    if (least >= 0 && frame >= least) continue;
    least = frame;
    best = room;
    places = std::move(tried);
  }
  return best;
}

// A domain with its measured room, and its children's places in it.
struct Part {
  int domain{0};
  std::string label;
  Size size;
  Point inner;  // of the children's room
  std::vector<Part> children;
  std::vector<int> cpus;  // of a core
  std::vector<Point> places;
};

class Builder {
 public:
  explicit Builder(const Machine& machine) : machine_(machine), children_(machine.domains.size()) {
    layout_.cell = cellSizeFor(machine.online.count());
    for (std::size_t d = 1; d < machine.domains.size(); ++d) {
      const Domain& domain = machine.domains[d];
      if (domain.parent >= 0 && !domain.cpus.empty()) children_[at(domain.parent)].push_back(static_cast<int>(d));
    }
    for (std::vector<int>& list : children_) {
      const auto place = [&](int domain) { return std::pair(machine_.domains[at(domain)].cpus.first(), domain); };
      std::sort(list.begin(), list.end(), [&](int a, int b) { return place(a) < place(b); });
    }
  }

  MapLayout build() {
    const Part whole = measure(0);
    draw(whole, {0, 0});
    layout_.width = whole.size.width;
    layout_.height = whole.size.height;
    addMemory();
    std::sort(layout_.cells.begin(), layout_.cells.end(), [](const MapCell& a, const MapCell& b) { return a.cpu < b.cpu; });
    return std::move(layout_);
  }

 private:
  [[nodiscard]] std::string memoryText(int node) const {
    constexpr std::int64_t kMebi = std::int64_t{1} << 20;
    for (const MemoryNode& memory : machine_.memoryNodes) {
      if (memory.id != node) continue;
      return memory.size.value < kMebi ? ", no memory" : ", " + objects::bytesText(Bytes(memory.size.value / kMebi * kMebi));
    }
    return {};
  }

  // A node that spans sockets is one domain per part.
  [[nodiscard]] bool isPart(const Domain& node) const {
    return std::count_if(machine_.domains.begin(), machine_.domains.end(),
                         [&](const Domain& other) { return other.level == DomainLevel::Node && other.id == node.id && !other.cpus.empty(); }) > 1;
  }

  [[nodiscard]] std::string labelOf(const Domain& domain) const {
    const std::string id = std::to_string(domain.id);
    switch (domain.level) {
      case DomainLevel::Socket: return "socket " + id;
      case DomainLevel::Node: return (isPart(domain) ? "part of node " : "node ") + id + memoryText(domain.id);
      case DomainLevel::Cache: return "cache " + id;
      case DomainLevel::Machine:
      case DomainLevel::Core: break;
    }
    return {};
  }

  [[nodiscard]] int labelWidth(const std::string& label) const {
    return static_cast<int>(label.size()) * layout_.cell.label * 6 / 13 + layout_.cell.gap;
  }

  [[nodiscard]] Part measure(int domain) const {
    const CellSize& cell = layout_.cell;
    const Domain& here = machine_.domains[at(domain)];
    Part part;
    part.domain = domain;
    part.label = labelOf(here);
    std::vector<Size> sizes;
    for (const int child : children_[at(domain)]) {
      part.children.push_back(measure(child));
      sizes.push_back(part.children.back().size);
    }
    CpuSet own = here.cpus;  // what no child holds: a core's threads
    for (const int child : children_[at(domain)]) own -= machine_.domains[at(child)].cpus;
    part.cpus = own.toVector();
    sizes.insert(sizes.end(), part.cpus.size(), Size{cell.width, cell.height});
    const bool core = here.level == DomainLevel::Core;
    const Size room = core ? row(sizes, part.places) : flow(sizes, cell.gap, part.places);
    const int edge = here.level == DomainLevel::Machine ? 0 : core ? 1 : cell.gap;
    const int head = part.label.empty() ? edge : edge + cell.label;
    part.inner = {edge, head};
    part.size = {std::max(room.width + 2 * edge, part.label.empty() ? 0 : labelWidth(part.label)), room.height + head + edge};
    return part;
  }

  // Threads of a core stand side by side.
  static Size row(const std::vector<Size>& sizes, std::vector<Point>& places) {
    Size room;
    for (const Size& size : sizes) {
      places.push_back({room.width, 0});
      room = {room.width + size.width, std::max(room.height, size.height)};
    }
    return room;
  }

  void draw(const Part& part, Point origin) {
    const Domain& here = machine_.domains[at(part.domain)];
    if (here.level != DomainLevel::Machine)
      layout_.boxes.push_back({here.level, here.id, part.label, origin.x, origin.y, part.size.width, part.size.height});
    const auto placeAt = [&](std::size_t index) {
      return Point{origin.x + part.inner.x + part.places[index].x, origin.y + part.inner.y + part.places[index].y};
    };
    for (std::size_t i = 0; i < part.children.size(); ++i) draw(part.children[i], placeAt(i));
    for (std::size_t i = 0; i < part.cpus.size(); ++i) {
      const Point place = placeAt(part.children.size() + i);
      layout_.cells.push_back({part.cpus[i], place.x, place.y});
    }
  }

  // Below the rest, in rows as wide as it is.
  void addMemory() {
    const CellSize& cell = layout_.cell;
    Point next{0, layout_.height + cell.gap};
    for (const MemoryNode& memory : machine_.memoryNodes) {
      if (!memory.cpus.empty()) continue;
      const std::string label = "memory node " + std::to_string(memory.id) + memoryText(memory.id);
      const Size size{labelWidth(label) + cell.gap, cell.label + 2 * cell.gap};
      if (next.x > 0 && next.x + size.width > layout_.width) next = {0, next.y + size.height + cell.gap};
      layout_.memory.push_back({DomainLevel::Node, memory.id, label, next.x, next.y, size.width, size.height});
      next.x += size.width + cell.gap;
    }
    for (const MapBox& box : layout_.memory) {
      layout_.width = std::max(layout_.width, box.x + box.width);
      layout_.height = std::max(layout_.height, box.y + box.height);
    }
  }

  const Machine& machine_;
  std::vector<std::vector<int>> children_;
  MapLayout layout_;
};
}  // namespace

CellSize cellSizeFor(int cpus) { return cpus < kCompactFrom ? CellSize{48, 34, 13, 10, 16, 6} : CellSize{30, 22, 9, 7, 12, 4}; }

MapLayout layOut(const Machine& machine) { return Builder(machine).build(); }

}  // namespace coterie::plan_node
