// A kernel's cache classes in memory: masks, classes and threads by its rules; tests say what hardware there is, what fails, and what others do.
// Passes cache_classes_contract.h.
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ports/cache_classes.h"

namespace coterie::testing {

// A machine of two caches of twelve ways, over CPUs 0-3 and 4-7, with classes for three.
[[nodiscard]] inline CacheControl twoCaches() {
  CacheControl control;
  control.caches = {{0, CpuSet::range(0, 3), 0xfff}, {1, CpuSet::range(4, 7), 0xfff}};
  control.classes = 3;
  control.leastWays = 2;
  control.leastBandwidth = 10;
  control.bandwidthStep = 10;
  return control;
}

class FakeCacheClasses final : public CacheClasses {
 public:
  explicit FakeCacheClasses(CacheControl control) : control_(std::move(control)) {}
  // A machine whose kernel has none.
  explicit FakeCacheClasses(Error nothing) : nothing_(std::move(nothing)) {}

  [[nodiscard]] Result<CacheControl> read() override {
    ++readings;
    if (nothing_) return *nothing_;
    CacheControl now = control_;
    now.classes = std::max(0, now.classes - static_cast<int>(others_.size()));
    return now;
  }
  [[nodiscard]] Status set(const CacheClass& wanted) override {
    ++writes;
    if (refusal) return *refusal;
    const bool fresh = classes_.count(wanted.name) == 0;
    if (fresh && static_cast<int>(classes_.size() + others_.size()) >= control_.classes)
      return Error{Code::ResourceExhausted, "NoClassLeft", "no class is left for " + wanted.name};
    ClassShares shares = fresh ? whole() : classes_.at(wanted.name);
    for (const auto& [cache, share] : wanted.shares) {
      const auto known = std::find_if(control_.caches.begin(), control_.caches.end(), [id = cache](const auto& one) { return one.id == id; });
      const bool within = known != control_.caches.end() && (share.ways & ~known->ways) == 0;
      const bool enough = share.ways == 0 || (isRun(share.ways) && std::popcount(share.ways) >= control_.leastWays);
      if (!within || !enough) return Error{Code::InvalidArgument, "ClassRefused", "mask of cache " + std::to_string(cache) + " out of range"};
      if (share.ways != 0) shares[cache].ways = share.ways;
      if (share.bandwidth != 0) shares[cache].bandwidth = share.bandwidth;
    }
    classes_[wanted.name] = shares;
    return {};
  }
  [[nodiscard]] Result<std::vector<int>> join(const std::string& name, const std::vector<int>& processes) override {
    ++joins;
    if (!name.empty() && classes_.count(name) == 0) return Error{Code::NotFound, "UnknownClass", "there is no cache class " + name};
    std::vector<int> leftAlone;
    for (const int pid : processes) {
      if (others_.count(pid) > 0) {
        leftAlone.push_back(pid);
      } else if (gone.count(pid) == 0) {
        classOf_[pid] = name;
        if (name.empty()) classOf_.erase(pid);
      }
    }
    return leftAlone;
  }
  void remove(const std::string& name) override {
    classes_.erase(name);
    std::erase_if(classOf_, [&](const auto& entry) { return entry.second == name; });
  }
  [[nodiscard]] std::vector<CacheClass> list() const override {
    std::vector<CacheClass> classes;
    for (const auto& [name, shares] : classes_) classes.push_back({name, shares});
    return classes;
  }
  void restore() override {
    classes_.clear();
    classOf_.clear();
  }

  // The class of a process of ours; "": the default.
  [[nodiscard]] std::string classOf(int pid) const {
    const auto found = classOf_.find(pid);
    return found == classOf_.end() ? "" : found->second;
  }
  [[nodiscard]] std::optional<ClassShares> shares(const std::string& name) const {
    const auto found = classes_.find(name);
    return found == classes_.end() ? std::nullopt : std::optional(found->second);
  }
  // What somebody else does: takes a class for a process, overwrites or removes one of ours, changes what there is.
  void takenByOthers(int pid) { others_.insert(pid); }
  [[nodiscard]] bool isOthers(int pid) const { return others_.count(pid) > 0; }
  void overwrite(const std::string& name, int cache, ClassShare share) { classes_.at(name)[cache] = share; }
  void setControl(CacheControl control) { control_ = std::move(control); }

  std::optional<Error> refusal{};  // of every set()
  std::set<int> gone{};
  int readings{0}, writes{0}, joins{0};

 private:
  [[nodiscard]] ClassShares whole() const {
    constexpr int kAll = 100;
    ClassShares shares;
    for (const CacheInstance& cache : control_.caches) shares[cache.id] = {cache.ways, control_.leastBandwidth > 0 ? kAll : 0};
    return shares;
  }
  CacheControl control_;
  std::optional<Error> nothing_{};
  std::map<std::string, ClassShares> classes_;
  std::map<int, std::string> classOf_;
  std::set<int> others_;  // each in a class of its own
};

}  // namespace coterie::testing
