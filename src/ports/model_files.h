// Where models lie: finds a model's file below its tenant's root and says how large it is and what its checksum is. Nothing here looks into a model.
//
// inspect() answers later on the control loop, exactly once; it may read the whole file. A file that did not change since is answered from memory.
// Errors: NotFound/ModelNotFound; PermissionDenied/ModelOutsideRoot (a link or '..' leads out of the root), ModelNotReadable; InvalidArgument/ModelNotAFile;
// NotFound/ModelRootNotFound; Unavailable/ModelReadFailed. Adapter: src/files; a fake in tests. Thread rule: calls and callbacks on the control loop.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace coterie {

struct ModelFile {
  std::string path;      // absolute, without links
  std::string sha256;    // lower-case hex, of the model's file
  Bytes size;            // of the model's file
  Bytes externalSize;    // of files beside or below it that it names (external data)
};

class ModelFiles {
 public:
  virtual ~ModelFiles() = default;
  virtual void inspect(const std::string& root, const std::string& relativePath, std::function<void(Result<ModelFile>)> callback) = 0;
};

}  // namespace coterie
