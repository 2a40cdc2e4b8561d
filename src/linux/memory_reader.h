// Memory as the kernel shows it: what can be had of a node, what a process has, whether a control group waits for memory.
//
// What can be had of a node (nodeN/meminfo) is what is free and the pages of files and of the kernel's caches that need only be dropped: MemFree +
// Active(file) + Inactive(file) + SReclaimable - Dirty - Writeback. MemFree alone would call every machine full that has read enough files. Less what
// the kernel keeps for itself, the high watermarks of the node's zones (/proc/zoneinfo): a small machine with huge pages keeps 5 % of each node, and
// kills for want of memory with that much free. Nodes are those that have memory; files are held open, and opened anew once one fails (a node that
// was taken away and came back); the watermarks, a long file, are read again when one of the settings that make them or the list of nodes has
// changed. Without NUMA in the kernel the machine is node 0, and MemAvailable of /proc/meminfo counts. A process's resident pages are those of statm,
// shared ones included. Pressure is "some" of a memory.pressure file, its ten-second average. Parsing is pure. O(nodes) reads. Thread-compatible.
// Kernel formats: proc(5), the kernel's admin-guide/mm/numaperf, admin-guide/sysctl/vm, accounting/psi.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "model/machine.h"

namespace coterie::linux {

// Of the text of a node's meminfo, less what is kept; nothing: it is none.
[[nodiscard]] std::optional<Bytes> freeOfNode(std::string_view meminfo, Bytes kept = Bytes(0));
// Of the text of /proc/zoneinfo, by node: what the kernel keeps of its zones, a boost that passes by not counted.
[[nodiscard]] std::map<int, Bytes> keptByKernel(std::string_view zoneinfo, Bytes page);
// MemAvailable of /proc/meminfo.
[[nodiscard]] std::optional<Bytes> availableOf(std::string_view meminfo);
// Of the text of a memory.pressure file: permille of the last ten seconds in which somebody waited.
[[nodiscard]] std::optional<int> memoryPressureOf(std::string_view psi);
// Through a held descriptor of such a file; invalid: nothing is known.
[[nodiscard]] std::optional<int> memoryPressureIn(const UniqueFd& file);
// 0 once it has ended.
[[nodiscard]] Bytes residentOf(int pid);
// Of several together, for who asks every few seconds: their files are held open.
class ResidentMemory {
 public:
  [[nodiscard]] Bytes of(const std::vector<int>& pids);

 private:
  std::map<int, UniqueFd> files_;
};

class NodeMemory {
 public:
  NodeMemory();
  [[nodiscard]] std::vector<NodeFree> free();  // ascending id

 private:
  void readKept(const CpuSet& nodes);

  UniqueFd withMemory_;            // the list of nodes that have memory
  UniqueFd settings_[2];           // what the watermarks are made of
  std::map<int, UniqueFd> nodes_;  // their meminfo
  std::string keptFor_;            // the settings and nodes that kept_ was read for
  std::map<int, Bytes> kept_;      // what the kernel keeps of each
};

}  // namespace coterie::linux
