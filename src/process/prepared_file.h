// The prepared form of a model as a memory file that nobody can change any more.
//
// A worker that was asked to prepare writes it; once that worker says it is complete, the file is sealed against writing, shrinking and growing, and
// only then handed to others, who map it read-only and privately. So it can neither be changed under those who run over it nor shrink under them
// (SIGBUS), whatever becomes of the tenant's files and of the worker that wrote it; a worker that keeps a writable mapping prevents the seal, and
// there is no prepared form. Its bytes come from a sandboxed worker and are trusted as little as the model: other sandboxed workers of the same
// tenant parse them. Its pages are charged to the memory group of the worker that wrote it, and to the groups above when that one is gone; those who
// only read are charged nothing. Source: fcntl(2), F_SEAL_WRITE. Errors: Unavailable/NoMemory. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "ports/container_runtime.h"

namespace coterie::process {

class PreparedFile final : public PreparedModel {
 public:
  // An empty one to be written.
  [[nodiscard]] static Result<UniqueFd> create();
  // null: it is empty, or cannot be sealed.
  [[nodiscard]] static std::shared_ptr<const PreparedFile> seal(UniqueFd fd);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] Bytes size() const override { return size_; }

 private:
  PreparedFile(UniqueFd fd, Bytes size) : fd_(std::move(fd)), size_(size) {}
  UniqueFd fd_;
  Bytes size_;
};

}  // namespace coterie::process
