// A folder of a log in memory, with the faults of a disk: full, broken, unplugged. It passes ports/log_folder_contract.h. For tests only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ports/log_folder.h"

namespace coterie::testing {

class FakeLogFolder final : public LogFolder {
 public:
  [[nodiscard]] Result<std::vector<File>> list() const override {
    if (unreadable) return cannot("CannotRead", "the folder");
    std::vector<File> out;
    for (const auto& [name, file] : files_) out.push_back({name, file.bytes.size()});
    return out;
  }
  [[nodiscard]] Result<std::string> read(const std::string& name, std::uint64_t from, std::size_t most) const override {
    const auto found = files_.find(name);
    if (unreadable) return cannot("CannotRead", name);
    if (found == files_.end()) return missing(name);
    const std::string& bytes = found->second.bytes;
    return from >= bytes.size() ? std::string() : bytes.substr(from, most);
  }
  [[nodiscard]] Status create(const std::string& name) override {
    if (unwritable || files_.contains(name)) return cannot("CannotWrite", name);
    files_[name];
    return halfCreates ? Status(cannot("CannotWrite", name)) : Status();
  }
  // As a disk does it: what fits is written before it says that it is full; what could not be made durable is in the file all the same.
  [[nodiscard]] Status append(const std::string& name, std::string_view bytes, Durable durable) override {
    ++appends;
    const auto found = files_.find(name);
    if (found == files_.end()) return missing(name);
    if (unwritable) return cannot("CannotWrite", name);
    const std::size_t fits = std::min(bytes.size(), room);
    found->second.bytes.append(bytes.substr(0, fits));
    room -= fits;
    if (fits < bytes.size()) return cannot("NoRoom", name);
    if (durable == Durable::No) return {};
    if (notDurable) return cannot("CannotWrite", name);
    found->second.durable = found->second.bytes.size();
    ++flushes;
    return {};
  }
  [[nodiscard]] Status cut(const std::string& name, std::uint64_t size) override {
    const auto found = files_.find(name);
    if (found == files_.end()) return missing(name);
    if (unwritable) return cannot("CannotWrite", name);
    found->second.bytes.resize(std::min<std::size_t>(size, found->second.bytes.size()));
    found->second.durable = std::min(found->second.durable, found->second.bytes.size());
    return {};
  }
  [[nodiscard]] Status remove(const std::string& name) override { return files_.erase(name) == 1 ? Status() : Status(missing(name)); }

  // Power loss: what was not durable is gone.
  void losePower() {
    for (auto& [name, file] : files_) file.bytes.resize(file.durable);
  }
  [[nodiscard]] std::string& bytes(const std::string& name) { return files_[name].bytes; }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, file] : files_) out.push_back(name);
    return out;
  }

  std::size_t room{SIZE_MAX};  // bytes that still fit
  bool unwritable{false};
  bool unreadable{false};
  bool notDurable{false};   // flushing fails
  bool halfCreates{false};  // a new file is there, and its name could not be flushed
  int appends{0};
  int flushes{0};

 private:
  struct Content {
    std::string bytes;
    std::size_t durable{0};
  };
  static Error cannot(const char* reason, const std::string& name) { return {Code::Unavailable, reason, name + ": the test says so"}; }
  static Error missing(const std::string& name) { return {Code::NotFound, "NoSuchFile", name + " is not there"}; }

  std::map<std::string, Content> files_;
};

}  // namespace coterie::testing
