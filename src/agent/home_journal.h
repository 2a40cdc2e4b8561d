// Where homes are remembered across a restart: hints, nothing more. Losing them costs locality, never correctness (the plan is made from the specs
// and from what the kernel says). load() before the first plan; save() replaces everything, after plans that moved a home. A home is kept per service
// and ordinal: the n-th container of the service. Adapters: in src/serve (a file or the store), MemoryHomeJournal below for tests and for running
// without one. Thread rule: control loop.
#pragma once

#include <utility>
#include <vector>

#include "base/cpu_set.h"
#include "model/ids.h"

namespace coterie::agent {

struct HomeHint {
  ServiceName service;
  int ordinal{0};
  CpuSet home;
  bool inPool{false};
  friend bool operator==(const HomeHint&, const HomeHint&) = default;
};

class HomeJournal {
 public:
  virtual ~HomeJournal() = default;
  [[nodiscard]] virtual std::vector<HomeHint> load() = 0;
  virtual void save(const std::vector<HomeHint>& hints) = 0;
};

class MemoryHomeJournal final : public HomeJournal {
 public:
  [[nodiscard]] std::vector<HomeHint> load() override { return hints_; }
  void save(const std::vector<HomeHint>& hints) override {
    hints_ = hints;
    ++saves_;
  }
  [[nodiscard]] int saves() const { return saves_; }

 private:
  std::vector<HomeHint> hints_;
  int saves_{0};
};

}  // namespace coterie::agent
