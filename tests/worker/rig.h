// One machine in small: an event loop, the process runtime, one service with its arena and backend, models written to a folder of the test's own.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "channel/local_backend.h"
#include "http/asio_loop.h"
#include "process/process_runtime.h"

namespace coterie::worker_test {

// Removed when destroyed. Readable by other users, as a tenant's model folder is.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }
  std::string write(const std::string& name, const std::string& bytes) const;  // returns its path
  std::string model(const std::string& name) const;                            // a generated one

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string runtimeLibrary();
[[nodiscard]] process::ProcessOptions workerOptions();

struct Reply {
  bool done{false};
  std::optional<Error> error;
  std::vector<std::vector<std::byte>> outputs;
  std::vector<Shape> shapes;
  RunOutcome outcome{Error{}, {}, {}, {}, false, false};  // answer emptied, unless kept
  std::unique_ptr<Answer> answer;
};

class Rig final : public ContainerRuntime::Listener, public ModelBackend::Listener, public channel::Supervision {
 public:
  explicit Rig(process::ProcessOptions options = workerOptions(), channel::BackendOptions backendOptions = {});
  ~Rig() override;

  InstanceSpec spec(int id, const std::string& modelPath) const;
  Status start(const InstanceSpec& spec) { return runtime->start(spec); }
  // Starts and waits; false (with ends[id]) if it ended instead. Adds it to the backend.
  bool startAndWait(const InstanceSpec& spec);
  [[nodiscard]] bool waitFor(const std::function<bool()>& done, Seconds limit = Seconds(60)) { return loop.runUntil(done, limit); }
  [[nodiscard]] bool waitForEnd(int id) {
    return waitFor([&] { return ends.contains(id); });
  }

  // One request with one input tensor; the reply is filled when it completes.
  std::shared_ptr<Reply> send(LaneRef lane, const Shape& shape, const std::vector<std::byte>& bytes, Nanos maxRun = Seconds(60));
  std::shared_ptr<Reply> sendAndWait(LaneRef lane, const Shape& shape, const std::vector<std::byte>& bytes);
  static LaneRef lane(int instance, int index = 0) { return {InstanceId(instance), LaneId(index)}; }
  // No run is left on any lane, and the arena is empty.
  [[nodiscard]] bool idle() const { return backend == nullptr || backend->arena().used() == 0; }

  void instanceProgress(InstanceId id, int percent) override { progress[id.value].push_back(percent); }
  void instanceReady(InstanceId id, const InstanceReady& ready) override;
  void instanceEnded(InstanceId id, const InstanceEnd& end) override;
  void laneReady(const LaneInfo& info) override { lanes[info.ref] = info.laneClass; }
  void laneGone(const LaneRef& ref) override { lanes.erase(ref); }
  void instanceSilent(InstanceId id, const std::string& why) override {
    silences[id.value].push_back(why);
    if (backend != nullptr) backend->suspendInstance(id);
  }
  void instanceAnswers(InstanceId id) override {
    ++returns[id.value];
    if (backend != nullptr) backend->resumeInstance(id);
  }
  void silent(InstanceId id, const std::string& why) override {
    loop.post([this, id, why] { runtime->heard(id, why); });
  }
  void answers(InstanceId id) override {
    loop.post([this, id] { runtime->heard(id, {}); });
  }
  void misbehaved(InstanceId id, EndReason reason, const std::string& message) override {
    loop.post([this, id, reason, message] { runtime->violated(id, reason, message); });
  }

  http::AsioLoop loop;
  std::unique_ptr<process::ProcessRuntime> runtime;
  std::shared_ptr<channel::RequestArena> arena;
  std::unique_ptr<channel::LocalBackend> backend;
  channel::BackendOptions backendOptions;
  std::map<int, std::vector<int>> progress;
  std::map<int, InstanceReady> ready;
  std::map<int, InstanceEnd> ends;
  std::map<int, std::vector<std::string>> silences;
  std::map<int, int> returns;
  std::map<LaneRef, LaneClass> lanes;
  bool keepAnswers{false};
  std::string workerErrors;  // what workers wrote to standard error, its beginning
};

// Stops a process and waits until each of its threads stands still.
void freeze(int pid);

template <typename T>
std::vector<std::byte> bytesOf(const std::vector<T>& values) {
  const auto view = std::as_bytes(std::span(values));
  return {view.begin(), view.end()};
}

}  // namespace coterie::worker_test
