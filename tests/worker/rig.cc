#include "rig.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "onnx/default_library.h"
#include "testing/onnx_writer.h"

namespace coterie::worker_test {

Folder::Folder() {
  std::string pattern = "/tmp/coterie-worker-test-XXXXXX";
  path_ = ::mkdtemp(pattern.data());
  ::chmod(path_.c_str(), 0755);
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
std::string Folder::write(const std::string& name, const std::string& bytes) const {
  std::filesystem::create_directories((path_ / name).parent_path());
  std::ofstream(path_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return (path_ / name).string();
}
std::string Folder::model(const std::string& name) const { return write(name + ".onnx", *testing::makeModel(name)); }

std::string runtimeLibrary() { return onnx::defaultLibrary(); }

process::ProcessOptions workerOptions() {
  process::ProcessOptions options;
  options.launcher = COTERIE_WORKER_BINARY;
  options.launcherArguments = {"worker", "launch"};
  options.worker = COTERIE_WORKER_BINARY;
  options.workerArguments = {"worker", "run"};
  options.runtimeLibrary = runtimeLibrary();
  options.largestAnswer = Bytes(4 << 20);
  options.sandbox = !COTERIE_SANITIZED;  // sanitizers need more of the kernel than a worker does
  return options;
}

namespace {
constexpr std::size_t kWorkerErrors = 64 << 10;
}

void freeze(int pid) {
  ::kill(pid, SIGSTOP);
  for (bool moving = true; moving;) {
    moving = false;
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
      std::ifstream stat(task.path() / "stat");
      std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
      moving = moving || text.find(") T ") == std::string::npos;
    }
    ::sched_yield();
  }
}

Rig::Rig(process::ProcessOptions options, channel::BackendOptions wanted) : backendOptions(wanted) {
  options.onErrorText = [this](InstanceId, std::string_view text) {
    if (workerErrors.size() < kWorkerErrors) workerErrors += text;
  };
  runtime = std::make_unique<process::ProcessRuntime>(loop, std::move(options));
  runtime->setListener(this);
  auto made = channel::RequestArena::create({Bytes(64 << 20), Bytes(16 << 20)});
  EXPECT_TRUE(made.ok());
  arena = std::move(made).value();
  EXPECT_TRUE(runtime->setRequestArena({"default", "model"}, arena->fd(), arena->size()).ok());
}

Rig::~Rig() {
  // A worker has no other voice: what a sanitizer finds inside it would be lost.
  EXPECT_EQ(workerErrors.find("Sanitizer:"), std::string::npos) << workerErrors;
  runtime->setListener(nullptr);
  backend.reset();
  runtime.reset();
  loop.poll();
}

InstanceSpec Rig::spec(int id, const std::string& modelPath) const {
  InstanceSpec spec;
  spec.id = InstanceId(id);
  spec.service = {"default", "model"};
  spec.tenant = TenantName("tenant");
  spec.modelPath = modelPath;
  return spec;
}

void Rig::instanceReady(InstanceId id, const InstanceReady& value) {
  ready[id.value] = value;
  auto endpoint = runtime->takeEndpoint(id);
  ASSERT_TRUE(endpoint.ok()) << endpoint.error().message;
  if (backend == nullptr) {
    backend = std::make_unique<channel::LocalBackend>(loop, arena, endpoint->signature, *this, backendOptions);
    backend->setListener(this);
  }
  const Status added = backend->addInstance(std::move(endpoint).value());
  ASSERT_TRUE(added.ok()) << added.error().message;
}

void Rig::instanceEnded(InstanceId id, const InstanceEnd& end) {
  EXPECT_FALSE(ends.contains(id.value)) << "an instance ends once";
  ends[id.value] = end;
  if (backend != nullptr) backend->removeInstance(id);
}

bool Rig::startAndWait(const InstanceSpec& wanted) {
  const Status started = start(wanted);
  EXPECT_TRUE(started.ok()) << started.error().message;
  const int id = wanted.id.value;
  EXPECT_TRUE(waitFor([&] { return ready.contains(id) || ends.contains(id); }));
  return ready.contains(id) && !ends.contains(id);
}

std::shared_ptr<Reply> Rig::send(LaneRef lane, const Shape& shape, const std::vector<std::byte>& bytes, Nanos maxRun) {
  auto reply = std::make_shared<Reply>();
  auto cell = backend->allocate(bytes.size());
  EXPECT_TRUE(cell.ok()) << cell.error().message;
  if (!bytes.empty()) std::memcpy((*cell)->bytes().data(), bytes.data(), bytes.size());
  RunRequest request;
  request.members.push_back({std::move(cell).value(), {{0, shape, 0, bytes.size()}}});
  for (std::size_t i = 0; i < backend->signature().outputs.size(); ++i) request.outputs.push_back(static_cast<int>(i));
  request.maxRun = maxRun;
  backend->run(lane, std::move(request), [reply, keep = keepAnswers](RunOutcome outcome) {
    EXPECT_FALSE(reply->done) << "a completion comes once";
    reply->done = true;
    if (!outcome.answer.ok()) {
      reply->error = outcome.answer.error();
    } else {
      for (const OutputTensor& output : (*outcome.answer)->outputs()) {
        reply->outputs.emplace_back(output.data.begin(), output.data.end());
        reply->shapes.push_back(output.shape);
      }
      if (keep) reply->answer = std::move(*outcome.answer);
    }
    outcome.answer = Error{};
    reply->outcome = std::move(outcome);
  });
  EXPECT_FALSE(reply->done) << "never from inside run()";
  return reply;
}

std::shared_ptr<Reply> Rig::sendAndWait(LaneRef lane, const Shape& shape, const std::vector<std::byte>& bytes) {
  auto reply = send(lane, shape, bytes);
  EXPECT_TRUE(waitFor([&] { return reply->done; }));
  return reply;
}

}  // namespace coterie::worker_test
