#include "testing/bench_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace coterie::testing {
namespace {

TEST(BenchReport, JsonHasTheAgreedFields) {
  BenchReport report("allocation", 7, 5);
  report.add({"decision_p99", "us", 31.2, {{"cpus", 512}, {"policy", "drc"}}, std::nullopt, std::nullopt});
  report.add({"slope", "", 1.1, {}, 1.0, 1.2});
  const std::string json = report.json();
  EXPECT_NE(json.find(R"("bench": "allocation")"), std::string::npos);
  EXPECT_NE(json.find(R"("seed": 7, "repetitions": 5)"), std::string::npos);
  EXPECT_NE(json.find(R"({"name": "decision_p99", "unit": "us", "value": 31.2, "case": {"cpus": 512, "policy": "drc"}})"), std::string::npos);
  EXPECT_NE(json.find(R"("value": 1.1, "low": 1, "high": 1.2, "case": {})"), std::string::npos);
}

TEST(BenchReport, TextThatJsonCannotHoldIsEscaped) {
  BenchReport report("x", 1, 1);
  report.add({"a", "", std::nan(""), {{"name", "say \"hi\"\n\\"}}, std::nullopt, std::nullopt});
  EXPECT_NE(report.json().find(R"("value": null, "case": {"name": "say \"hi\"\u000a\\"})"), std::string::npos);
}

TEST(BenchReport, TableHasARowPerCaseAndAColumnPerFigure) {
  BenchReport report("x", 1, 1);
  report.add({"p50", "us", 1, {{"cpus", 8}}, std::nullopt, std::nullopt});
  report.add({"p99", "us", 2, {{"cpus", 8}}, std::nullopt, std::nullopt});
  report.add({"p50", "us", 3, {{"cpus", 64}}, std::nullopt, std::nullopt});
  std::istringstream lines(report.table());
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  EXPECT_NE(line.find("p50 [us]"), std::string::npos);
  EXPECT_LT(line.find("p50 [us]"), line.find("p99 [us]"));
  std::getline(lines, line);
  EXPECT_EQ(line.rfind("cpus=8", 0), 0U);
  std::getline(lines, line);
  EXPECT_EQ(line.rfind("cpus=64", 0), 0U);
}

TEST(BenchReport, WritesIntoANewFolderAndNamesTheFileItCannotWrite) {
  const std::string folder = ::testing::TempDir() + "/bench_report_test";
  std::filesystem::remove_all(folder);
  BenchReport report("x", 1, 1);
  ASSERT_TRUE(report.write(folder + "/deep/x.json").ok());
  EXPECT_TRUE(std::filesystem::exists(folder + "/deep/x.json"));
  const Status bad = report.write("/proc/nowhere/x.json");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("/proc/nowhere/x.json"), std::string::npos);
}

TEST(BenchReport, Statistics) {
  EXPECT_DOUBLE_EQ(quantile({5, 1, 4, 2, 3}, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile({5, 1, 4, 2, 3}, 0.99), 5);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
  EXPECT_NEAR(geometricMean({2, 8}), 4, 1e-12);
  EXPECT_NEAR(logLogSlope({{1, 3}, {2, 12}, {4, 48}}), 2, 1e-12);
}

TEST(BenchReport, Options) {
  std::string arguments[] = {"bench", "--json", "a.json", "--seed=4", "--quick"};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), arguments[3].data(), arguments[4].data()};
  EXPECT_EQ(benchOption(5, argv, "json", ""), "a.json");
  EXPECT_EQ(benchOption(5, argv, "seed", "1"), "4");
  EXPECT_EQ(benchOption(5, argv, "seconds", "9"), "9");
  EXPECT_TRUE(benchFlag(5, argv, "quick"));
  EXPECT_FALSE(benchFlag(5, argv, "slow"));
  EXPECT_TRUE(benchArguments(5, argv, {"quick"}, {"json", "seed"}));
  EXPECT_TRUE(benchArguments(1, argv, {}, {}));
  EXPECT_FALSE(benchArguments(5, argv, {}, {"json", "seed"})) << "an unknown flag";
  EXPECT_FALSE(benchArguments(5, argv, {"quick"}, {"json"})) << "an unknown option";
  EXPECT_FALSE(benchArguments(2, argv, {}, {"json"})) << "a value is missing";
}

}  // namespace
}  // namespace coterie::testing
