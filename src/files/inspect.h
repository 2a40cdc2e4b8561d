// Measures and checksums a model's file, a piece at a time.
//
// A ModelReading is one question. Each step opens the file anew, so that nothing is held open between turns; a file whose identity changed since the
// last step, or while it was read, is ModelChanging: its checksum would be that of no file. What KnownSums remembers is not read again. External data
// (weights in files of their own) is found without parsing the model: a file in the model's folder or below (at most 3 levels, 1,000 entries) counts
// if its relative path occurs in the model's bytes, which is how the format names it. Models over 64 MiB are not searched: there a file counts if its
// name begins with the model's. So the size is an estimate for admission, never a permission. Cost: a step reads `piece` bytes (1 MiB at a time,
// about 1.5 ms each), or, once the checksum is known, the model's at most 64 MiB again and compares 256 MiB. Errors: see ports/model_files.h. A
// reading belongs to one thread at a time. Source: ONNX external data (location, offset, length).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// The checksums of the files read last (256 of them), by path and identity.
class KnownSums {
 public:
  [[nodiscard]] const std::string* find(const OpenModel& model) const;
  void keep(const OpenModel& model, const std::string& sum);

 private:
  std::map<std::string, std::pair<FileIdentity, std::string>> known_;
};

class ModelReading {
 public:
  ModelReading(ModelQuestion question, KnownSums& known);
  ~ModelReading();
  ModelReading(const ModelReading&) = delete;
  ModelReading& operator=(const ModelReading&) = delete;

  // nullopt: not done yet, or `stopped` said so (asked between blocks).
  [[nodiscard]] std::optional<Result<ModelFile>> step(Bytes piece, const std::function<bool()>& stopped);
  [[nodiscard]] Bytes left() const { return left_; }  // to read; 0 before the first step

 private:
  class Digest;
  struct Candidate {
    std::string name;  // relative to the model's folder
    std::int64_t size{0};
    std::uint64_t mark{0};
  };
  enum class Progress : std::uint8_t { More, Done };

  [[nodiscard]] Result<Progress> readOn(const OpenModel& model, Bytes piece, const std::function<bool()>& stopped);
  [[nodiscard]] Progress searchOn(const OpenModel& model, const std::function<bool()>& stopped);
  [[nodiscard]] static std::vector<Candidate> filesBeside(const OpenModel& model);
  [[nodiscard]] Error changing() const;

  ModelQuestion question_;
  KnownSums& known_;
  std::optional<FileIdentity> identity_;  // as it was at the first step
  std::unique_ptr<Digest> digest_;
  std::int64_t offset_{0};
  Bytes left_;
  std::string sum_;
  std::optional<std::vector<Candidate>> candidates_;
  std::size_t nextCandidate_{0};
  Bytes externalSize_;
  std::uint64_t externalMark_{0};
};

// All steps at once.
[[nodiscard]] Result<ModelFile> inspectModel(const ModelQuestion& question);

}  // namespace coterie::files
