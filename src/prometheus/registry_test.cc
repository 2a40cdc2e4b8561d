#include "prometheus/registry.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <thread>

namespace coterie::prometheus {
namespace {

std::size_t linesWith(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Registry, TextForm) {
  Registry registry;
  auto& requests = registry.counter({"coterie_requests_total", "Requests answered.", {"tenant", "code"}});
  requests.with({"audio", "2xx"}).add();
  requests.with({"audio", "2xx"}).add(4);
  requests.with({"audio", "4xx"});
  registry.gauge({"coterie_group_entitlement_cpus", "Entitlement.", {}, Unit::MilliCpu}).with().set(1250);
  registry.counter({"coterie_lent_cpu_seconds_total", "CPU time lent.", {}, Unit::Nanos}).with().add(Millis(1500));
  auto& latency =
      registry.histogram({"coterie_request_duration_seconds", "Latency.", {"tenant"}, Unit::Nanos}, {5'000'000, 1'000'000'000}).with({"audio"});
  latency.observe(Millis(5));
  latency.observe(Millis(6));
  latency.observe(Seconds(2));
  EXPECT_EQ(registry.scrape(),
            "# HELP coterie_lent_cpu_seconds_total CPU time lent.\n"
            "# TYPE coterie_lent_cpu_seconds_total counter\n"
            "coterie_lent_cpu_seconds_total 1.5\n"
            "# HELP coterie_requests_total Requests answered.\n"
            "# TYPE coterie_requests_total counter\n"
            "coterie_requests_total{tenant=\"audio\",code=\"2xx\"} 5\n"
            "coterie_requests_total{tenant=\"audio\",code=\"4xx\"} 0\n"
            "# HELP coterie_group_entitlement_cpus Entitlement.\n"
            "# TYPE coterie_group_entitlement_cpus gauge\n"
            "coterie_group_entitlement_cpus 1.25\n"
            "# HELP coterie_request_duration_seconds Latency.\n"
            "# TYPE coterie_request_duration_seconds histogram\n"
            "coterie_request_duration_seconds_bucket{tenant=\"audio\",le=\"0.005\"} 1\n"
            "coterie_request_duration_seconds_bucket{tenant=\"audio\",le=\"1\"} 2\n"
            "coterie_request_duration_seconds_bucket{tenant=\"audio\",le=\"+Inf\"} 3\n"
            "coterie_request_duration_seconds_sum{tenant=\"audio\"} 2.011\n"
            "coterie_request_duration_seconds_count{tenant=\"audio\"} 3\n");
}

TEST(Registry, NumbersAreExact) {
  Registry registry;
  auto& gauge = registry.gauge({"coterie_offset_seconds", "Offset.", {}, Unit::Nanos}).with();
  const auto shown = [&](std::int64_t nanos) {
    gauge.set(nanos);
    const std::string text = registry.scrape();
    return text.substr(text.rfind(' ') + 1, text.size() - text.rfind(' ') - 2);
  };
  EXPECT_EQ(shown(0), "0");
  EXPECT_EQ(shown(1), "0.000000001");
  EXPECT_EQ(shown(-1'500'000'000), "-1.5");
  EXPECT_EQ(shown(123'456'789'012), "123.456789012");
  EXPECT_EQ(shown(std::numeric_limits<std::int64_t>::min()), "-9223372036.854775808");
}

TEST(Registry, HostileLabelValuesStayOneReadableLine) {
  Registry registry;
  registry.counter({"coterie_requests_total", "Requests.", {"model"}}).with({"a\"b\\c\nd\xff" + std::string(500, 'x')}).add();
  const std::string text = registry.scrape();
  EXPECT_EQ(linesWith(text, "\n"), 3U);
  EXPECT_NE(text.find("model=\"a\\\"b\\\\c?d?x"), std::string::npos);
  EXPECT_LT(text.size(), 300U);
}

TEST(Registry, ValuesBeyondTheCapBecomeOtherAndPinnedOnesStayVisible) {
  Registry registry(3);
  registry.pin("tenant", "configured");
  auto& requests = registry.counter({"coterie_requests_total", "Requests.", {"tenant"}});
  auto& errors = registry.counter({"coterie_errors_total", "Errors.", {"tenant"}});
  for (int i = 0; i < 1000; ++i) requests.with({"random-" + std::to_string(i)}).add();
  requests.with({"configured"}).add();
  const std::string text = registry.scrape();
  EXPECT_EQ(linesWith(text, "coterie_requests_total{"), 5U);  // three, other, and the pinned one
  EXPECT_NE(text.find("coterie_requests_total{tenant=\"other\"} 997\n"), std::string::npos);
  EXPECT_NE(text.find("coterie_requests_total{tenant=\"configured\"} 1\n"), std::string::npos);
  registry.pin("tenant", "later");
  requests.with({"later"}).add();
  EXPECT_NE(registry.scrape().find("{tenant=\"later\"} 1\n"), std::string::npos);
  errors.with({"random-999"}).add();  // the cap is the label's, not the family's
  EXPECT_NE(registry.scrape().find("coterie_errors_total{tenant=\"other\"} 1\n"), std::string::npos);
}

TEST(Registry, DeletedNamesDisappearAndBeginAnewWhenTheyComeBack) {
  Registry registry;
  registry.pin("tenant", "audio");
  auto& requests = registry.counter({"coterie_requests_total", "Requests.", {"tenant", "code"}});
  requests.with({"audio", "200"}).add(3);
  registry.forget("tenant", "audio");
  EXPECT_EQ(registry.scrape(), "");  // no header without a series
  registry.pin("tenant", "audio");
  EXPECT_EQ(registry.scrape(), "");
  requests.with({"audio", "200"}).add();
  EXPECT_NE(registry.scrape().find("{tenant=\"audio\",code=\"200\"} 1\n"), std::string::npos);
}

TEST(Registry, ForgettingOneNameTouchesNoOther) {
  Registry registry;
  auto& requests = registry.counter({"coterie_requests_total", "Requests.", {"tenant", "service"}});
  Counter& kept = requests.with({"audio", "speech"});
  requests.with({"documents", "audio"}).add();  // the same word under another label
  requests.with({"audio", "notes"}).add();
  registry.forget("service", "notes");
  kept.add(7);
  const std::string text = registry.scrape();
  EXPECT_NE(text.find("{tenant=\"audio\",service=\"speech\"} 7\n"), std::string::npos);
  EXPECT_NE(text.find("{tenant=\"documents\",service=\"audio\"} 1\n"), std::string::npos);
  EXPECT_EQ(text.find("notes"), std::string::npos);
}

TEST(Registry, TheSameFamilyTwiceIsOne) {
  Registry registry;
  const Description description{"coterie_requests_total", "Requests.", {"tenant"}};
  registry.counter(description).with({"audio"}).add();
  registry.counter(description).with({"audio"}).add();
  EXPECT_NE(registry.scrape().find("} 2\n"), std::string::npos);
}

TEST(RegistryDeathTest, NamesThatPromtoolWouldRefuseStopTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Registry registry;
  EXPECT_DEATH(registry.counter({"coterie_requests", "Requests."}), "_total");
  EXPECT_DEATH(registry.gauge({"coterie_requests_total", "Requests."}), "_total");
  EXPECT_DEATH(registry.gauge({"requests", "Requests."}), "coterie_");
  EXPECT_DEATH(registry.gauge({"coterie_Requests", "Requests."}), "lower case");
  EXPECT_DEATH(registry.gauge({"coterie_wait", "Waiting.", {}, Unit::Nanos}), "_seconds");
  EXPECT_DEATH(registry.gauge({"coterie_requests", ""}), "help");
  EXPECT_DEATH(registry.gauge({"coterie_requests", "Requests.", {"t"}}), "one letter");
  EXPECT_DEATH(registry.gauge({"coterie_requests", "Requests.", {"tenant"}}).with({}), "label values");
}

TEST(Registry, AScrapeOnAnotherThreadSeesCountersOnlyGrow) {
  Registry registry;
  auto& latency = registry.histogram({"coterie_request_duration_seconds", "Latency.", {}, Unit::Nanos}, latencyBounds()).with();
  auto& requests = registry.counter({"coterie_requests_total", "Requests.", {"tenant"}});
  Counter& counter = requests.with({"audio"});
  std::atomic<bool> stop{false};
  std::thread loop([&] {
    for (int i = 0; !stop; ++i) {
      counter.add();
      latency.observe(Nanos(i * 1000));
      if (i % 1000 == 0) requests.with({"tenant-" + std::to_string(i / 1000 % 50)}).add();
    }
  });
  std::int64_t last = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string text = registry.scrape();
    const std::string name = "coterie_requests_total{tenant=\"audio\"} ";
    const std::int64_t value = std::stoll(text.substr(text.find(name) + name.size()));
    EXPECT_GE(value, last);
    last = value;
  }
  stop = true;
  loop.join();
  EXPECT_EQ(latency.count(), counter.value());
}

TEST(Registry, PromtoolFindsNothingToSay) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) GTEST_SKIP() << "promtool is not installed (apt-get install prometheus)";
  Registry registry(2);
  auto& requests = registry.counter({"coterie_requests_total", "Requests answered, by tenant and status.", {"tenant", "code"}});
  for (const char* tenant : {"audio", "documents", "weird \"\\ \n name", "beyond"}) requests.with({tenant, "200"}).add();
  registry.histogram({"coterie_request_duration_seconds", "Latency.", {"tenant"}, Unit::Nanos}, latencyBounds()).with({"audio"}).observe(Millis(7));
  registry.gauge({"coterie_queued_bytes", "Bytes of queued requests.", {"tenant"}, Unit::Bytes}).with({"audio"}).set(1 << 20);
  registry.gauge({"coterie_group_demand_cpus", "Demand.", {}, Unit::MilliCpu}).with().set(1234);
  registry.gauge({"coterie_utilisation_ratio", "Use over grant.", {}, Unit::Permille}).with().set(734);
  std::FILE* pipe = ::popen("test -z \"$(promtool check metrics 2>&1)\"", "w");  // it prints what it dislikes, and may still exit 0
  ASSERT_NE(pipe, nullptr);
  const std::string text = registry.scrape();
  std::fwrite(text.data(), 1, text.size(), pipe);
  EXPECT_EQ(::pclose(pipe), 0) << text;
}

std::size_t seriesIn(const std::string& text) {
  std::size_t series = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) series += text[at] == '#' ? 0 : 1;
  return series;
}

// 300 tenants with 100 services each are 30,000 series a family: of 20,000 the late ones are one, and nothing is lost from the sum.
TEST(Registry, NoMoreSeriesThanTwentyThousandAndTheRestIsOther) {
  Registry registry;
  constexpr int kTenants = 300;
  constexpr int kServices = 100;
  auto& calls = registry.counter({"coterie_calls_total", "Calls.", {"tenant", "service"}});
  auto& waiting = registry.gauge({"coterie_waiting", "Waiting.", {"tenant", "service"}});
  auto& latency = registry.histogram({"coterie_call_duration_seconds", "Latency.", {"tenant", "service"}, Unit::Nanos}, {1'000'000'000});
  std::string text;
  for (int round = 1; round <= 2; ++round) {
    registry.beginRound();
    for (int tenant = 0; tenant < kTenants; ++tenant) {
      registry.pin("tenant", "t" + std::to_string(tenant));
      for (int service = 0; service < kServices; ++service) {
        const std::string t = "t" + std::to_string(tenant);
        const std::string s = t + "/s" + std::to_string(service);
        registry.pin("service", s);
        calls.with({t, s}).mirror(round);
        waiting.with({t, s}).set(round);
        latency.with({t, s}).mirror({round}, round, round);
      }
    }
    text = registry.scrape();
    EXPECT_LE(seriesIn(text), 20'000U);
    EXPECT_GT(seriesIn(text), 19'000U) << "no fewer than there is room for";
    const auto sumOf = [&](const std::string& family) {
      std::int64_t sum = 0;
      for (std::size_t at = text.find("\n" + family + "{"); at != std::string::npos; at = text.find("\n" + family + "{", at + 1))
        sum += std::stoll(text.substr(text.find("} ", at) + 2));
      return sum;
    };
    EXPECT_EQ(sumOf("coterie_calls_total"), round * kTenants * kServices);
    EXPECT_EQ(sumOf("coterie_waiting"), round * kTenants * kServices);
    EXPECT_EQ(sumOf("coterie_call_duration_seconds_count"), round * kTenants * kServices);
  }
  EXPECT_EQ(linesWith(text, "coterie_calls_total{tenant=\"other\",service=\"other\"}"), 1U);
}

TEST(Registry, RoomThatIsLeftIsGivenToWhoComesNext) {
  Registry registry(200, 510);
  auto& calls = registry.counter({"coterie_calls_total", "Calls.", {"tenant"}});
  const auto round = [&](int from, int to) {
    std::set<std::string> present;
    for (int i = from; i < to; ++i) present.insert("t" + std::to_string(i));
    registry.keepOnly("tenant", present);
    registry.beginRound();
    for (const std::string& name : present) calls.with({name}).mirror(1);
    return registry.scrape();
  };
  EXPECT_EQ(seriesIn(round(0, 10)), 10U);
  EXPECT_NE(round(0, 14).find("coterie_calls_total{tenant=\"other\"} 4\n"), std::string::npos);
  const std::string later = round(8, 16);
  EXPECT_NE(later.find("coterie_calls_total{tenant=\"t15\"} 1\n"), std::string::npos) << later;
  EXPECT_NE(later.find("coterie_calls_total{tenant=\"other\"} 0\n"), std::string::npos) << later;
}

TEST(Registry, SeriesAreShownToWhomTheyAreOf) {
  Registry registry(200, 502);
  registry.gauge({"coterie_connections_open", "Connections.", {}}).with().set(7);
  auto& calls = registry.counter({"coterie_calls_total", "Calls.", {"tenant"}});
  registry.beginRound();
  for (const char* name : {"other", "b", "c"}) calls.with({name}).mirror(1);
  const auto of = [&](const std::string& tenant) {
    return registry.scrape([&](const auto& labels, const auto& values) { return !labels.empty() && labels[0] == "tenant" && values[0] == tenant; });
  };
  EXPECT_EQ(seriesIn(registry.scrape()), 2U);
  EXPECT_EQ(of("b"), "") << "no header without a series";
  EXPECT_EQ(of("other"), "") << "a tenant of that name is not shown what is of late ones";
}

}  // namespace
}  // namespace coterie::prometheus
