// Cache classes of the tenants on this node, as the plan of CPUs wants them: who has one, which threads are in it, and that it stays so.
//
// follow() after a plan: allocation::planClasses over what every tenant owns; classes nobody needs are removed, those that shrink are written before
// those that grow, containers are moved into theirs. A member of the pool is with the rest, since its CPUs are shared. check() each second: what the
// kernel has is read back and put right (a few times until the next plan, then it is said and left), and what failed is tried again, with what the
// kernel has left, each minute. What the kernel lacks or refuses is a condition: said once in the log and shown as
// long as it is so, and only where some tenant asks for a class; the threads then stay where they are. Cost: follow() O(containers + what changed),
// nothing at all where nobody asks; check() O(classes) reads. Thread rule: control loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "allocation/cache_classes.h"
#include "model/ids.h"
#include "model/isolation.h"
#include "model/machine.h"
#include "ports/cache_classes.h"

namespace coterie::agent {

struct ClassedContainer {
  InstanceId id;
  TenantId tenant;
  Isolation isolation{Isolation::None};
  bool inPool{false};
  CpuSet home;
  std::vector<int> processes;  // the first one began it
  friend bool operator==(const ClassedContainer&, const ClassedContainer&) = default;
};

struct ClassesView {
  bool ways{false};        // tenants that ask have ways of their own
  int othersBandwidth{0};  // percent that cores of others on the same memory are held to where it is asked; 0: they are not
  std::vector<std::string> conditions;
};

class ClassKeeper {
 public:
  ClassKeeper(CacheClasses& classes, CacheClassMode mode, allocation::ClassConfig config = {});

  void lookAgain();  // the machine may be another: at the start, and where CPUs came or went
  void follow(const Machine& machine, std::vector<ClassedContainer> containers, Instant now);  // all there are; the same again: nothing to do
  void check(const Machine& machine, Instant now);
  void shutDown();  // removes all classes

  [[nodiscard]] bool idle() const { return plan_.classes.empty() && conditions_.empty(); }  // nothing is in force, and nobody asked
  [[nodiscard]] ClassesView view() const;
  enum class Place : std::uint8_t { OwnCpus, Pool };
  // What a tenant's containers have, as a sentence; empty: no classes are in force.
  [[nodiscard]] std::string textOf(TenantId tenant, Place place) const;

 private:
  [[nodiscard]] std::vector<allocation::ClassClaim> claims(const Machine& machine) const;
  [[nodiscard]] bool asks() const;
  void plan(const Machine& machine);
  void apply(Instant now);
  [[nodiscard]] const allocation::ClassTarget* targetOf(TenantId tenant, Place place) const;
  void joinAll(Instant now);
  void repair(Instant now);
  void say(const std::string& condition);
  [[nodiscard]] static std::string nameOf(const allocation::ClassTarget& target);

  CacheClasses& classes_;
  CacheClassMode mode_;
  allocation::ClassConfig config_;
  Result<CacheControl> control_;
  bool looked_{true};  // since the last plan
  std::vector<ClassedContainer> containers_;
  allocation::ClassPlan plan_;
  std::set<std::string> made_;  // classes that are as planned, as far as is known
  struct Joined {
    std::string name;
    std::vector<int> processes;
    bool someStayed{false};  // in classes of others
  };
  std::map<InstanceId, Joined> joined_;
  std::vector<std::string> conditions_;
  std::set<std::string> said_;
  std::optional<Instant> retryAt_{};
  int repairs_{0};  // since the last plan that changed something
};

}  // namespace coterie::agent
