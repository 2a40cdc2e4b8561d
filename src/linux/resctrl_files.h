// The files of the kernel's resctrl file system, by their path below its root: what the adapter needs of a file system, so that its tests can be one.
//
// A group is a directory at the top that the kernel fills when it is made; it has `schemata` and `tasks`. info/, mon_groups/ and mon_data/ are none.
// A write is one write(2), since the kernel reads a line of `tasks` or a whole `schemata` at once; errnos are the kernel's. Thread-compatible.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace coterie::linux {

class ResctrlFiles {
 public:
  virtual ~ResctrlFiles() = default;
  [[nodiscard]] virtual std::optional<std::string> read(const std::string& path) const = 0;  // nothing: it is not there
  [[nodiscard]] virtual int write(const std::string& path, const std::string& text) = 0;     // the errno, 0 for success
  [[nodiscard]] virtual int makeGroup(const std::string& name) = 0;
  [[nodiscard]] virtual int removeGroup(const std::string& name) = 0;
  [[nodiscard]] virtual std::vector<std::string> groups() const = 0;  // by name
};

// A mounted one.
class MountedResctrl final : public ResctrlFiles {
 public:
  explicit MountedResctrl(std::string root = "/sys/fs/resctrl") : root_(std::move(root)) {}
  [[nodiscard]] std::optional<std::string> read(const std::string& path) const override;
  [[nodiscard]] int write(const std::string& path, const std::string& text) override;
  [[nodiscard]] int makeGroup(const std::string& name) override;
  [[nodiscard]] int removeGroup(const std::string& name) override;
  [[nodiscard]] std::vector<std::string> groups() const override;

 private:
  std::string root_;
};

}  // namespace coterie::linux
