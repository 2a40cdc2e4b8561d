// The contracts of the ports on real workers.
#include <gtest/gtest.h>

#include <memory>

#include "ports/container_runtime_contract.h"
#include "ports/model_backend_contract.h"
#include "rig.h"

namespace coterie::contract {
namespace {

using worker_test::Folder;
using worker_test::Rig;

struct Worker {
  Folder folder;
  Rig rig;
};

ModelBackendHarness worker() {
  auto made = std::make_shared<Worker>();
  InstanceSpec spec = made->rig.spec(1, made->folder.model("identity_fp32"));
  spec.ownLanes = 2;
  EXPECT_TRUE(made->rig.startAndWait(spec)) << made->rig.ends[1].message;
  return {made->rig.backend.get(), [rig = &made->rig](const std::function<bool()>& done) { return rig->waitFor(done); }, std::size_t{16} << 20U,
          made};
}
INSTANTIATE_TEST_SUITE_P(Worker, ModelBackendContract, ::testing::Values(BackendUnderTest{"worker", worker}), backendName);

ContainerRuntimeHarness processes() {
  struct Processes {
    Folder folder;
    Rig rig;  // gives the service its arena
  };
  auto made = std::make_shared<Processes>();
  InstanceSpec good = made->rig.spec(0, made->folder.model("identity_fp32"));
  InstanceSpec bad = good;
  bad.modelPath = made->folder.write("bad.onnx", "no model");
  return {made->rig.runtime.get(), [rig = &made->rig](const std::function<bool()>& done) { return rig->waitFor(done); }, good, bad, made};
}
INSTANTIATE_TEST_SUITE_P(Processes, ContainerRuntimeContract, ::testing::Values(RuntimeUnderTest{"processes", processes}), runtimeName);

}  // namespace
}  // namespace coterie::contract
