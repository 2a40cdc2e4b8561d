// Where models lie: finds a model's file below its tenant's root and says how large it is and what its checksum is. Nothing here looks into a model.
//
// inspect() answers later on the control loop, once; it may read the whole file, in turns with the files of other roots, so that nobody's large file
// holds up others. To let go of the inspection is to give the question up: the read stops and no answer comes (also from within the answer). A file
// that did not change since is answered from memory; one that is larger than the question allows is measured and not read. Errors:
// NotFound/ModelNotFound; PermissionDenied/ModelOutsideRoot (a link or '..' leads out of the root), ModelNotReadable; InvalidArgument/ModelNotAFile;
// NotFound/ModelRootNotFound; Unavailable/ModelReadFailed, ModelChanging (it was written while it was read); ResourceExhausted/TooManyInspections (of
// one root). Adapter: src/files; a fake in tests. Thread rule: calls and callbacks on the control loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace coterie {

struct ModelFile {
  std::string path;               // absolute, without links
  std::string sha256;             // lower-case hex, of the model's file; empty: larger than was allowed, not read
  Bytes size;                     // of the model's file
  Bytes externalSize;             // of files beside or below it that it names (external data)
  std::uint64_t externalMark{0};  // changes when one of those files does
};

struct ModelQuestion {
  std::string root;
  std::string relativePath;
  Bytes largest{INT64_MAX};  // that is read
};

class ModelInspection {
 public:
  virtual ~ModelInspection() = default;  // gives the question up
};

class ModelFiles {
 public:
  virtual ~ModelFiles() = default;
  [[nodiscard]] virtual std::unique_ptr<ModelInspection> inspect(ModelQuestion question, std::function<void(Result<ModelFile>)> callback) = 0;
};

}  // namespace coterie
