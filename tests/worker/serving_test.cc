// A real model in a real worker, through LocalBackend.
#include <gtest/gtest.h>

#include <cstring>

#include "rig.h"

namespace coterie::worker_test {
namespace {

TEST(Serving, AnIdentityModelReturnsItsBytes) {
  const Folder folder;
  Rig rig;
  ASSERT_TRUE(rig.startAndWait(rig.spec(1, folder.model("identity_fp32")))) << rig.ends[1].message;
  const InstanceReady& ready = rig.ready[1];
  ASSERT_EQ(ready.signature.inputs.size(), 1U);
  EXPECT_EQ(ready.signature.inputs[0].name, "INPUT0");
  EXPECT_EQ(ready.ownLaneThreads.size(), 1U);
  EXPECT_GT(ready.speeds.at(0).mean.count(), 0);
  EXPECT_GT(ready.steadyMemory.value, 1 << 20);
  const auto input = bytesOf<float>({1, 2, 3, 4, 5, 6});
  const auto reply = rig.sendAndWait(Rig::lane(1), {2, 3}, input);
  ASSERT_FALSE(reply->error.has_value()) << reply->error->message;
  EXPECT_EQ(reply->outputs.at(0), input);
  EXPECT_EQ(reply->shapes.at(0), (Shape{2, 3}));
  EXPECT_GT(reply->outcome.held.count(), 0);
  EXPECT_GT(reply->outcome.cpu.count(), 0);
  EXPECT_TRUE(rig.idle());
}

}  // namespace
}  // namespace coterie::worker_test
