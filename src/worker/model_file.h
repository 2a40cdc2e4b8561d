// A model's bytes, checked before any parser of ours or ONNX Runtime's goes deep: size, checksum, wholeness, and the external files it names.
//
// The file is mapped read-only; its checksum is taken over the same mapping that is parsed afterwards. External data is opened beneath the model's
// folder, component by component, without following links, so "../x", "/x" and links are refused by name. All inside the sandbox. Errors:
// InvalidArgument with reasons of onnx::scanModel, WrongChecksum, TooBig, ExternalDataOutside, ExternalDataMissing; messages name the file. O(bytes)
// with a checksum, else O(structure). Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "channel/arena.h"
#include "onnx/session.h"

namespace coterie::worker {

struct ModelFile {
  channel::Mapping bytes;
  std::vector<channel::Mapping> externalBytes;
  std::vector<onnx::ExternalFile> externalFiles;  // views of externalBytes
};

struct ModelFileOptions {
  std::string name;              // for messages
  std::string sha256;            // lower-case hex; empty: not checked
  std::uint64_t memoryLimit{0};  // 0: none
};
[[nodiscard]] Result<ModelFile> readModel(int file, int folder, const ModelFileOptions& options);

}  // namespace coterie::worker
