// Tenants: whose a namespace is, and what follows from it.
#include <gtest/gtest.h>

#include "controller/controller_fixture.h"

namespace coterie::controller {
namespace {

using Tenants = ControllerStory;

TEST_F(Tenants, ANamespaceWithoutTenantRunsNothing) {
  put({std::string(kTenantKind), "", "team"}, objects::encodeSpec([] {
        TenantSpec spec;
        spec.namespaces = {"elsewhere"};
        return spec;
      }()));
  putService("a");
  EXPECT_EQ(condition("a", "Ready"), "False/NamespaceNotOwned");
  EXPECT_TRUE(gateway.services.empty());
  putTenant("team", {"n"});
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  ASSERT_TRUE(store.remove({std::string(kTenantKind), "", "team"}, 0).ok());
  settle();
  EXPECT_TRUE(runtime.running.empty()) << "nobody pays for it any more";
  EXPECT_TRUE(gateway.tenants.empty());
}

TEST_F(Tenants, ANamespaceClaimedTwiceBelongsToTheOldest) {
  putTenant("upstart", {"x", "n"});
  EXPECT_EQ(condition("upstart", "Ready", std::string(kTenantKind)), "False/NamespaceConflict");
  EXPECT_EQ(condition("team", "Ready", std::string(kTenantKind)), "True/Accepted");
  EXPECT_EQ(gateway.tenants.at("upstart").namespaces, std::vector<std::string>{"x"});
  putService("a");
  EXPECT_EQ(runtime.starts.at(0).tenant.value, "team");
  settle();
  ASSERT_TRUE(store.remove({std::string(kTenantKind), "", "team"}, 0).ok());
  settle();
  EXPECT_EQ(condition("upstart", "Ready", std::string(kTenantKind)), "True/Accepted");
  EXPECT_EQ(runtime.starts.back().tenant.value, "upstart") << "a worker of the old tenant is replaced, not handed over";
  EXPECT_EQ(gateway.services.begin()->second.tenant.value, "upstart");
}

// Quota lowered below use: said by the tenant, nothing taken away, nothing added, crashed ones come back.
TEST_F(Tenants, AQuotaLoweredBelowUseIsSaidAndTakesNothingAway) {
  struct Case {
    const char* story;
    TenantQuota quota;
    const char* words;
  };
  TenantQuota cpus, services_, memory;
  cpus.cpus = MilliCpu(1000);
  services_.services = 1;
  memory.memory = Bytes(100LL << 20);
  const Case cases[] = {{"cpus", cpus, "quota.cpus is 1 CPU and 2 CPU of floors (minCpus) are used"},
                        {"services", services_, "quota.services is 1 and 2 are used"},
                        {"memory", memory, "quota.memory is 100Mi and"}};
  const std::string kind(kTenantKind);
  for (const Case& c : cases) {
    putTenant("team", {"n"});
    for (const char* name : {"a", "b"}) putService(name, [](ModelServiceSpec& s) { s.minCpus = MilliCpu(1000); });
    settle();
    EXPECT_EQ(condition("team", "WithinQuota", kind), "True/WithinQuota") << c.story;
    const std::size_t starts = runtime.starts.size();
    putTenant("team", {"n"}, c.quota);
    loop.runUntilIdle();
    EXPECT_EQ(condition("team", "WithinQuota", kind), "False/OverQuota") << c.story;
    EXPECT_NE(message("team", "WithinQuota", kind).find(c.words), std::string::npos) << c.story << ": " << message("team", "WithinQuota", kind);
    EXPECT_TRUE(happened("team", "OverQuota", kind)) << c.story;
    EXPECT_EQ(condition("team", "Ready", kind), "True/Accepted") << c.story;
    EXPECT_EQ(gateway.serving.size(), 2u) << c.story;
    for (const char* name : {"a", "b"}) EXPECT_EQ(condition(name, "Ready"), "True/Serving") << c.story;

    putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(1000), s.instances = 2; });
    putService("m2", [](ModelServiceSpec& s) { s.modelUri = "file:a.onnx"; });
    settle();
    EXPECT_EQ(runtime.starts.size(), starts) << c.story << ": nothing is added";
    EXPECT_EQ(gateway.serving.size(), 2u) << c.story;
    EXPECT_EQ(condition("a", "Ready"), "False/PartlyServing") << c.story;

    putTenant("team", {"n"});
    settle();
    EXPECT_EQ(condition("team", "WithinQuota", kind), "True/WithinQuota") << c.story;
    EXPECT_EQ(condition("a", "Ready"), "True/Serving") << c.story << ": raised again, it grows";
    for (const char* name : {"a", "b", "m2"}) remove(name);
    settle();
  }
}

TEST_F(Tenants, OverQuotaACrashedInstanceComesBackAndANewModelReplacesTheOld) {
  TenantQuota quota;
  putService("a", [](ModelServiceSpec& s) { s.instances = 2; });
  putService("b");
  settle();
  quota.services = 1;
  putTenant("team", {"n"}, quota);
  runtime.end(InstanceId(1), EndReason::Crashed, "crash");
  loop.advance(Seconds(2));
  settle();
  EXPECT_EQ(status("a", "readyInstances"), 2);
  putService("a", [](ModelServiceSpec& s) { s.instances = 2, s.modelUri = "file:b.onnx"; });
  settle();
  EXPECT_EQ(runtime.starts.back().sha256, "sum-b");
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  remove("b");
  settle();
  EXPECT_EQ(condition("team", "WithinQuota", std::string(kTenantKind)), "True/WithinQuota") << "less is used";
  EXPECT_TRUE(happened("team", "WithinQuota", std::string(kTenantKind)));
}

}  // namespace
}  // namespace coterie::controller
