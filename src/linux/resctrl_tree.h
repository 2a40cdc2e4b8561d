// A kernel's resctrl file system in memory, by its rules: what the adapter reads, what it may write where, and what the kernel answers. Tests only.
//
// Two caches (ids 0 and 1) of twelve ways, two at least, bandwidth in steps of ten percent, four classes of service with the default's. A group is
// made with all of every cache; `schemata` is taken as a whole; `tasks` takes one thread a write, which leaves the group it was in; threads of a
// removed group are the default's. Whatever is written is kept in `written`, as "PATH: TEXT".
#pragma once

#include <signal.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "linux/resctrl.h"
#include "linux/resctrl_files.h"

namespace coterie::linux {

struct ResctrlState {
  std::map<std::string, std::string> info{
      {"info/L3/cbm_mask", "fff\n"},     {"info/L3/min_cbm_bits", "2\n"},   {"info/L3/num_closids", "4\n"},
      {"info/L3/shareable_bits", "0\n"}, {"info/MB/min_bandwidth", "10\n"}, {"info/MB/bandwidth_gran", "10\n"},
      {"info/MB/num_closids", "8\n"},    {"info/last_cmd_status", "ok\n"},  {"info/L3/bit_usage", "0=SSSSSSSSSSSS;1=SSSSSSSSSSSS\n"}};
  struct Group {
    ClassShares shares{{0, {0xfff, 100}}, {1, {0xfff, 100}}};
    std::set<int> tasks;
  };
  std::map<std::string, Group> groups{{"", {}}};
  std::vector<std::string> written;
  std::size_t closids{4};
  int refuseAll{0};  // an errno: every change answers it
  bool mounted{true};
};

class ResctrlTree final : public ResctrlFiles {
 public:
  explicit ResctrlTree(std::shared_ptr<ResctrlState> state) : state_(std::move(state)) {}

  [[nodiscard]] std::optional<std::string> read(const std::string& path) const override {
    if (!state_->mounted) return std::nullopt;
    if (const auto info = state_->info.find(path); info != state_->info.end()) return info->second;
    const auto [name, file] = split(path);
    const auto group = state_->groups.find(name);
    if (group == state_->groups.end()) return std::nullopt;
    std::string text;
    if (file == "schemata") {
      text = "    " + schemataText(group->second.shares);  // the kernel pads
    } else if (file == "tasks") {
      for (const int tid : group->second.tasks) text += std::to_string(tid) + "\n";
    } else {
      return std::nullopt;
    }
    return text;
  }
  [[nodiscard]] int write(const std::string& path, const std::string& text) override {
    state_->written.push_back(path + ": " + text);
    if (state_->refuseAll != 0) return state_->refuseAll;
    const auto [name, file] = split(path);
    const auto group = state_->groups.find(name);
    if (group == state_->groups.end()) return ENOENT;
    if (file == "schemata") return setShares(group->second, text);
    return file == "tasks" ? moveTask(group->second, text) : EACCES;
  }
  [[nodiscard]] int makeGroup(const std::string& name) override {
    if (state_->refuseAll != 0) return state_->refuseAll;
    if (state_->groups.count(name) > 0) return EEXIST;
    if (state_->groups.size() >= state_->closids) return fails(ENOSPC, "Out of CLOSIDs");
    state_->groups[name];
    state_->info["info/last_cmd_status"] = "ok\n";
    return 0;
  }
  [[nodiscard]] int removeGroup(const std::string& name) override {
    const auto group = state_->groups.find(name);
    if (name.empty() || group == state_->groups.end()) return ENOENT;
    state_->groups[""].tasks.merge(group->second.tasks);
    state_->groups.erase(name);
    return 0;
  }
  [[nodiscard]] std::vector<std::string> groups() const override {
    std::vector<std::string> names;
    for (const auto& [name, group] : state_->groups) {
      if (!name.empty() && state_->mounted) names.push_back(name);
    }
    return names;
  }

 private:
  static std::pair<std::string, std::string> split(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::pair(std::string(), path) : std::pair(path.substr(0, slash), path.substr(slash + 1));
  }
  int fails(int error, const std::string& why) {
    state_->info["info/last_cmd_status"] = why + "\n";
    return error;
  }
  int setShares(ResctrlState::Group& group, const std::string& text) {
    const Schemata wanted = parseSchemata(text);
    ClassShares shares = group.shares;
    for (const auto& [id, ways] : wanted.ways) {
      if (shares.count(id) == 0) return fails(EINVAL, "Unknown domain " + std::to_string(id));
      if ((ways & ~CacheWays{0xfff}) != 0) return fails(EINVAL, "Mask out of range");
      if (!isRun(ways)) return fails(EINVAL, "The mask has non-consecutive 1-bits");
      if (std::popcount(ways) < 2) return fails(EINVAL, "Need at least 2 bits in the mask");
      shares[id].ways = ways;
    }
    for (const auto& [id, rate] : wanted.bandwidth) {
      if (shares.count(id) == 0 || rate < 10 || rate > 100) return fails(EINVAL, "MB value out of range");
      shares[id].bandwidth = static_cast<int>((rate + 9) / 10 * 10);
    }
    group.shares = shares;
    return 0;
  }
  int moveTask(ResctrlState::Group& group, const std::string& text) {
    if (text.find('\n') != text.size() - 1) return EINVAL;
    const int tid = std::stoi(text);
    if (::kill(tid, 0) != 0) return ESRCH;
    for (auto& [name, other] : state_->groups) other.tasks.erase(tid);
    group.tasks.insert(tid);
    return 0;
  }

  std::shared_ptr<ResctrlState> state_;
};

}  // namespace coterie::linux
