// The log on a disk that fills up, breaks, loses power and is tampered with.
#include "audit/trail.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "audit/chain.h"
#include "testing/fake_log_folder.h"
#include "testing/manual_loop.h"

namespace coterie::audit {
namespace {

Entry change(const std::string& object = "audio/speech") {
  Entry entry;
  entry.through = Through::Admin;
  entry.actor = {Actor::Kind::User, "0", {}, Role::PlatformAdmin};
  entry.verb = "update";
  entry.kind = "ModelService";
  entry.object = object;
  entry.tenant = TenantName(object.substr(0, object.find('/')));
  entry.changes = {"spec.weight: 1 -> 2"};
  return entry;
}

Entry noted(const std::string& verb) {
  Entry entry;
  entry.verb = verb;
  return entry;
}

class AuditTrail : public ::testing::Test {
 protected:
  AuditTrail() { start(); }
  // The next run of the server.
  void start(Trail::Options options = {}) { trail_.emplace(folder_, clock_, options); }
  void write(const std::string& object = "audio/speech") {
    auto begun = trail_->begin(change(object));
    ASSERT_TRUE(begun.ok()) << begun.error().message;
    trail_->end(std::move(*begun), {});
  }
  ChainCheck verify() {
    ChainCheck check;
    for (const std::string& name : folder_.names()) {
      if (!check.takeFile(name, folder_.bytes(name))) break;
    }
    return check;
  }
  std::string faultText() {
    const ChainCheck check = verify();
    return check.fault() ? check.fault()->text() : "";
  }
  // "verb object result" of every line.
  std::vector<std::string> told() {
    std::vector<std::string> out;
    ChainCheck check;
    for (const std::string& name : folder_.names()) {
      check.takeFile(name, folder_.bytes(name), [&](const Line& line) {
        const Entry& entry = line.entry;
        out.push_back(entry.verb + (entry.object.empty() ? "" : " " + entry.object) + " " + std::string(outcomeName(entry.outcome)) +
                      (entry.count == 1 ? "" : " x" + std::to_string(entry.count)));
      });
    }
    return out;
  }
  std::string& first() { return folder_.bytes(fileName(1)); }

  testing::FakeLogFolder folder_;
  testing::ManualClock clock_;
  std::optional<Trail> trail_;
};
using Told = std::vector<std::string>;

TEST_F(AuditTrail, AChangeIsToldOfBeforeAndAfter) {
  auto begun = trail_->begin(change());
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(told(), (Told{"begin audit-00000001.jsonl noted", "update audio/speech begun"}));
  const int flushes = folder_.flushes;
  folder_.losePower();
  EXPECT_EQ(told().size(), 2U) << "what began is on the disk before anything is done";
  trail_->end(std::move(*begun), {});
  EXPECT_EQ(told().back(), "update audio/speech done");
  EXPECT_EQ(folder_.flushes, flushes) << "and only that waits for the disk";
  auto failing = trail_->begin(change());
  trail_->end(std::move(*failing), Error{Code::Unavailable, "StoreFull", "no room"});
  EXPECT_EQ(told().back(), "update audio/speech failed");
  const Line last = verify().last();
  EXPECT_EQ(last.entry.of, last.sequence - 1);
  EXPECT_EQ(last.entry.reason, "StoreFull");
  EXPECT_EQ(last.entry.tenant, TenantName("audio")) << "so that its tenant sees how it ended";
  EXPECT_TRUE(last.entry.changes.empty());
  EXPECT_EQ(faultText(), "");
}

TEST_F(AuditTrail, TheNextRunGoesOnWithTheChain) {
  write();
  start();
  write();
  EXPECT_EQ(folder_.names().size(), 1U);
  EXPECT_EQ(verify().last().sequence, 5U);
  EXPECT_EQ(faultText(), "");
}

TEST_F(AuditTrail, FilesAreBoundedInSizeAndNumberAndTheChainGoesOnAcrossThem) {
  start({Bytes(2000), 3});
  for (int i = 0; i < 40; ++i) write("audio/s" + std::to_string(i));
  EXPECT_EQ(folder_.names().size(), 3U);
  EXPECT_GT(folder_.names().front(), fileName(10)) << "the oldest went";
  for (const std::string& name : folder_.names()) EXPECT_LE(folder_.bytes(name).size(), 2000U);
  const ChainCheck check = verify();
  EXPECT_FALSE(check.fault()) << check.fault()->text();
  EXPECT_GT(check.first(), 1U);
  EXPECT_EQ(told().back(), "update audio/s39 done");
}

TEST_F(AuditTrail, ALineThatAKillCutOffIsTakenOutAndSaid) {
  write();
  const std::string whole = first();
  for (const std::size_t left : {std::size_t{1}, std::size_t{50}, whole.size() - whole.rfind('\n', whole.size() - 2) - 2}) {
    first() = whole + whole.substr(whole.rfind('\n', whole.size() - 2) + 1, left);
    start();
    write("audio/next");
    EXPECT_EQ(faultText(), "") << left;
    const Told lines = told();
    EXPECT_EQ(lines.at(lines.size() - 3), "cut audit-00000001.jsonl noted") << left;
    EXPECT_EQ(lines.back(), "update audio/next done");
    first() = whole;
  }
}

TEST_F(AuditTrail, AFileThatAKillLeftWithoutItsFirstLineIsMadeAnew) {
  write();
  for (const std::string& left : {std::string(), std::string("{\"seq\":4,\"ti")}) {
    folder_.bytes(fileName(2)) = left;
    start();
    write();
    EXPECT_EQ(folder_.names(), std::vector<std::string>{fileName(1)});
    EXPECT_EQ(faultText(), "");
  }
  folder_ = {};
  folder_.bytes(fileName(1)) = "{\"seq\":1";
  start();
  write();
  EXPECT_EQ(faultText(), "");
}

TEST_F(AuditTrail, PowerLossTakesNothingThatWasBegun) {
  for (int i = 0; i < 5; ++i) write("audio/s" + std::to_string(i));
  folder_.losePower();
  start();
  EXPECT_EQ(told().back(), "update audio/s4 begun") << "its end was not flushed, and it is as if the server had died then";
  write("audio/next");
  EXPECT_EQ(faultText(), "");
}

// --- Disks that do not take it ---

TEST_F(AuditTrail, OnAFullDiskNoChangeBeginsAndAllGoesOnWhenThereIsRoom) {
  write();
  const std::string before = first();
  for (const std::size_t room : {std::size_t{0}, std::size_t{1}, std::size_t{100}}) {
    folder_.room = room;
    const auto refused = trail_->begin(change());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::Unavailable);
    EXPECT_EQ(refused.error().reason, "AuditUnavailable");
    EXPECT_NE(refused.error().message.find("no change is made"), std::string::npos);
    EXPECT_EQ(first(), before) << "no half line stays";
  }
  folder_.room = SIZE_MAX;
  write("audio/after");
  EXPECT_EQ(told().back(), "update audio/after done");
  EXPECT_EQ(faultText(), "");
}

TEST_F(AuditTrail, WhatCannotBeMadeDurableDoesNotBegin) {
  write();
  folder_.notDurable = true;
  EXPECT_FALSE(trail_->begin(change("audio/lost")).ok());
  folder_.notDurable = false;
  write("audio/after");
  for (const std::string& line : told()) EXPECT_EQ(line.find("audio/lost"), std::string::npos) << line;
  EXPECT_EQ(faultText(), "");
}

// Not even the half of it can be taken back: it is looked at again before the next line.
TEST_F(AuditTrail, AHalfLineThatCannotBeTakenBackIsCutOffLater) {
  write();
  struct Stuck final : LogFolder {
    explicit Stuck(testing::FakeLogFolder& f) : folder(f) {}
    [[nodiscard]] Result<std::vector<File>> list() const override { return folder.list(); }
    [[nodiscard]] Result<std::string> read(const std::string& n, std::uint64_t a, std::size_t b) const override { return folder.read(n, a, b); }
    [[nodiscard]] Status create(const std::string& n) override { return folder.create(n); }
    [[nodiscard]] Status append(const std::string& n, std::string_view b, Durable d) override { return folder.append(n, b, d); }
    [[nodiscard]] Status cut(const std::string& n, std::uint64_t s) override {
      return stuck ? Status(Error{Code::Unavailable, "CannotWrite", "stuck"}) : folder.cut(n, s);
    }
    [[nodiscard]] Status remove(const std::string& n) override { return folder.remove(n); }
    testing::FakeLogFolder& folder;
    bool stuck{false};
  } stuck(folder_);
  Trail trail(stuck, clock_);
  stuck.stuck = true;
  folder_.room = 100;
  for (int tries = 0; tries < 2; ++tries) {
    EXPECT_FALSE(trail.begin(change()).ok());
    const auto page = trail.read(0, {});
    ASSERT_TRUE(page.ok());
    EXPECT_EQ(page->lines.size(), 3U) << "and nobody reads it";
    EXPECT_TRUE(page->last);
  }
  folder_.room = SIZE_MAX;
  stuck.stuck = false;
  ASSERT_TRUE(trail.begin(change("audio/after")).ok());
  EXPECT_EQ(faultText(), "");
  EXPECT_EQ(told().back(), "update audio/after begun");
}

TEST_F(AuditTrail, HowAChangeEndedIsWrittenWhenThereIsRoomAgain) {
  auto begun = trail_->begin(change("audio/made"));
  ASSERT_TRUE(begun.ok());
  folder_.room = 0;
  trail_->end(std::move(*begun), {});
  EXPECT_FALSE(trail_->begin(change()).ok());
  folder_.room = SIZE_MAX;
  write("audio/after");
  const Told lines = told();
  EXPECT_EQ(lines.at(lines.size() - 3), "update audio/made done");
  EXPECT_EQ(faultText(), "");
}

TEST_F(AuditTrail, WhatIsKeptForLaterIsBoundedAndTheRestIsCounted) {
  write();
  folder_.room = 0;
  for (std::size_t i = 0; i < Trail::kMostPending + 7; ++i) trail_->note({noted("refuse")});
  folder_.room = SIZE_MAX;
  write();
  const Told lines = told();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "refuse noted"), static_cast<std::ptrdiff_t>(Trail::kMostPending));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "drop noted x7"), 1);
  EXPECT_EQ(faultText(), "");
}

TEST_F(AuditTrail, ANewFileThatFindsNoRoomLeavesNothingBehind) {
  start({Bytes(500), 3});
  write();
  const auto before = folder_.names();
  folder_.room = 60;
  EXPECT_FALSE(trail_->begin(change()).ok());
  EXPECT_EQ(folder_.names(), before);
  folder_.room = SIZE_MAX;
  write();
  EXPECT_EQ(faultText(), "");
}

// Made, and yet the disk says no: it must not stand in the way of the next try.
TEST_F(AuditTrail, ANewFileThatIsThereAfterAllIsUsedUp) {
  start({Bytes(500), 3});
  write();
  folder_.halfCreates = true;
  EXPECT_FALSE(trail_->begin(change()).ok());
  EXPECT_FALSE(trail_->begin(change()).ok());
  folder_.halfCreates = false;
  write("audio/after");
  EXPECT_EQ(told().back(), "update audio/after done");
  EXPECT_EQ(faultText(), "");
}

TEST_F(AuditTrail, AFullDiskCostsNoReadingOfTheLog) {
  write();
  folder_.room = 0;
  EXPECT_FALSE(trail_->begin(change()).ok());
  folder_.unreadable = true;
  EXPECT_EQ(trail_->begin(change()).error().message.find("the folder"), std::string::npos) << "it asked for nothing but room";
  folder_.room = SIZE_MAX;
  EXPECT_TRUE(trail_->begin(change()).ok());
}

TEST_F(AuditTrail, AServerStartsOnADiskThatTakesNothing) {
  testing::FakeLogFolder broken;
  broken.unwritable = true;
  Trail trail(broken, clock_);
  EXPECT_EQ(trail.begin(change()).error().reason, "AuditUnavailable");
  EXPECT_TRUE(trail.read(0, {}).ok());
  broken.unwritable = false;
  EXPECT_TRUE(trail.begin(change()).ok());
  broken.unreadable = true;
  EXPECT_TRUE(trail.begin(change()).ok()) << "it knows where it is";
  Trail blind(broken, clock_);
  EXPECT_EQ(blind.begin(change()).error().reason, "AuditUnavailable") << "it would not know what to go on from";
}

// --- Tampering ---

class Tampered : public AuditTrail {
 protected:
  Tampered() {
    for (int i = 0; i < 4; ++i) write("audio/s" + std::to_string(i));
    whole_ = first();
    for (std::size_t at = 0; at < whole_.size();) {
      const std::size_t end = whole_.find('\n', at) + 1;
      lines_.push_back(whole_.substr(at, end - at));
      at = end;
    }
  }
  void put(const std::vector<std::string>& lines) {
    first().clear();
    for (const std::string& line : lines) first() += line;
  }
  std::string whole_;
  std::vector<std::string> lines_;  // the first begins the file, then begun and done of each
};

TEST_F(Tampered, TheFirstBadLineIsNamed) {
  EXPECT_EQ(faultText(), "");
  auto lines = lines_;
  lines[3].replace(lines[3].find("audio/s1"), 8, "audio/s9");
  put(lines);
  EXPECT_EQ(faultText(), "audit-00000001.jsonl:4: its hash does not follow: this line was altered, or the one before it");
  lines = lines_;
  lines.erase(lines.begin() + 3);
  put(lines);
  EXPECT_EQ(faultText(), "audit-00000001.jsonl:4: line 4 is missing before it");
  lines.erase(lines.begin() + 3);
  put(lines);
  EXPECT_EQ(faultText(), "audit-00000001.jsonl:4: lines 4 to 5 are missing before it");
  lines = lines_;
  std::swap(lines[4], lines[5]);
  put(lines);
  EXPECT_EQ(faultText(), "audit-00000001.jsonl:5: line 5 is missing before it");
  lines = lines_;
  lines.insert(lines.begin() + 5, lines[4]);
  put(lines);
  EXPECT_EQ(faultText(), "audit-00000001.jsonl:6: line 5 comes after line 5: lines were moved, or put in");
  lines = lines_;
  lines.erase(lines.begin());
  put(lines);
  EXPECT_EQ(faultText(), "audit-00000001.jsonl:1: the line that begins a file is missing");
  lines = lines_;
  lines[2] = "not a line\n";
  put(lines);
  EXPECT_NE(faultText().find("audit-00000001.jsonl:3: this is no line of an audit log"), std::string::npos);
}

TEST_F(Tampered, ALineWithAHashOfItsOwnShowsAtTheNextOne) {
  auto lines = lines_;
  auto line = decode(lines[3].substr(0, lines[3].size() - 1));
  ASSERT_TRUE(line.ok());
  line->entry.object = "audio/s9";
  lines[3] = encode(line->sequence, line->entry, decode(lines[2].substr(0, lines[2].size() - 1))->hash).text + "\n";
  put(lines);
  EXPECT_EQ(faultText(), "audit-00000001.jsonl:5: its hash does not follow: this line was altered, or the one before it");
}

TEST_F(Tampered, NoSingleByteCanBeChanged) {
  for (std::size_t at = 0; at < whole_.size(); at += 7) {
    first() = whole_;
    first()[at] = static_cast<char>(first()[at] ^ 1);
    const ChainCheck check = verify();
    EXPECT_TRUE(check.fault() || check.cutOff()) << "byte " << at;
  }
}

TEST_F(Tampered, AFileThatIsMissingBetweenTwoIsFound) {
  folder_ = {};
  start({Bytes(900), 100});
  for (int i = 0; i < 12; ++i) write();
  ASSERT_EQ(faultText(), "");
  ASSERT_GT(folder_.names().size(), 3U);
  const std::string taken = folder_.bytes(fileName(2));
  ASSERT_TRUE(folder_.remove(fileName(2)).ok());
  EXPECT_EQ(faultText(), "audit-00000003.jsonl:1: file 3 comes after file 1: files are missing, or in another order");
  folder_.bytes(fileName(2)) = taken.substr(0, taken.rfind('\n', taken.size() - 2) + 1);
  EXPECT_EQ(faultText(), "audit-00000003.jsonl:1: the file does not begin where the one before ends: lines are missing there, or were altered");
}

TEST_F(Tampered, ABrokenChainGoesOnInANewFileAndStaysBroken) {
  auto lines = lines_;
  lines[3].replace(lines[3].find("audio/s1"), 8, "audio/s9");
  put(lines);
  start();
  write("audio/after");
  write("audio/more");
  EXPECT_EQ(folder_.names().size(), 2U);
  EXPECT_EQ(faultText(), "audit-00000001.jsonl:4: its hash does not follow: this line was altered, or the one before it");
  ChainCheck later;
  EXPECT_TRUE(later.takeFile(fileName(2), folder_.bytes(fileName(2)))) << "from there on it can be checked";
  EXPECT_GT(later.first(), lines_.size()) << "no number comes twice";
  EXPECT_NE(folder_.bytes(fileName(2)).find("\"verb\":\"break\""), std::string::npos);
}

TEST_F(Tampered, WhatSomebodyTakesAwayWhileTheServerRunsLeavesAGap) {
  ASSERT_TRUE(folder_.remove(fileName(1)).ok());
  EXPECT_FALSE(trail_->begin(change()).ok()) << "the file that is written to has gone";
  write("audio/after");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{fileName(2)});
  EXPECT_NE(folder_.bytes(fileName(2)).find("\"verb\":\"miss\""), std::string::npos);
  EXPECT_EQ(faultText(), "");
  EXPECT_EQ(verify().first(), lines_.size() + 1) << "its first line says after which one it comes";
}

// --- Reading ---

class ReadTrail : public AuditTrail {
 protected:
  std::vector<std::string> readAll(const std::function<bool(const Line&)>& wanted = {}) {
    std::vector<std::string> lines;
    std::uint64_t at = 0;
    for (int pages = 0; pages < 1000; ++pages) {
      const auto page = trail_->read(at, wanted);
      EXPECT_TRUE(page.ok());
      if (!page.ok()) break;
      lines.insert(lines.end(), page->lines.begin(), page->lines.end());
      if (page->last) return lines;
      EXPECT_TRUE(page->next != at) << "it does not stand still";
      at = page->next;
    }
    ADD_FAILURE() << "no end";
    return lines;
  }
};

TEST_F(ReadTrail, EveryLineIsReadOnceOverPagesAndFiles) {
  EXPECT_TRUE(readAll().empty());
  start({Bytes(300'000), 100});
  for (int i = 0; i < 1500; ++i) write("audio/s" + std::to_string(i));
  ASSERT_GT(folder_.names().size(), 2U);
  std::string all;
  for (const std::string& name : folder_.names()) all += folder_.bytes(name);
  std::string read;
  for (const std::string& line : readAll()) read += line + "\n";
  EXPECT_EQ(read, all);
}

TEST_F(ReadTrail, OneReadsOnFromWhereAPageEnded) {
  write("audio/a");
  const auto page = trail_->read(0, {});
  ASSERT_TRUE(page->last);
  EXPECT_EQ(page->lines.size(), 3U);
  EXPECT_TRUE(trail_->read(page->next, {})->lines.empty());
  write("audio/b");
  EXPECT_EQ(trail_->read(page->next, {})->lines.size(), 2U);
}

TEST_F(ReadTrail, OnlyWantedLinesAreGiven) {
  write("audio/a");
  write("video/b");
  const auto lines = readAll([](const Line& line) { return line.entry.tenant == TenantName("video"); });
  ASSERT_EQ(lines.size(), 2U);
  for (const std::string& line : lines) EXPECT_NE(line.find("video/b"), std::string::npos);
}

TEST_F(ReadTrail, WhatRotationTookMeanwhileIsSkipped) {
  start({Bytes(900), 2});
  write();
  const auto page = trail_->read(0, {});
  for (int i = 0; i < 20; ++i) write("audio/s" + std::to_string(i));
  const auto next = trail_->read(page->next, {});
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->file, folder_.names().front());
  EXPECT_EQ(next->lines.front(), folder_.bytes(next->file).substr(0, folder_.bytes(next->file).find('\n')));
}

TEST_F(ReadTrail, AFileWithoutLinesIsReadToItsEnd) {
  write();
  first() = std::string(Trail::kPageBytes * 2 + 5, 'x') + "\n";
  start();
  EXPECT_FALSE(readAll().empty());
  EXPECT_TRUE(readAll([](const Line&) { return true; }).size() < 10);
}

}  // namespace
}  // namespace coterie::audit
