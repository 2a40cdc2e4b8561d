// Measures and checksums a model's file.
//
// External data (weights in files of their own) is found without parsing the model: a file in the model's folder or below (at most 3 levels, 1,000 entries) counts if
// its relative path occurs in the model's bytes, which is how the format names it. Models over 64 MiB are not searched: there a file counts if its name begins with
// the model's. So the size is an estimate for admission, never a permission. Reads the file once, 1 MiB at a time: about 1.5 s a gigabyte.
// Errors: see ports/model_files.h. Thread-safe. Source: ONNX external data (location, offset, length).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "ports/model_files.h"

namespace coterie::files {

// Changes whenever the file does.
struct FileIdentity {
  std::uint64_t device{0};
  std::uint64_t inode{0};
  std::int64_t size{0};
  std::int64_t modifiedNanos{0};
  std::int64_t changedNanos{0};
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

struct OpenModel {
  UniqueFd fd;
  std::string path;  // absolute
  FileIdentity identity;
};

[[nodiscard]] Result<OpenModel> openModel(const std::string& root, const std::string& relativePath);
[[nodiscard]] Result<std::string> sha256Of(int fd, const std::string& name);
[[nodiscard]] Bytes externalSizeOf(const OpenModel& model);
[[nodiscard]] Result<ModelFile> inspectModel(const OpenModel& model);

}  // namespace coterie::files
