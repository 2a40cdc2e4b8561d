#include "tenancy/quota.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace coterie::tenancy {
namespace {

const TenantName kAudio("audio");
Bytes mi(std::int64_t n) { return Bytes(n << 20); }

ServiceUse use(const char* name, std::int64_t floor, std::int64_t ceiling = 0, Bytes memory = {}) {
  return {{"audio", name}, MilliCpu(floor), MilliCpu(ceiling), memory, Isolation::None, 0};
}

ServiceUse isolated(const char* name, std::int64_t floor, Isolation isolation, int unitCpus) {
  ServiceUse made = use(name, floor);
  made.isolation = isolation;
  made.unitCpus = unitCpus;
  return made;
}

struct Case {
  const char* name;
  TenantQuota quota;
  std::vector<ServiceUse> others;
  ServiceUse wanted;
  const char* message;  // "": allowed
};

TEST(Quota, Table) {
  const TenantQuota none;
  const TenantQuota two{{}, MilliCpu(2000), mi(1024), 2};
  const std::vector<Case> cases{
      {"no quota", none, {use("a", 9000)}, use("b", 9000, 0, mi(99999)), ""},
      {"fits exactly", two, {use("a", 900, 0, mi(512))}, use("b", 1000, 2000, mi(512)), ""},
      {"small floors count as they are", two, {use("a", 900), use("c", 900)}, use("c", 1000), ""},
      {"one service too many",
       two,
       {use("a", 0), use("b", 0)},
       use("c", 0),
       "quota.services of tenant \"audio\" is 2: its other services use 2, and \"audio/c\" wants to be one more; delete one, or ask for a larger "
       "quota"},
      {"changing one of two is not one more", two, {use("a", 0), use("b", 0)}, use("b", 100), ""},
      {"floors",
       two,
       {use("a", 1500)},
       use("b", 1000),
       "quota.cpus of tenant \"audio\" is 2 CPU: its other services use 2 CPU, and \"audio/b\" wants 1 CPU (minCpus); lower "
       "spec.minCpus, or ask for a "
       "larger quota"},
      {"a floor of more than a CPU is owned in whole ones",
       two,
       {use("a", 500)},
       use("b", 1500),
       "quota.cpus of tenant \"audio\" is 2 CPU: its other services use 500m CPU, and \"audio/b\" wants 2 CPU (minCpus of 1500m CPU, in whole CPUs); "
       "lower "
       "spec.minCpus, or ask for a larger quota"},
      {"an isolated one is charged its units",
       two,
       {use("a", 500)},
       isolated("b", 0, Isolation::Core, 2),
       "quota.cpus of tenant \"audio\" is 2 CPU: its other services use 500m CPU, and \"audio/b\" wants 2 CPU (isolation core owns whole units of 2 "
       "CPU, "
       "for minCpus 0 CPU); lower spec.isolation or spec.minCpus, or ask for a larger quota"},
      {"an isolated one that fits", two, {use("a", 0)}, isolated("b", 1500, Isolation::Core, 2), ""},
      {"isolated ones count for others", two, {isolated("a", 0, Isolation::Core, 2)}, use("b", 1), "quota.cpus of tenant"},
      {"a lower level of the same service", two, {isolated("b", 0, Isolation::Node, 8)}, isolated("b", 0, Isolation::Cache, 4), ""},
      {"a higher level of the same service",
       two,
       {isolated("b", 0, Isolation::Core, 1)},
       isolated("b", 0, Isolation::Cache, 4),
       "quota.cpus of tenant"},
      {"own old floor does not count", two, {use("a", 500), use("b", 1500)}, use("b", 1400), ""},
      {"ceiling",
       two,
       {},
       use("b", 0, 2500),
       "quota.cpus of tenant \"audio\" is 2 CPU: its other services use 0 CPU, and \"audio/b\" wants a ceiling of 2500m CPU; lower spec.maxCpus, or "
       "ask for a larger quota"},
      {"memory",
       two,
       {use("a", 0, 0, mi(600))},
       use("b", 0, 0, mi(500)),
       "quota.memory of tenant \"audio\" is 1Gi: its other services use 600Mi, and \"audio/b\" wants 500Mi for all its instances; lower spec.memory "
       "or the instances, or ask for a larger "
       "quota"},
      {"a shrunk quota refuses growth", two, {use("a", 3000)}, use("a", 3500), "quota.cpus"},
      {"but not less of the same", two, {use("a", 3000), use("b", 500)}, use("a", 2500), ""},
      {"overflow saturates",
       two,
       {use("a", std::numeric_limits<std::int64_t>::max())},
       use("b", std::numeric_limits<std::int64_t>::max()),
       "quota.cpus"},
  };
  for (const Case& c : cases) {
    const Status status = checkQuota(kAudio, c.quota, c.others, c.wanted);
    if (std::string(c.message).empty()) {
      EXPECT_TRUE(status.ok()) << c.name << ": " << (status.ok() ? "" : status.error().message);
      continue;
    }
    ASSERT_FALSE(status.ok()) << c.name;
    EXPECT_EQ(status.error().reason, "QuotaExceeded");
    EXPECT_EQ(status.error().message.substr(0, std::string(c.message).size()), c.message) << c.name;
  }
}

TEST(Quota, UseOfAService) {
  ModelService service;
  service.metadata = {"speech", "audio", {}};
  service.spec.minCpus = MilliCpu(500);
  service.spec.maxCpus = MilliCpu(2000);
  service.spec.minInstances = 2;
  service.spec.maxInstances = 8;
  ServiceUse use = useOf(service, mi(100));
  EXPECT_EQ(use.floor, MilliCpu(500));  // the group's, however many instances
  EXPECT_EQ(use.memory, mi(200));
  service.spec.instances = 3;
  service.spec.memory = mi(64);
  use = useOf(service, mi(100));
  EXPECT_EQ(use.floor, MilliCpu(500));
  EXPECT_EQ(use.memory, mi(192));
}

}  // namespace
}  // namespace coterie::tenancy
