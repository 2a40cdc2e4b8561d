// A set of a cgroup that is not ours, of CPUs or of memory nodes: as it was asked for and as it is in force, read each second at little cost.
//
// What is in force follows from what was asked and from what is in force in the cgroup above: a partition that takes CPUs takes them there, too. The
// cgroup above is read once a round for all that lie below it. So a cgroup's own file of what is in force is read while one of the two is new, which
// is until the third sweep after it changed (a kernel that takes a CPU offline follows down the tree when it comes to it), and in every eighth sweep
// all the same. One small read, and one a round for each cgroup above. Errors: what cannot be read is empty. Thread rule: control loop; a prepared
// write may use the descriptor of asked() elsewhere while the object lives. Source: the kernel's cgroup-v2.rst (cpuset), kernel/cgroup/cpuset.c.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/cpu_set.h"
#include "base/unique_fd.h"
#include "linux/kept_file.h"

namespace coterie::linux {

// A file of a cgroup above others, as it was read in this round.
struct SetAbove {
  KeptFile file;
  std::optional<std::string> text{};  // nullopt: it is not there
  CpuSet set{};
  int round{-1};
};

// Those of them that somebody needs, each once, and the time as who reads them counts it.
class SetsAbove {
 public:
  void beginRound() { ++round_; }
  void beginSweep();
  [[nodiscard]] int sweep() const { return sweep_; }
  [[nodiscard]] std::shared_ptr<SetAbove> find(const std::string& path);
  void read(SetAbove& above) const;  // unless it was in this round

 private:
  std::map<std::string, std::weak_ptr<SetAbove>> files_;
  int round_{0}, sweep_{0};
};

class OwnSet {
 public:
  enum class Of : std::uint8_t { Cpus, MemoryNodes };
  OwnSet() = default;
  // directory: of the cgroup; v2: the names of the files are those of version 2.
  OwnSet(const std::string& directory, Of what, bool v2, SetsAbove& above);
  [[nodiscard]] bool valid() const { return asked_ && inForce_; }

  struct Sets {
    CpuSet asked, inForce;
  };
  [[nodiscard]] const Sets& read(const SetsAbove& above);
  // The id that the cgroup above has in force, if it is a single one: then it is in force here, too.
  [[nodiscard]] CpuSet singleAbove(const SetsAbove& above) const;
  // Now, whatever is known.
  [[nodiscard]] CpuSet askedNow() const;
  [[nodiscard]] CpuSet inForceNow() const;
  [[nodiscard]] CpuSet aboveNow() const;

  [[nodiscard]] const UniqueFd& asked() const { return asked_; }

 private:
  UniqueFd asked_, inForce_;
  std::shared_ptr<SetAbove> above_;
  std::optional<std::string> askedText_, aboveText_;
  int changed_{-1};  // sweep in which one of the two was new; -1: never read
  Sets sets_;
};

}  // namespace coterie::linux
