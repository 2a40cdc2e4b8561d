#include "allocation/quality/snapshot_text.h"

#include <array>
#include <sstream>

#include "allocation/isolation.h"
#include "allocation/layout.h"

namespace coterie::allocation {

std::string text(const Snapshot& snapshot) {
  std::ostringstream out;
  out << "usable " << usableCpus(*snapshot.machine, snapshot.reserved).toString() << " pool " << snapshot.pool.toString() << "\n";
  for (const GroupState& group : snapshot.groups) {
    out << "  group " << group.id.value << " tenant " << group.tenant.value << " band " << static_cast<int>(group.band) << " weight "
        << group.tenantWeight << "/" << group.weight << " cap " << group.tenantCap.value << " floor " << group.floor.value << " ceiling "
        << group.ceiling.value << " demand " << group.demand.value << (group.queuedBeyondOwnLanes ? " queued" : "")
        << (group.lend == Lend::Never ? " never lends" : "")
        << (isolated(group) ? " isolation " + std::to_string(static_cast<int>(group.isolation)) : "") << "\n";
    for (const ContainerState& one : group.containers) {
      out << "    " << one.id.value << " home " << one.home.toString() << " loans " << one.loans.toString() << " nodes " << one.memoryNodes.toString()
          << " needs " << one.resident.value << "/" << one.expected.value << (one.memoryPressure > 0 ? " pressed" : "") << "\n";
    }
  }
  return out.str();
}

std::string text(const Plan& plan) {
  static constexpr std::array<const char*, 8> kKinds{"WidenAncestors", "NarrowHome",     "WidenHome", "SwapHome",
                                                     "SetLoans",       "SetMemoryNodes", "SetWeight", "NarrowAncestors"};
  std::ostringstream out;
  out << "plan: pool " << plan.pool.toString() << "\n";
  for (const GroupTarget& target : plan.groups) {
    out << "  group " << target.id.value << " entitled " << target.entitlement.value << (target.inPool ? " pool" : "")
        << (target.pending ? " pending" : "") << ":";
    for (const ContainerTarget& one : target.containers) out << " " << one.id.value << "=" << one.home.toString() << "+" << one.loans.toString();
    out << "\n";
  }
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    out << "  step " << s << " " << kKinds[static_cast<std::size_t>(step.kind)] << " " << step.container.value << " cpus " << step.cpus.toString()
        << " nodes " << step.memoryNodes.toString() << " weight " << step.weight << " waits";
    for (const int wait : step.waitsFor) out << " " << wait;
    out << "\n";
  }
  return out.str();
}

}  // namespace coterie::allocation
