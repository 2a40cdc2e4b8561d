// What a level of isolation is on a machine, in numbers and in words: what its units are, and what it does not keep away. The one text for
// `coterie serve` (describe, explain), `coterie agent` and `coterie plan node`, each of which tells it what is so where it stands. O(length); units:
// O(domains). Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocation/isolation.h"
#include "allocation/layout.h"

namespace coterie::allocation {

// The units in which isolation is counted on a machine.
struct IsolationUnits {
  UnitSizes sizes;  // CPUs of the largest of each level
  int cores{0};
  int caches{0};
  int nodes{0};
};
[[nodiscard]] IsolationUnits isolationUnits(const Layout& layout);

// Whose CPUs are set: who else runs is not kept away.
enum class Managed : std::uint8_t {
  OwnWorkers,  // processes that Coterie starts
  Groups,      // containers that are there, by the groups that they belong to
};

struct IsolationSetting {
  IsolationUnits units;
  bool reserved{false};        // Coterie's own threads have CPUs of their own
  bool virtualMachine{false};  // the CPUs are a hypervisor's
  bool cacheWays{false};       // its tenant has ways of the last-level caches for itself
  int othersBandwidth{0};      // percent that others' cores on its memory nodes are held to; 0: they are not
  Managed managed{Managed::OwnWorkers};
};

struct IsolationTerms {
  int unitCpus{1};                // of the largest unit: what is owned for a floor is a multiple of it
  int units{1};                   // of that level on the machine
  std::string named;              // "cores", "last-level caches", "NUMA nodes"
  std::vector<std::string> gaps;  // what it does not keep away, a sentence each without its full stop; empty for none
};
[[nodiscard]] IsolationTerms isolationTerms(Isolation level, const IsolationSetting& setting);
// "memory bandwidth stays shared. Not kept away: ..."
[[nodiscard]] std::string gapsText(const IsolationTerms& terms);
// "isolation core keeps other tenants off its cores. Shared all the same: ..."
[[nodiscard]] std::string isolationText(Isolation level, const IsolationTerms& terms);

}  // namespace coterie::allocation
