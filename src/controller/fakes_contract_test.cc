// The fakes that the controller's stories run on keep the contracts of what they stand for.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "controller/controller_fixture.h"
#include "ports/container_runtime_contract.h"
#include "ports/model_files_contract.h"

namespace coterie::contract {
namespace {

ModelFilesHarness fakeFiles(testing::ManualLoop& loop) {
  auto files = std::make_unique<controller::FakeFiles>(loop);
  controller::FakeFiles* raw = files.get();
  return {std::move(files), "/models",
          [raw](const std::string& path, const std::string& content) {
            raw->put(path, "sum of " + content, Bytes(static_cast<std::int64_t>(content.size())));
          },
          nullptr};
}
INSTANTIATE_TEST_SUITE_P(Fake, ModelFilesContract, ::testing::Values(FilesUnderTest{"fake", fakeFiles}), filesName);

// What a test does by hand with the fake: all that start load, all that are stopped end.
class SteppedRuntime {
 public:
  controller::FakeRuntime runtime;
  void turn() {
    for (const InstanceSpec& spec : std::exchange(runtime.starts, {})) {
      const bool stopped = std::find(runtime.stops.begin(), runtime.stops.end(), spec.id) != runtime.stops.end();
      if (spec.modelPath == "bad") {
        runtime.end(spec.id, EndReason::LoadFailed, "no model");
      } else if (!stopped) {
        runtime.ready(spec.id);
      }
    }
    for (const InstanceId id : std::exchange(runtime.stops, {})) {
      if (runtime.running.contains(id)) runtime.end(id);
    }
  }
};

ContainerRuntimeHarness fakeRuntime() {
  auto made = std::make_shared<SteppedRuntime>();
  InstanceSpec bad;
  bad.modelPath = "bad";
  const auto runUntil = [raw = made.get()](const std::function<bool()>& done) {
    raw->turn();
    return done();
  };
  return {&made->runtime, runUntil, {}, bad, made};
}
INSTANTIATE_TEST_SUITE_P(Fake, ContainerRuntimeContract, ::testing::Values(RuntimeUnderTest{"fake", fakeRuntime}), runtimeName);

}  // namespace
}  // namespace coterie::contract
