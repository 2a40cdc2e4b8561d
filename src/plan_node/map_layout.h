// Where the parts of a machine lie on its map: boxes within boxes (socket, node, cache, core), a cell for each CPU, boxes for memory nodes without
// CPUs.
//
// Within a box the children stand in rows, by lowest CPU id, in as many columns as fits the smallest frame 1.6 times as wide as high. Cells are
// compact from 129 CPUs up. Pixels, integers only, so that the same machine always gives the same picture. O(n log n + sum over boxes of children^2)
// for n CPUs and domains. Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/machine.h"

namespace coterie::plan_node {

struct CellSize {
  int width;
  int height;
  int idFont;     // of the CPU's id
  int ownerFont;  // of the line below
  int label;      // height of a box's label, 1.3 times its font
  int gap;        // between boxes, and within them
};
[[nodiscard]] CellSize cellSizeFor(int cpus);

struct MapBox {
  DomainLevel level{DomainLevel::Machine};
  int id{0};  // the kernel's; of the memory node where there are no CPUs
  std::string label;
  int x{0};
  int y{0};
  int width{0};
  int height{0};
};

struct MapCell {
  int cpu{0};
  int x{0};
  int y{0};
};

struct MapLayout {
  CellSize cell{};
  std::vector<MapBox> boxes;   // outer ones first
  std::vector<MapBox> memory;  // memory nodes without CPUs
  std::vector<MapCell> cells;  // ascending CPU id
  int width{0};
  int height{0};
};
[[nodiscard]] MapLayout layOut(const Machine& machine);

}  // namespace coterie::plan_node
