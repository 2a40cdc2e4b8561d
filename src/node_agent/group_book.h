// The groups and tenants of the configuration in force, by numbers that stay while their names are in it.
//
// The controller, the cache classes and the plans know groups and tenants by number. adopt() takes another configuration: a name that was there keeps
// its number, wherever it stands now; a new one gets a number that nobody had. So a file may be reordered, and groups may come and go in its middle,
// without anybody becoming somebody else. Order of the file still decides who owns a process that two groups name. O(groups log groups) to adopt,
// O(log groups) to look up. Asking for a number that is not there is a broken invariant. Pure. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/drc.h"
#include "foreign/discover.h"
#include "node_agent/agent_file.h"

namespace coterie::node_agent {

class GroupBook {
 public:
  // What another configuration changed, for people; and who has gone.
  struct Change {
    std::vector<std::string> added, removed;
    std::vector<std::string> changed;  // "red/s (weight, members)", "reserved"
    std::vector<std::size_t> gone;     // numbers of the removed
    [[nodiscard]] bool any() const { return !added.empty() || !removed.empty() || !changed.empty(); }
  };

  explicit GroupBook(AgentFile file) { static_cast<void>(adopt(std::move(file))); }
  Change adopt(AgentFile file);

  [[nodiscard]] const AgentFile& file() const { return file_; }
  [[nodiscard]] const std::vector<std::size_t>& numbers() const { return numbers_; }  // in the file's order
  [[nodiscard]] bool has(std::size_t number) const { return places_.count(number) > 0; }
  [[nodiscard]] const AgentGroup& group(std::size_t number) const { return file_.groups[places_.at(number)]; }
  [[nodiscard]] const std::string& tenantOf(std::size_t number) const { return file_.tenants[group(number).tenant].name; }
  [[nodiscard]] agent::GroupSpec specOf(std::size_t number) const;
  [[nodiscard]] const std::vector<foreign::GroupRules>& rules() const { return rules_; }
  // By this file's rules; a container's group is its number.
  [[nodiscard]] foreign::Discovery discover(const std::vector<SeenProcess>& processes, int self) const;

 private:
  AgentFile file_;
  std::vector<foreign::GroupRules> rules_;
  std::vector<std::size_t> numbers_;
  std::map<std::size_t, std::size_t> places_;  // by number, in file_.groups
  std::map<std::string, std::int32_t> tenantNumbers_;
  std::size_t nextGroup_{0};
  std::int32_t nextTenant_{0};
};

}  // namespace coterie::node_agent
