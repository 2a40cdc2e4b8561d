// The homes of the last run, kept in one small file, so that a restart puts every service back where it was.
//
// Hints only: a missing, damaged or outdated file costs locality, never correctness (in-node.md, "Recovery"). Written to a temporary file and
// renamed, mode 0600; saving what is already there writes nothing. Thread rule: control loop.
#pragma once

#include <string>
#include <vector>

#include "agent/home_journal.h"

namespace coterie::serve {

class FileHomeJournal final : public agent::HomeJournal {
 public:
  explicit FileHomeJournal(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] std::vector<agent::HomeHint> load() override;
  void save(const std::vector<agent::HomeHint>& hints) override;

 private:
  std::string path_;
  std::vector<agent::HomeHint> last_;
};

}  // namespace coterie::serve
