// ModelFiles on one thread of its own, so that reading gigabytes never holds up the control loop. Answers come back through EventLoop::post, in order.
//
// The thread runs at the lowest niceness: it shares CPUs with inference. The last 256 answers are kept by the file's identity. Destruction waits for the file being
// read; answers not yet given are dropped. Thread rule: as the port's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ports/clock.h"
#include "ports/model_files.h"

namespace coterie::files {

class ThreadedModelFiles final : public ModelFiles {
 public:
  explicit ThreadedModelFiles(EventLoop& loop);
  ~ThreadedModelFiles() override;
  ThreadedModelFiles(const ThreadedModelFiles&) = delete;
  ThreadedModelFiles& operator=(const ThreadedModelFiles&) = delete;

  void inspect(const std::string& root, const std::string& relativePath, std::function<void(Result<ModelFile>)> callback) override;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace coterie::files
