#include "allocation/isolation_terms.h"

namespace coterie::allocation {

namespace {
std::string sharedText(Isolation level, const IsolationSetting& setting) {
  std::string shared = "memory bandwidth stays shared";
  if (level == Isolation::Core && setting.units.sizes.cache > setting.units.sizes.core) {
    shared = setting.cacheWays ? "memory bandwidth stays shared, and the last-level cache but for the ways that its tenant has to itself (while a "
                                 "cache class is left for it)"
                               : "the last-level cache and memory bandwidth stay shared";
  }
  if (level == Isolation::Node) shared += " with whatever memory of others lies on its nodes";
  if (level != Isolation::Core && setting.othersBandwidth > 0) {
    shared += ", of which each core of another tenant on its memory nodes is held to " + std::to_string(setting.othersBandwidth) +
              " % of what it could draw (while a cache class is left for this one)";
  }
  return shared;
}

std::string notKeptAway(const IsolationSetting& setting) {
  const std::string own = setting.reserved ? "" : "Coterie's own threads, ";
  switch (setting.managed) {
    case Managed::OwnWorkers: return "Not kept away: " + own + "workers that are loading a model, and programs that Coterie did not start";
    case Managed::Groups: return "Not kept away: " + own + (own.empty() ? "" : "and ") + "programs that belong to no group";
  }
  return {};
}

std::vector<std::string> gapsOf(Isolation level, const IsolationSetting& setting) {
  std::vector<std::string> gaps{sharedText(level, setting), notKeptAway(setting)};
  if (setting.virtualMachine)
    gaps.emplace_back("This is a virtual machine: two of its cores may be one of the host's, whose other guests nobody here sees");
  return gaps;
}
}  // namespace

IsolationUnits isolationUnits(const Layout& layout) {
  IsolationUnits units{unitSizes(layout), 0, 0, 0};
  for (const Layout::Branch& branch : layout.branches) {
    if (branch.level == DomainLevel::Core) ++units.cores;
    if (branch.level == DomainLevel::Cache) ++units.caches;
    if (branch.level == DomainLevel::Node) ++units.nodes;
  }
  return units;
}

IsolationTerms isolationTerms(Isolation level, const IsolationSetting& setting) {
  const IsolationUnits& units = setting.units;
  switch (level) {
    case Isolation::None: return {0, 0, {}, {}};
    case Isolation::Core: return {units.sizes.core, units.cores, "cores", gapsOf(level, setting)};
    case Isolation::Cache: return {units.sizes.cache, units.caches, "last-level caches", gapsOf(level, setting)};
    case Isolation::Node: return {units.sizes.node, units.nodes, "NUMA nodes", gapsOf(level, setting)};
  }
  return {};
}

std::string gapsText(const IsolationTerms& terms) {
  std::string text;
  for (const std::string& gap : terms.gaps) text += (text.empty() ? "" : ". ") + gap;
  return text;
}

std::string isolationText(Isolation level, const IsolationTerms& terms) {
  return "isolation " + std::string(isolationName(level)) + " keeps other tenants off its " + terms.named +
         ". Shared all the same: " + gapsText(terms);
}

}  // namespace coterie::allocation
