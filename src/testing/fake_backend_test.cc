#include "testing/fake_backend.h"

#include <gtest/gtest.h>

#include <memory>

#include "ports/model_backend_contract.h"
#include "testing/manual_loop.h"

namespace coterie::contract {
namespace {

struct Fake {
  testing::ManualLoop loop;
  testing::FakeBackend backend{loop,
                               {{{"in", ElementType::Fp32, {kDynamic, kDynamic}}}, {{"out", ElementType::Fp32, {kDynamic, kDynamic}}}},
                               testing::FakeBackend::Mode::Echo};
};

ModelBackendHarness fake() {
  auto made = std::make_shared<Fake>();
  made->backend.arenaBytes = 1 << 20;
  made->backend.addLane(1, 0);
  made->backend.addLane(1, 1);
  return {&made->backend,
          [loop = &made->loop](const std::function<bool()>& done) {
            loop->runUntilIdle();
            return done();
          },
          made->backend.arenaBytes, made};
}
INSTANTIATE_TEST_SUITE_P(Fake, ModelBackendContract, ::testing::Values(BackendUnderTest{"fake", fake}), backendName);

}  // namespace
}  // namespace coterie::contract
