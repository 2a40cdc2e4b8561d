// What a worker loads its sessions from: the model's file, or the prepared form of it that others run over, too; and how such a form is made.
//
// Why a form of its own, and not the file's weights where they lie: a file can be replaced or cut short while it is mapped, inline weights lie at any
// offset, and ONNX Runtime copies most weights even so, because its optimiser lays those of convolutions out anew. The form holds what the optimiser
// left, so convolutions and vector products work on it as it is; it is made once, in a memory file that is sealed before anybody else sees it, which
// serves weights within the model's file and external data alike. And because it serves a worker of any width, a change of the width stays what it
// was: another worker starts, is ready, takes over.
//
// prepare(): (1) a session of one thread saves the form; (2) unless its runs are known to be worth it, a session over the model and one over the form
// are probed in turn, 3 to 10 times within 2 s; (3) the form is kept if the CPU time of its quickest probe is at most a tenth more, as it is where no
// product of two matrices dominates, each of which would be repacked in every run (2 to 3 times slower). What cannot be saved or loaded again (2 GiB
// at most) is not prepared, which is no fault. Peak: about four times the weights beyond what loading takes. O(load + runs). Errors: those of loading
// and probing the model itself. Thread rule: the service thread.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "base/result.h"
#include "channel/arena.h"
#include "onnx/session.h"
#include "ports/container_runtime.h"
#include "worker/model_file.h"

namespace coterie::worker {

struct ModelSource {
  ModelFile file;         // empty where only the form was given
  channel::Mapping form;  // empty: none
  [[nodiscard]] bool inPlace() const { return !form.bytes().empty(); }
};

// Sets what a session is loaded from; the source outlives the session.
[[nodiscard]] Result<std::unique_ptr<onnx::Session>> loadFrom(const ModelSource& source, const onnx::Library& library, onnx::LoadOptions options);

// Maps the form in a sealed memory file, or in one that this process itself has written. Internal/BadSetup: it is not `size` bytes long.
[[nodiscard]] Result<channel::Mapping> mapForm(int fd, std::uint64_t size);

using ProbeSession = std::function<Result<WidthSpeed>(const onnx::Session&)>;
// Writes the form into the memory file. Has `source.form` afterwards if it is worth it. probe: empty: it is.
[[nodiscard]] Status prepare(ModelSource& source, const onnx::Library& library, int memoryFile, const ProbeSession& probe);

// Is a form worth its shared pages, by the CPU times of a run over the model and over the form?
[[nodiscard]] bool worthSharing(Nanos own, Nanos inPlace);

}  // namespace coterie::worker
