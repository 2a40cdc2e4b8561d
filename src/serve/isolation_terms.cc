#include "serve/isolation_terms.h"

#include <string>

namespace coterie::serve {

namespace {
std::string gapsOf(Isolation level, const IsolationSetting& setting) {
  std::string gaps = "memory bandwidth stays shared";
  if (level == Isolation::Core && setting.units.sizes.cache > setting.units.sizes.core) {
    gaps = setting.cacheWays ? "memory bandwidth stays shared, and the last-level cache but for the ways that its tenant has to itself (while a "
                               "cache class is left for it)"
                             : "the last-level cache and memory bandwidth stay shared";
  }
  if (level == Isolation::Node) gaps += " with whatever memory of others lies on its nodes";
  if (level != Isolation::Core && setting.othersBandwidth > 0) {
    gaps += ", of which each core of another tenant on its memory nodes is held to " + std::to_string(setting.othersBandwidth) +
            " % of what it could draw (while a cache class is left for this one)";
  }
  gaps += ". Not kept away: ";
  gaps += setting.reserved ? "" : "Coterie's own threads, ";
  gaps += "workers that are loading a model, and programs that Coterie did not start";
  if (setting.virtualMachine) gaps += ". This is a virtual machine: two of its cores may be one of the host's, whose other guests nobody here sees";
  return gaps;
}
}  // namespace

controller::IsolationTerms isolationTerms(Isolation level, const IsolationSetting& setting) {
  const agent::IsolationUnits& units = setting.units;
  switch (level) {
    case Isolation::None: return {0, 0, {}, {}};
    case Isolation::Core: return {units.sizes.core, units.cores, "cores", gapsOf(level, setting)};
    case Isolation::Cache: return {units.sizes.cache, units.caches, "last-level caches", gapsOf(level, setting)};
    case Isolation::Node: return {units.sizes.node, units.nodes, "NUMA nodes", gapsOf(level, setting)};
  }
  return {};
}

}  // namespace coterie::serve
