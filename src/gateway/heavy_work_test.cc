#include "gateway/heavy_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "testing/manual_loop.h"

namespace coterie::gateway {
namespace {

TEST(HeavyWork, TenantsTakeTurnsAndEachOnesJobsKeepTheirOrder) {
  testing::ManualLoop loop;
  std::promise<void> go;
  std::vector<std::string> ran;   // by the helper thread
  std::vector<std::string> told;  // by the loop
  {
    HeavyWork heavy(loop);
    heavy.run(TenantId(1), [&] { go.get_future().wait(); }, [&] { told.emplace_back("first"); });
    for (const std::string name : {"a1", "a2", "a3"})
      heavy.run(TenantId(1), [&ran, name] { ran.push_back(name); }, [&told, name] { told.push_back(name); });
    heavy.run(TenantId(2), [&ran] { ran.emplace_back("b1"); }, [&told] { told.emplace_back("b1"); });
    go.set_value();
    while (told.size() < 5) {
      loop.runUntilIdle();
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(ran.back(), "a3");
  EXPECT_LT(std::find(ran.begin(), ran.end(), "b1") - ran.begin(), 2);
  EXPECT_EQ(std::vector<std::string>(told.begin() + 1, told.end()), ran);
}

TEST(HeavyWork, EndingWaitsForTheJobThatRuns) {
  testing::ManualLoop loop;
  std::promise<void> started;
  bool finished = false;
  bool told = false;
  {
    HeavyWork heavy(loop);
    heavy.run(TenantId(1), [&] { started.set_value(), std::this_thread::yield(), finished = true; }, [&] { told = true; });
    started.get_future().wait();
  }
  EXPECT_TRUE(finished);
  loop.runUntilIdle();
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace coterie::gateway
