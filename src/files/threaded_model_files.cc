#include "files/threaded_model_files.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "files/inspect.h"
#include "files/turn_queue.h"

namespace coterie::files {

namespace {
struct Asked {
  Asked(ModelQuestion question, KnownSums& known, std::function<void(Result<ModelFile>)> answer)
      : root(question.root), reading(std::move(question), known), callback(std::move(answer)) {}
  std::string root;
  ModelReading reading;                             // the thread's own
  std::function<void(Result<ModelFile>)> callback;  // the loop's own
  std::atomic<bool> givenUp{false};
};

class Handle final : public ModelInspection {
 public:
  explicit Handle(std::shared_ptr<Asked> asked) : asked_(std::move(asked)) {}
  ~Handle() override {
    asked_->givenUp = true;
    asked_->callback = nullptr;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  std::shared_ptr<Asked> asked_;  // shared with the queue, which finds out later that nobody asks any more
};
}  // namespace

class ThreadedModelFiles::Worker {
 public:
  Worker(EventLoop& loop, const ModelFilesOptions& options) : loop_(loop), options_(options), thread_([this] { run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
    *alive_ = false;
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::unique_ptr<ModelInspection> add(ModelQuestion question, std::function<void(Result<ModelFile>)> callback) {
    auto asked = std::make_shared<Asked>(std::move(question), known_, std::move(callback));
    bool full = false;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.waitingOf(asked->root) >= options_.waiting) queue_.dropIf(asked->root, [](const auto& a) { return a->givenUp.load(); });
      full = queue_.waitingOf(asked->root) >= options_.waiting;
      if (!full) queue_.put(asked->root, asked, 0);
    }
    if (full) {
      post(asked, Error{Code::ResourceExhausted, "TooManyInspections",
                        std::to_string(options_.waiting) + " files below " + asked->root +
                            " wait to be looked at: this one's turn comes when they are fewer"});
    } else {
      wake_.notify_one();
    }
    return std::make_unique<Handle>(std::move(asked));
  }

 private:
  void run() {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 19);
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      const std::shared_ptr<Asked> asked = *queue_.take();
      lock.unlock();
      std::optional<Result<ModelFile>> answer;
      const auto stopped = [&] { return stopping_ || asked->givenUp; };
      if (!stopped()) answer = asked->reading.step(options_.piece, stopped);
      const bool again = !answer && !stopped();
      if (answer) post(asked, std::move(*answer));
      lock.lock();
      if (again) queue_.put(asked->root, asked, asked->reading.left().value);
    }
  }

  void post(std::shared_ptr<Asked> asked, Result<ModelFile> answer) {
    // alive_ and the callback are read and cleared on the loop's thread only.
    loop_.post([alive = alive_, asked = std::move(asked), answer = std::move(answer)] {
      if (!*alive) return;
      if (const auto callback = std::exchange(asked->callback, nullptr)) callback(answer);
    });
  }

  EventLoop& loop_;
  const ModelFilesOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  TurnQueue<std::shared_ptr<Asked>> queue_;
  std::atomic<bool> stopping_{false};
  KnownSums known_;                                            // the thread's own
  std::shared_ptr<bool> alive_{std::make_shared<bool>(true)};  // shared with posted answers, which may outlive this
  std::thread thread_;
};

ThreadedModelFiles::ThreadedModelFiles(EventLoop& loop, const ModelFilesOptions& options) : worker_(std::make_unique<Worker>(loop, options)) {}
ThreadedModelFiles::~ThreadedModelFiles() = default;

std::unique_ptr<ModelInspection> ThreadedModelFiles::inspect(ModelQuestion question, std::function<void(Result<ModelFile>)> callback) {
  return worker_->add(std::move(question), std::move(callback));
}

}  // namespace coterie::files
