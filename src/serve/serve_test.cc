#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "serve/apply_manifests.h"
#include "serve/explain_text.h"
#include "serve/file_home_journal.h"
#include "serve/log_book.h"
#include "serve/log_keeper.h"
#include "serve/metrics.h"
#include "serve/startup_view.h"
#include "testing/manual_loop.h"

namespace coterie::serve {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern = "/tmp/coterie-serve-test-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

const ServiceName kSpeech{"audio", "speech"};

TEST(LogBook, keepsWholeLinesAndContinuesWhereAReaderStopped) {
  LogBook book;
  book.started(InstanceId(1), kSpeech);
  book.started(InstanceId(2), kSpeech);
  book.append(InstanceId(1), "first\nsec", {});
  book.append(InstanceId(2), "other\n", {});
  book.append(InstanceId(1), "ond\n", {});
  const auto all = book.read(kSpeech, std::nullopt, 10);
  ASSERT_EQ(all.lines.size(), 3U);
  EXPECT_EQ(all.lines[0].text, "first");
  EXPECT_EQ(all.lines[1].text, "other");
  EXPECT_EQ(all.lines[2].text, "second");
  EXPECT_TRUE(book.read(kSpeech, all.next, 10).lines.empty());
  book.append(InstanceId(1), "third\n", {});
  const auto later = book.read(kSpeech, all.next, 10);
  ASSERT_EQ(later.lines.size(), 1U);
  EXPECT_EQ(later.lines[0].text, "third");
}

TEST(LogBook, aFloodCostsOnlyItsOwnServicesOlderLines) {
  LogBook book;
  book.started(InstanceId(1), kSpeech);
  book.started(InstanceId(9), {"a", "quiet"});
  book.append(InstanceId(9), "kept\n", {});
  for (int i = 0; i < 5000; ++i) book.append(InstanceId(1), std::to_string(i) + "\n", {});
  book.append(InstanceId(1), std::string(100'000, 'x'), {});
  const auto page = book.read(kSpeech, std::nullopt, 1'000'000);
  EXPECT_EQ(page.lines.size(), LogBook::kLinesPerService);
  for (const auto& line : page.lines) EXPECT_LE(line.text.size(), LogBook::kMaxLine);
  EXPECT_EQ(book.read({"a", "quiet"}, std::nullopt, 10).lines.size(), 1U);
}

TEST(LogBook, theLastWordNeedsNoEndOfLine) {
  LogBook book;
  book.started(InstanceId(1), kSpeech);
  book.append(InstanceId(1), "terminate called", {});
  EXPECT_TRUE(book.read(kSpeech, std::nullopt, 10).lines.empty());
  book.ended(InstanceId(1), {});
  const auto page = book.read(kSpeech, std::nullopt, 10);
  ASSERT_EQ(page.lines.size(), 1U);
  EXPECT_EQ(page.lines[0].text, "terminate called");
}

// Ports that count what reaches them.
struct CountingPorts final : controller::GatewayPort, controller::AllocationPort {
  int calls{0};
  void setTenant(const TenantName&, const TenantSpec&) override { ++calls; }
  void removeTenant(const TenantName&) override { ++calls; }
  void setService(const controller::GatewayService&) override { ++calls; }
  void removeService(const ServiceName&) override { ++calls; }
  void addInstance(const ServiceName&, const std::string&, InstanceId, const InstanceReady&) override { ++calls; }
  void drainInstance(InstanceId, std::function<void()> drained) override {
    ++calls;
    drained();
  }
  void suspendInstance(InstanceId) override { ++calls; }
  void resumeInstance(InstanceId) override { ++calls; }
  void instanceGone(InstanceId) override { ++calls; }
  [[nodiscard]] MilliCpu missingForFloor(const controller::ServiceGroup&) const override { return MilliCpu(7); }
  [[nodiscard]] allocation::IsolationTerms isolationTerms(Isolation) const override { return {7, 1, {}, {}}; }
  [[nodiscard]] std::optional<allocation::UnitShortage> unitShortage(const controller::ServiceGroup&) const override {
    return allocation::UnitShortage{};
  }
  void setGroup(const controller::ServiceGroup&) override { ++calls; }
  void removeGroup(GroupId) override { ++calls; }
  void instanceStarting(GroupId, InstanceId, Bytes) override { ++calls; }
  void instanceReady(GroupId, InstanceId, const InstanceReady&) override { ++calls; }
  void instanceEnded(GroupId, InstanceId) override { ++calls; }
};

TEST(LogKeeper, passesEveryWordOn) {
  LogBook book;
  CountingPorts ports;
  testing::ManualClock clock;
  LogKeeper keeper(book, clock, ports, ports);
  bool drained = false;
  keeper.setTenant(TenantName("audio"), {});
  keeper.setService({});
  keeper.setGroup({});
  keeper.instanceStarting(GroupId(0), InstanceId(1), Bytes(0));
  keeper.instanceReady(GroupId(0), InstanceId(1), {});
  keeper.addInstance(kSpeech, "v", InstanceId(1), {});
  keeper.suspendInstance(InstanceId(1));
  keeper.resumeInstance(InstanceId(1));
  keeper.drainInstance(InstanceId(1), [&drained] { drained = true; });
  keeper.instanceGone(InstanceId(1));
  keeper.instanceEnded(GroupId(0), InstanceId(1));
  keeper.removeGroup(GroupId(0));
  keeper.removeService(kSpeech);
  keeper.removeTenant(TenantName("audio"));
  EXPECT_EQ(ports.calls, 14);
  EXPECT_TRUE(drained);
  EXPECT_EQ(keeper.missingForFloor({}), MilliCpu(7));
  EXPECT_TRUE(keeper.unitShortage({}));
}

TEST(LogKeeper, aStoppedServiceKeepsItsLinesAndADeletedOneLeavesNothing) {
  LogBook book;
  CountingPorts ports;
  testing::ManualClock clock;
  LogKeeper keeper(book, clock, ports, ports);
  controller::ServiceGroup group;
  group.id = GroupId(3);
  group.service = kSpeech;
  keeper.setGroup(group);
  keeper.instanceStarting(GroupId(3), InstanceId(1), Bytes(0));
  book.append(InstanceId(1), "hello\n", {});
  keeper.instanceGone(InstanceId(1));
  keeper.removeGroup(GroupId(3));
  EXPECT_EQ(book.read(kSpeech, std::nullopt, 10).lines.size(), 1U) << "stopped";
  keeper.setGroup(group);
  keeper.instanceStarting(GroupId(3), InstanceId(2), Bytes(0));
  keeper.removeService(kSpeech);
  book.append(InstanceId(2), "still draining\n", {});
  EXPECT_TRUE(book.read(kSpeech, std::nullopt, 10).lines.empty());
  keeper.instanceGone(InstanceId(2));
  EXPECT_EQ(book.entries(), 0U);
}

TEST(LogKeeper, twoHundredServicesThatCameAndWentLeaveNothing) {
  LogBook book;
  CountingPorts ports;
  testing::ManualClock clock;
  LogKeeper keeper(book, clock, ports, ports);
  for (int i = 0; i < 200; ++i) {
    controller::ServiceGroup group;
    group.id = GroupId(i);
    group.service = {"audio", "service-" + std::to_string(i)};
    keeper.setGroup(group);
    keeper.instanceStarting(group.id, InstanceId(i), Bytes(0));
    book.append(InstanceId(i), "a line\nand half a", {});
    keeper.removeService(group.service);
    keeper.instanceGone(InstanceId(i));
    keeper.removeGroup(group.id);
  }
  EXPECT_EQ(book.entries(), 0U);
}

TEST(FileHomeJournal, givesBackWhatWasSavedAndSurvivesDamage) {
  const Folder folder;
  const std::string path = folder.file("homes.json");
  const std::vector<agent::HomeHint> hints{{kSpeech, 0, *CpuSet::parse("0-3,1500"), false}, {{"documents", "file-type"}, 1, CpuSet{2}, true}};
  FileHomeJournal(path).save(hints);
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_EQ(FileHomeJournal(path).load(), hints);
  for (const char* damage : {"", "{", "[1,2]", "[{\"cpus\":\"x\"}]", "[{\"namespace\":\"a\",\"name\":\"b\",\"cpus\":\"0\"}]"}) {
    std::ofstream(path) << damage;
    EXPECT_TRUE(FileHomeJournal(path).load().empty()) << damage;
  }
  EXPECT_TRUE(FileHomeJournal(folder.file("nowhere.json")).load().empty());
}

TEST(FileHomeJournal, savingTheSameWritesNothing) {
  const Folder folder;
  FileHomeJournal journal(folder.file("homes.json"));
  const std::vector<agent::HomeHint> hints{{kSpeech, 0, CpuSet{1}, false}};
  journal.save(hints);
  std::filesystem::remove(folder.file("homes.json"));
  journal.save(hints);
  EXPECT_FALSE(std::filesystem::exists(folder.file("homes.json")));
}

TEST(ExplainText, everyReasonHasItsSentence) {
  for (int code = 0; code <= static_cast<int>(allocation::ReasonCode::SharesFloat); ++code) {
    allocation::Reason reason;
    reason.code = static_cast<allocation::ReasonCode>(code);
    const ReasonTexts texts = explainReasons({reason}, TenantName("audio"));
    ASSERT_EQ(texts.whyThese.size() + texts.whyThisMany.size() + texts.whyNotMore.size(), 1U) << code;
    for (const auto* list : {&texts.whyThese, &texts.whyThisMany, &texts.whyNotMore}) {
      for (const auto& because : *list) {
        EXPECT_FALSE(because.message.empty()) << code;
        EXPECT_FALSE(because.reason.empty()) << code;
      }
    }
  }
}

TEST(ExplainText, noQuestionStaysOpen) {
  struct Case {
    const char* what;
    Situation situation;
    MilliCpu entitlement, demand, ceiling;
    const char* pool;
    const char* reason;
    const char* words;
  };
  const std::vector<Case> cases{
      {"stopped", {MilliCpu(2000), 2, true}, {}, {}, {}, "", "Stopped", "coterie scale audio/speech --instances 1"},
      {"waiting", {MilliCpu(2000), 2, false}, {}, {}, {}, "", "NoInstance", "coterie describe service/audio/speech"},
      {"alone", {MilliCpu(2000), 1, false}, MilliCpu(2000), {}, {}, "0-1", "WholeMachine", "whole machine"},
      {"at its ceiling",
       {MilliCpu(2000), 2, false},
       MilliCpu(500),
       MilliCpu(900),
       MilliCpu(500),
       "0-1",
       "CappedAtCeiling",
       "maxCpus ends at 0.5 CPUs"},
      {"idle", {MilliCpu(2000), 4, false}, MilliCpu(500), {}, {}, "0-1", "SharedMachine", "2 CPUs are shared by weight with 3 other services"},
      {"idle", {MilliCpu(2000), 4, false}, MilliCpu(500), {}, {}, "0-1", "DemandMet", "need nothing"},
      {"busy", {MilliCpu(2000), 2, false}, MilliCpu(500), MilliCpu(900), {}, "0-1", "DemandAboveShare", "could use 0.9 CPUs"},
  };
  for (const auto& one : cases) {
    admin::Explanation explanation;
    explanation.service = kSpeech;
    explanation.entitlement = one.entitlement;
    explanation.demand = one.demand;
    explanation.ceiling = one.ceiling;
    explanation.pool = one.pool;
    leaveNothingOpen(explanation, one.situation);
    EXPECT_FALSE(explanation.whyThese.empty()) << one.what;
    EXPECT_FALSE(explanation.whyThisMany.empty()) << one.what;
    const auto found =
        std::find_if(explanation.whyNotMore.begin(), explanation.whyNotMore.end(), [&](const auto& because) { return because.reason == one.reason; });
    ASSERT_NE(found, explanation.whyNotMore.end()) << one.what << " " << one.reason;
    EXPECT_NE(found->message.find(one.words), std::string::npos) << found->message;
  }
}

TEST(ExplainText, whatIsAnsweredStays) {
  admin::Explanation explanation;
  explanation.whyThese = {{"A", "a"}};
  explanation.whyThisMany = {{"B", "b"}};
  explanation.whyNotMore = {{"C", "c"}};
  leaveNothingOpen(explanation, {});
  EXPECT_EQ(explanation.whyThese.size() + explanation.whyThisMany.size() + explanation.whyNotMore.size(), 3U);
}

TEST(ExplainText, aBindingQuotaIsNamedWithItsTenant) {
  const ReasonTexts texts = explainReasons({{GroupId(1), allocation::ReasonCode::CappedByQuota, 2500, 2000, {}}}, TenantName("audio"));
  ASSERT_EQ(texts.whyNotMore.size(), 1U);
  EXPECT_EQ(texts.whyNotMore[0].reason, "CappedByQuota");
  EXPECT_EQ(texts.whyNotMore[0].message, "quota.cpus of tenant audio is 2.5 CPUs; its services are entitled to 2 CPUs together");
}

std::string shown(const std::function<void(std::FILE*)>& show) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  show(out);
  std::fclose(out);
  std::string result(text, size);
  ::free(text);
  return result;
}

controller::ServiceSummary summaryOf(int desired, int serving) {
  controller::ServiceSummary summary;
  summary.name = kSpeech;
  summary.tenant = TenantName("audio");
  summary.desired = desired;
  summary.serving = serving;
  return summary;
}

TEST(StartupView, inAPipeEachChangeIsOneLine) {
  const std::string text = shown([](std::FILE* out) {
    StartupView view(out, {});
    EXPECT_FALSE(view.update({summaryOf(1, 0)}));
    EXPECT_FALSE(view.update({summaryOf(1, 0)}));
    EXPECT_TRUE(view.update({summaryOf(1, 1)}));
  });
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_NE(text.find("audio/speech"), std::string::npos);
}

TEST(StartupView, whatCannotServeSaysWhyAndHoldsNobodyUp) {
  const std::string text = shown([](std::FILE* out) {
    StartupView view(out, {});
    auto summary = summaryOf(1, 0);
    summary.obstacles.push_back({"ModelLoaded", "ChecksumMismatch", "model.onnx has another checksum"});
    EXPECT_TRUE(view.update({summary}));
    view.ready({summary}, {}, "http://127.0.0.1:1", "/state", {}, {}, Seconds(1));
  });
  EXPECT_NE(text.find("ChecksumMismatch: model.onnx has another checksum"), std::string::npos);
  EXPECT_EQ(text.find("READY"), std::string::npos);
}

TEST(Metrics, aScrapeCarriesTenantsAndSums) {
  ServeMetrics metrics;
  gateway::GatewaySnapshot snapshot;
  gateway::ServiceSnapshot service;
  service.name = kSpeech;
  service.tenant = TenantName("audio");
  gateway::CallerSnapshot own;
  own.tenant = service.tenant;
  own.requests.answer(200, "");
  own.total.record(3'000'000);
  gateway::CallerSnapshot other;
  other.tenant = TenantName("vision");
  other.requests.answer(429, "TenantBacklog");
  service.callers = {own, other};
  snapshot.services.push_back(service);
  const std::string text = metrics.scrape(snapshot, {}, {}, {});
  EXPECT_NE(text.find("coterie_requests_total{tenant=\"audio\",service=\"audio/speech\",code=\"200\"} 1"), std::string::npos) << text;
  EXPECT_NE(text.find("coterie_requests_total{tenant=\"vision\",service=\"audio/speech\",code=\"429\"} 1"), std::string::npos) << "by who called";
  EXPECT_NE(text.find("coterie_request_duration_seconds_count{tenant=\"audio\",service=\"audio/speech\"} 1"), std::string::npos) << text;
}

TEST(Metrics, batchesAreCountedByTheirSizeWhereTheyWereAskedFor) {
  ServeMetrics metrics;
  gateway::GatewaySnapshot snapshot;
  gateway::ServiceSnapshot service;
  service.name = kSpeech;
  service.tenant = TenantName("audio");
  service.runs.record(1, Millis(1));
  for (int i = 0; i < 3; ++i) service.runs.record(5, Millis(2));
  snapshot.services.push_back(service);
  EXPECT_EQ(metrics.scrape(snapshot, {}, {}, {}).find("coterie_batch_requests"), std::string::npos);
  snapshot.services[0].batching = true;
  const std::string text = metrics.scrape(snapshot, {}, {}, {});
  const std::string labels = "{tenant=\"audio\",service=\"audio/speech\"";
  for (const char* line : {",le=\"1\"} 1\n", ",le=\"4\"} 1\n", ",le=\"8\"} 4\n", ",le=\"+Inf\"} 4\n"})
    EXPECT_NE(text.find("coterie_batch_requests_bucket" + labels + line), std::string::npos) << line << text;
  EXPECT_NE(text.find("coterie_batch_requests_sum" + labels + "} 16\n"), std::string::npos) << text;
  EXPECT_NE(text.find("coterie_batch_requests_count" + labels + "} 4\n"), std::string::npos) << text;
}

gateway::GatewaySnapshot snapshotOf(int first, int count) {
  gateway::GatewaySnapshot snapshot;
  gateway::TenantSnapshot tenant;
  tenant.tenant = TenantName("audio");
  snapshot.tenants.push_back(tenant);
  for (int i = first; i < first + count; ++i) {
    gateway::ServiceSnapshot service;
    service.name = {"audio", "service-" + std::to_string(i)};
    service.tenant = tenant.tenant;
    gateway::CallerSnapshot own;
    own.tenant = tenant.tenant;
    own.requests.answer(200, "");
    service.callers.push_back(own);
    snapshot.services.push_back(service);
  }
  return snapshot;
}

TEST(Metrics, twoHundredServicesThatCameAndWentLeaveNoSeries) {
  ServeMetrics metrics;
  const std::string before = metrics.scrape(snapshotOf(0, 1), {}, {}, {});
  for (int round = 1; round <= 20; ++round) {
    const std::string busy = metrics.scrape(snapshotOf(round * 10, 10), {}, {}, {});
    EXPECT_EQ(busy.find("service-" + std::to_string(round * 10 - 1) + "\""), std::string::npos) << "of the round before";
    EXPECT_NE(busy.find("service-" + std::to_string(round * 10 + 9) + "\""), std::string::npos);
  }
  EXPECT_EQ(metrics.scrape(snapshotOf(0, 1), {}, {}, {}), before);
  EXPECT_EQ(metrics.scrape({}, {}, {}, {}).find("audio"), std::string::npos) << "the tenant is gone too";
}

controller::ServiceSummary watched(int mostAtOnce) {
  controller::ServiceSummary summary;
  summary.name = kSpeech;
  summary.spec.objective = Objective{Millis(60), 99};
  summary.width.curve = {{1, Millis(80), Millis(82)}, {2, Millis(45), Millis(47)}};
  allocation::WidthQuestion question;
  question.curve = summary.width.curve;
  question.cpus = 4;
  question.objective = Millis(60);
  question.arrivals = MilliRps(12'500);
  question.mostAtOnce = mostAtOnce;
  question.mostWideServers = 1;
  summary.width.question = question;
  summary.width.choice = allocation::chooseWidth(question);
  return summary;
}

std::string said(const admin::WidthInfo& width, std::string_view reason) {
  for (const auto& why : width.why) {
    if (why.reason == reason) return why.message;
  }
  return "nothing";
}

TEST(ExplainWidth, saysWhatIsProposedFromWhatWasSeenAndMeasured) {
  const admin::WidthInfo width = explainWidth(watched(1));
  EXPECT_EQ(width.threads, 1);
  EXPECT_EQ(width.proposedThreads, 2);
  EXPECT_EQ(width.proposedInstances, 1);
  EXPECT_EQ(width.judged.size(), 2U);
  EXPECT_NE(said(width, "MeetsObjective").find("1 server of 2 threads answers in 47 ms"), std::string::npos);
  EXPECT_NE(said(width, "Seen").find("12.5 requests arrived per second, and 1 at most"), std::string::npos);
  EXPECT_EQ(said(width, "RunTimes"), "a run takes 80 ms by 1 thread, 45 ms by 2");
  EXPECT_NE(said(width, "OneServerAnInstance").find("its 4 CPUs would carry 2 servers, with maxInstances 2"), std::string::npos);
  controller::ServiceSummary held = watched(1);
  held.width.held = "no memory for both";
  held.width.shared = Bytes(98LL << 20);
  EXPECT_EQ(said(explainWidth(held), "Held"), "no memory for both");
  EXPECT_EQ(said(explainWidth(held), "WeightsShared"), "its instances have one copy of its weights in memory, 98 MiB, whatever their width");
  EXPECT_EQ(said(explainWidth(watched(1)), "WeightsShared"), "nothing");
  controller::ServiceSummary fresh = watched(1);
  fresh.width = {};
  EXPECT_NE(said(explainWidth(fresh), "NothingSeenYet"), "nothing");
  fresh.spec.maxCpus = MilliCpu(1000);
  EXPECT_NE(said(explainWidth(fresh), "OneCpuAtMost"), "nothing");
  fresh.spec.objective.reset();
  EXPECT_NE(said(explainWidth(fresh), "NoObjective"), "nothing");
  EXPECT_EQ(explainWidth(fresh).proposedThreads, 0);
}

TEST(Metrics, theWidthOfAServiceAndItsProposalAreShown) {
  ServeMetrics metrics;
  agent::GroupView group;
  group.spec.service = kSpeech;
  const std::string text = metrics.scrape({}, {}, {group}, {}, {watched(1)});
  EXPECT_NE(text.find("coterie_group_run_threads{service=\"audio/speech\"} 1"), std::string::npos) << text;
  EXPECT_NE(text.find("coterie_group_proposed_run_threads{service=\"audio/speech\"} 2"), std::string::npos);
  EXPECT_NE(text.find("coterie_group_proposed_instances{service=\"audio/speech\"} 1"), std::string::npos);
  EXPECT_EQ(metrics.scrape({}, {}, {}, {}, {watched(1)}).find("audio/speech"), std::string::npos) << "nobody else shows it";
}

TEST(Metrics, aGroupThatStillDrainsIsShownUntilItIsGone) {
  ServeMetrics metrics;
  agent::GroupView group;
  group.spec.service = kSpeech;
  EXPECT_NE(metrics.scrape({}, {}, {group}, {}).find("coterie_group_grant_cpus{service=\"audio/speech\"}"), std::string::npos);
  EXPECT_EQ(metrics.scrape({}, {}, {}, {}).find("audio/speech"), std::string::npos);
}

TEST(Metrics, aTenantSeesItsCallsAndItsServicesAndNothingElse) {
  ServeMetrics metrics;
  gateway::GatewaySnapshot snapshot;
  const auto caller = [](const char* tenant) {
    gateway::CallerSnapshot made;
    made.tenant = TenantName(tenant);
    made.requests.answer(200, "");
    return made;
  };
  for (const auto& [name, tenant] : {std::pair<ServiceName, const char*>{kSpeech, "audio"}, {{"video", "clip"}, "video"}}) {
    gateway::ServiceSnapshot service;
    service.name = name;
    service.tenant = TenantName(tenant);
    service.callers = {caller("audio"), caller("video")};
    snapshot.services.push_back(service);
  }
  for (const char* tenant : {"audio", "video"}) {
    snapshot.tenants.push_back({TenantName(tenant), {}, 1, 0});
    snapshot.limits.push_back({TenantName(tenant), std::nullopt, {{tenancy::LimitKind::RequestRate, 5, 5, 1, 3}}});
    snapshot.limits.push_back({TenantName(tenant), kSpeech, {{tenancy::LimitKind::QueuedTime, 5, 0, 1, 4}}});
  }
  agent::GroupView group;
  group.spec.service = kSpeech;
  agent::GroupView other;
  other.spec.service = {"video", "clip"};
  const auto of = [&](const std::optional<TenantName>& tenant) { return metrics.scrape(snapshot, {}, {group, other}, {}, {}, tenant); };
  const std::string all = of({});
  for (const char* line : {"coterie_limit_hits_total{tenant=\"video\",limit=\"requestsPerSecond\"} 3",
                           "coterie_service_limit_hits_total{tenant=\"audio\",service=\"audio/speech\",limit=\"queuedSeconds\"} 4",
                           "coterie_fairness_jain_ratio{tenant=\"audio\",service=\"audio/speech\"} 1\n",
                           "coterie_slot_entitled_seconds_total{tenant=\"video\",service=\"audio/speech\"} 0\n",
                           "coterie_group_idle_entitled_cpu_seconds_total{service=\"video/clip\"} 0\n", "coterie_connections_open 0\n"})
    EXPECT_NE(all.find(line), std::string::npos) << line << "\n" << all;
  const std::string own = of(TenantName("audio"));
  EXPECT_NE(own.find("coterie_requests_total{tenant=\"audio\",service=\"video/clip\",code=\"200\"} 1"), std::string::npos) << "it called it";
  EXPECT_NE(own.find("coterie_group_demand_cpus{service=\"audio/speech\"}"), std::string::npos);
  EXPECT_NE(own.find("coterie_limit_hits_total{tenant=\"audio\""), std::string::npos);
  EXPECT_EQ(own.find("tenant=\"video\""), std::string::npos) << own;
  EXPECT_EQ(own.find("{service=\"video/clip\"}"), std::string::npos) << own;
  EXPECT_EQ(own.find("coterie_connections_open"), std::string::npos) << "the machine's";
  EXPECT_EQ(of(TenantName("nobody")), "");
  EXPECT_EQ(of({}), all);
}

}  // namespace
}  // namespace coterie::serve
