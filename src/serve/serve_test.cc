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
#include "serve/metrics.h"
#include "serve/startup_view.h"

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
  book.append(kSpeech, InstanceId(1), "first\nsec", {});
  book.append(kSpeech, InstanceId(2), "other\n", {});
  book.append(kSpeech, InstanceId(1), "ond\n", {});
  const auto all = book.read(kSpeech, std::nullopt, 10);
  ASSERT_EQ(all.lines.size(), 3U);
  EXPECT_EQ(all.lines[0].text, "first");
  EXPECT_EQ(all.lines[1].text, "other");
  EXPECT_EQ(all.lines[2].text, "second");
  EXPECT_TRUE(book.read(kSpeech, all.next, 10).lines.empty());
  book.append(kSpeech, InstanceId(1), "third\n", {});
  const auto later = book.read(kSpeech, all.next, 10);
  ASSERT_EQ(later.lines.size(), 1U);
  EXPECT_EQ(later.lines[0].text, "third");
}

TEST(LogBook, aFloodCostsOnlyItsOwnServicesOlderLines) {
  LogBook book;
  book.append({"a", "quiet"}, InstanceId(9), "kept\n", {});
  for (int i = 0; i < 5000; ++i) book.append(kSpeech, InstanceId(1), std::to_string(i) + "\n", {});
  book.append(kSpeech, InstanceId(1), std::string(100'000, 'x'), {});
  const auto page = book.read(kSpeech, std::nullopt, 1'000'000);
  EXPECT_EQ(page.lines.size(), LogBook::kLinesPerService);
  for (const auto& line : page.lines) EXPECT_LE(line.text.size(), LogBook::kMaxLine);
  EXPECT_EQ(book.read({"a", "quiet"}, std::nullopt, 10).lines.size(), 1U);
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

TEST(ExplainText, aBindingQuotaIsNamedWithItsTenant) {
  const ReasonTexts texts = explainReasons({{GroupId(1), allocation::ReasonCode::CappedByQuota, 2500, 2000, {}}}, TenantName("audio"));
  ASSERT_EQ(texts.whyNotMore.size(), 1U);
  EXPECT_EQ(texts.whyNotMore[0].reason, "CappedByQuota");
  EXPECT_EQ(texts.whyNotMore[0].message, "quota.cpus of tenant audio is 2.5 CPUs; its services are entitled to 2 CPUs together");
}

TEST(ExplainText, cpusReadAsPeopleWriteThem) {
  EXPECT_EQ(cpusText(MilliCpu(1000)), "1 CPU");
  EXPECT_EQ(cpusText(MilliCpu(250)), "0.25 CPUs");
  EXPECT_EQ(cpusText(MilliCpu(12034)), "12.034 CPUs");
  EXPECT_EQ(cpusText(MilliCpu(0)), "0 CPUs");
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
  EXPECT_EQ(text.find("\x1b"), std::string::npos);
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
  service.requests.answer(200, "");
  service.total.record(3'000'000);
  snapshot.services.push_back(service);
  const std::string text = metrics.scrape(snapshot, {}, {}, {});
  EXPECT_NE(text.find("coterie_requests_total{tenant=\"audio\",service=\"audio/speech\",code=\"200\"} 1"), std::string::npos) << text;
  EXPECT_NE(text.find("coterie_request_duration_seconds_count{tenant=\"audio\",service=\"audio/speech\"} 1"), std::string::npos) << text;
}

}  // namespace
}  // namespace coterie::serve
