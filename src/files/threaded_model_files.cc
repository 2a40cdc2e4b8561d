#include "files/threaded_model_files.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "files/inspect.h"

namespace coterie::files {

class ThreadedModelFiles::Worker {
 public:
  explicit Worker(EventLoop& loop) : loop_(loop), thread_([this] { run(); }) {}
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

  struct Job {
    std::string root;
    std::string path;
    std::function<void(Result<ModelFile>)> callback;
  };
  void add(Job job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
  }

 private:
  void run() {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 19);
    while (true) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      Result<ModelFile> answer = inspect(job);
      // alive_ is read and cleared on the loop's thread only.
      loop_.post([alive = alive_, callback = std::move(job.callback), answer = std::move(answer)] {
        if (*alive) callback(answer);
      });
    }
  }

  Result<ModelFile> inspect(const Job& job) {
    constexpr std::size_t kMostKept = 256;
    const Result<OpenModel> model = openModel(job.root, job.path);
    if (!model.ok()) return model.error();
    const auto known = known_.find(model->path);
    if (known != known_.end() && known->second.first == model->identity) {
      ModelFile again = known->second.second;
      again.externalSize = externalSizeOf(*model);
      return again;
    }
    Result<ModelFile> fresh = inspectModel(*model);
    if (fresh.ok()) {
      if (known_.size() >= kMostKept) known_.clear();
      known_[model->path] = {model->identity, *fresh};
    }
    return fresh;
  }

  EventLoop& loop_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool stopping_{false};
  std::map<std::string, std::pair<FileIdentity, ModelFile>> known_;  // the thread's own
  std::shared_ptr<bool> alive_{std::make_shared<bool>(true)};        // shared with posted answers, which may outlive this
  std::thread thread_;
};

ThreadedModelFiles::ThreadedModelFiles(EventLoop& loop) : worker_(std::make_unique<Worker>(loop)) {}
ThreadedModelFiles::~ThreadedModelFiles() = default;

void ThreadedModelFiles::inspect(const std::string& root, const std::string& relativePath, std::function<void(Result<ModelFile>)> callback) {
  worker_->add({root, relativePath, std::move(callback)});
}

}  // namespace coterie::files
