// ModelFiles on one thread of its own, so that reading gigabytes never holds up the control loop. Answers come back through EventLoop::post.
//
// Roots take turns of one piece each (turn_queue.h): a small file is answered within a turn of every root that waits, however large the others' files
// are, and of one root's files those with the least left come first. A question that is given up is dropped within a block (1 MiB); so is all at
// destruction. Nothing stays open between turns; the questions that wait are bounded per root. The thread runs at the lowest niceness: it shares CPUs
// with inference. Thread rule: as the port's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/units.h"
#include "ports/clock.h"
#include "ports/model_files.h"

namespace coterie::files {

struct ModelFilesOptions {
  Bytes piece{16LL << 20};    // read in one turn
  std::size_t waiting{4096};  // questions of one root; more are refused (TooManyInspections)
};

class ThreadedModelFiles final : public ModelFiles {
 public:
  explicit ThreadedModelFiles(EventLoop& loop, const ModelFilesOptions& options = {});
  ~ThreadedModelFiles() override;
  ThreadedModelFiles(const ThreadedModelFiles&) = delete;
  ThreadedModelFiles& operator=(const ThreadedModelFiles&) = delete;

  [[nodiscard]] std::unique_ptr<ModelInspection> inspect(ModelQuestion question, std::function<void(Result<ModelFile>)> callback) override;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace coterie::files
