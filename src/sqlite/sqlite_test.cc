// The SQLite store: the common contract, then what only a disk can do: survive kill -9, be full, be damaged, be somebody else's.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "ports/object_store_contract.h"
#include "sqlite/sqlite_store.h"

namespace coterie::sqlite {
namespace {

namespace fs = std::filesystem;
using contract::object;

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "coterie-store-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path() const { return path_ + "/data"; }
  [[nodiscard]] std::string parent() const { return path_; }

 private:
  std::string path_;
};

std::unique_ptr<SqliteStore> mustOpen(const std::string& folder, EventLoop& loop) {
  Result<std::unique_ptr<SqliteStore>> store = SqliteStore::open(folder, loop);
  EXPECT_TRUE(store.ok()) << store.error().message;
  return store.ok() ? std::move(*store) : nullptr;
}

// The contract's stores live in folders that go when the test program ends.
std::unique_ptr<SqliteStore> fresh(EventLoop& loop) {
  static std::vector<std::unique_ptr<Folder>> folders;
  folders.push_back(std::make_unique<Folder>());
  return mustOpen(folders.back()->path(), loop);
}

struct Disk : ::testing::Test {
  Folder folder;
  testing::ManualLoop loop;
};

TEST_F(Disk, EverythingIsThereAfterOpeningAgain) {
  std::vector<StoredObject> before;
  std::uint64_t version = 0;
  {
    const auto store = mustOpen(folder.path(), loop);
    StoredObject a = *store->create(object("n", "a"));
    a.labels.set("k", "v");
    a.spec.set("text", "line\nbreak \"quoted\" \xf0\x9f\x98\x80");
    a.spec.set("fraction", 0.1);
    a = *store->update(a);
    a.status.set("conditions", Value::List{Value(1), Value(), Value(true)});
    a = *store->updateStatus(a);
    ASSERT_TRUE(store->create(object("n", "b")).ok());
    ASSERT_TRUE(store->remove({"ModelService", "n", "b"}, 0).ok());
    ASSERT_TRUE(store->append({.object = a.key, .reason = "Started", .message = "m"}).ok());
    before = store->list("ModelService", std::nullopt)->objects;
    version = store->list("ModelService", std::nullopt)->resourceVersion;
  }
  const auto store = mustOpen(folder.path(), loop);
  const ObjectList after = *store->list("ModelService", std::nullopt);
  EXPECT_EQ(after.resourceVersion, version) << "also that of the deletion";
  ASSERT_EQ(after.objects.size(), 1u);
  EXPECT_EQ(after.objects[0].spec, before[0].spec);
  EXPECT_EQ(after.objects[0].status, before[0].status);
  EXPECT_EQ(after.objects[0].labels, before[0].labels);
  EXPECT_EQ(after.objects[0].uid, before[0].uid);
  EXPECT_EQ(after.objects[0].generation, before[0].generation);
  EXPECT_EQ(after.objects[0].creationTimeMicros, before[0].creationTimeMicros);
  EXPECT_EQ(store->last(before[0].key, 9).size(), 1u);
  EXPECT_EQ(store->create(object("n", "c"))->resourceVersion, version + 1);
  EXPECT_EQ(store->watch("ModelService", version - 1, [](const Change&) {}).error().reason, "ResourceVersionTooOld")
      << "changes of the last run are not kept";
}

TEST_F(Disk, EventsStayBoundedOnDisk) {
  {
    const auto store = mustOpen(folder.path(), loop);
    for (int i = 0; i < 200; ++i) {
      Event event{.object = {"Tenant", "", "t"}, .reason = "R", .message = std::to_string(i)};
      ASSERT_TRUE(store->append(event).ok());
    }
  }
  const auto store = mustOpen(folder.path(), loop);
  const std::vector<Event> events = store->last({"Tenant", "", "t"}, 1000);
  ASSERT_EQ(events.size(), kEventsPerObject);
  EXPECT_EQ(events.back().message, "199");
}

TEST_F(Disk, FilesAreTheOwnersOnly) {
  const mode_t before = ::umask(0);
  const auto store = mustOpen(folder.path(), loop);
  ASSERT_TRUE(store->create(object("n", "a")).ok());
  ::umask(before);
  struct stat status{};
  ASSERT_EQ(::stat(folder.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 3) << "database, log and lock";
}

TEST_F(Disk, AFileLeftReadableIsClosed) {
  {
    mustOpen(folder.path(), loop);
  }
  ASSERT_EQ(::chmod((folder.path() + "/coterie.db").c_str(), 0644), 0);
  const auto store = mustOpen(folder.path(), loop);
  struct stat status{};
  ASSERT_EQ(::stat((folder.path() + "/coterie.db").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

int waitFor(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

TEST_F(Disk, ASecondProcessIsRefusedByThePidOfTheFirst) {
  const auto store = mustOpen(folder.path(), loop);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    testing::ManualLoop own;
    const auto second = SqliteStore::open(folder.path(), own);
    const std::string said = second.ok() ? "opened" : second.error().reason + ": " + second.error().message;
    [[maybe_unused]] const ssize_t n = ::write(pipe[1], said.data(), said.size());
    ::_exit(0);
  }
  waitFor(child);
  char buffer[1024];
  const ssize_t size = ::read(pipe[0], buffer, sizeof buffer);
  const std::string said(buffer, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  ::close(pipe[0]), ::close(pipe[1]);
  EXPECT_EQ(said.find("StoreLocked"), 0u) << said;
  EXPECT_NE(said.find("process " + std::to_string(::getpid())), std::string::npos) << said;
}

TEST_F(Disk, ANewerSchemaIsRefusedAndLeftAlone) {
  {
    mustOpen(folder.path(), loop);
  }
  {
    auto database = *Database::open(folder.path() + "/coterie.db");
    ASSERT_TRUE(database->execute("PRAGMA user_version=99").ok());
  }
  const auto refused = SqliteStore::open(folder.path(), loop);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, "StoreTooNew");
  for (const std::string& part : {std::string("99"), folder.path() + "/coterie.db", std::string("--state")})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << part << ": " << refused.error().message;
}

TEST_F(Disk, ADatabaseOfAnotherProgramIsRefused) {
  fs::create_directory(folder.path());
  std::ofstream(folder.path() + "/coterie.db").close();
  {
    auto database = *Database::open(folder.path() + "/coterie.db");
    ASSERT_TRUE(database->execute("CREATE TABLE theirs (x)").ok());
  }
  EXPECT_EQ(SqliteStore::open(folder.path(), loop).error().reason, "NotAStore");
}

TEST_F(Disk, AFileThatIsNoDatabaseIsRefused) {
  fs::create_directory(folder.path());
  std::ofstream(folder.path() + "/coterie.db") << std::string(8192, 'x');
  const auto refused = SqliteStore::open(folder.path(), loop);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, "StoreCorrupt");
  EXPECT_NE(refused.error().message.find(folder.path()), std::string::npos);
}

TEST_F(Disk, AFolderThatCannotBeMadeIsRefused) {
  EXPECT_EQ(SqliteStore::open(folder.parent() + "/a/b/c", loop).error().reason, "StoreUnavailable");
  std::ofstream(folder.parent() + "/file") << "x";
  EXPECT_EQ(SqliteStore::open(folder.parent() + "/file", loop).error().reason, "StoreUnavailable");
}

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
void spit(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; }

// Whatever bytes of the file are flipped: either the store is refused in words, or it opens with every object as it was.
TEST_F(Disk, FlippedBytesAreRefusedOrHarmless) {
  std::vector<StoredObject> truth;
  {
    const auto store = mustOpen(folder.path(), loop);
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(store->create(object("n", "a" + std::to_string(i), i)).ok());
    ASSERT_TRUE(store->append({.object = {"Tenant", "", "t"}, .reason = "R", .message = "m"}).ok());
    truth = store->list("ModelService", std::nullopt)->objects;
  }
  const std::string path = folder.path() + "/coterie.db";
  const std::string whole = slurp(path);
  ASSERT_GT(whole.size(), 8192u);
  Rng rng(7);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = whole;
    if (round % 3 == 2) {
      damaged.resize(static_cast<std::size_t>(rng.between(1, static_cast<std::int64_t>(whole.size()) - 1)));
    } else {
      for (std::int64_t i = rng.between(1, 20); i > 0; --i)
        damaged[static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(whole.size()) - 1))] ^= static_cast<char>(1 << rng.between(0, 7));
    }
    fs::remove(path + "-wal");
    fs::remove(path + "-journal");
    spit(path, damaged);
    const auto store = SqliteStore::open(folder.path(), loop);
    if (!store.ok()) {
      ++refused;
      EXPECT_FALSE(store.error().message.empty());
      continue;
    }
    const std::vector<StoredObject> now = (*store)->list("ModelService", std::nullopt)->objects;
    ASSERT_EQ(now.size(), truth.size()) << "round " << round;
    for (std::size_t i = 0; i < now.size(); ++i) ASSERT_TRUE(now[i].key == truth[i].key && now[i].spec == truth[i].spec) << "round " << round;
  }
  EXPECT_GT(refused, 100);
}

// SQLite takes a damaged log for a shorter one; the witness knows better.
TEST_F(Disk, StoryOfTheLogThatWasDamagedAfterACrash) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    testing::ManualLoop own;
    auto store = SqliteStore::open(folder.path(), own);
    for (int i = 0; i < 20; ++i) (void)(*store)->create(object("n", "a" + std::to_string(i)));
    ::kill(::getpid(), SIGKILL);
  }
  waitFor(child);
  const std::string path = folder.path() + "/coterie.db-wal";
  std::string log = slurp(path);
  ASSERT_GT(log.size(), 20000u);
  log[log.size() / 2] ^= 1;
  spit(path, log);
  const auto refused = SqliteStore::open(folder.path(), loop);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, "StoreCorrupt");
  EXPECT_NE(refused.error().message.find("acknowledged"), std::string::npos) << refused.error().message;
  ::close(pipe[0]), ::close(pipe[1]);
}

// A child writes objects and says each acknowledged one through a pipe; it is killed at a random instant.
void writeUntilKilled(const std::string& folder, int out, int round) {
  testing::ManualLoop loop;
  auto store = SqliteStore::open(folder, loop);
  if (!store.ok()) ::_exit(3);
  for (std::int32_t i = 0;; ++i) {
    StoredObject made = object("r" + std::to_string(round), "o" + std::to_string(i), i);
    made.spec.set("filler", std::string(static_cast<std::size_t>(i * 37 % 5000), 'x'));
    Result<StoredObject> stored = (*store)->create(made);
    if (!stored.ok()) ::_exit(4);
    stored->status.set("n", i);
    if (!(*store)->updateStatus(*stored).ok()) ::_exit(5);
    if (::write(out, &i, sizeof i) != sizeof i) ::_exit(6);
    (void)(*store)->append({.object = stored->key, .reason = "R", .message = "m"});
  }
}

TEST_F(Disk, NoAcknowledgedWriteIsLostToKillNine) {
  const char* all = std::getenv("COTERIE_ALL");
  const int rounds = all != nullptr && std::string(all) == "1" ? 200 : 20;
  Rng rng(11);
  std::int64_t acknowledged = 0;
  for (int round = 0; round < rounds; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pipe[0]);
      writeUntilKilled(folder.path(), pipe[1], round);
    }
    ::close(pipe[1]);
    const std::int64_t wanted = rng.between(1, 12);
    std::int32_t last = -1;
    std::int32_t got = 0;
    for (std::int64_t i = 0; i < wanted && ::read(pipe[0], &got, sizeof got) == sizeof got; ++i) last = got;
    ::usleep(static_cast<useconds_t>(rng.between(0, 3000)));  // a random instant within the next writes
    ::kill(child, SIGKILL);
    ASSERT_TRUE(WIFSIGNALED(waitFor(child)));
    while (::read(pipe[0], &got, sizeof got) == sizeof got) last = got;
    ::close(pipe[0]);
    const auto store = mustOpen(folder.path(), loop);
    ASSERT_NE(store, nullptr);
    const std::vector<StoredObject> objects = store->list("ModelService", "r" + std::to_string(round))->objects;
    ASSERT_GE(static_cast<std::int32_t>(objects.size()), last + 1);
    ASSERT_LE(static_cast<std::int32_t>(objects.size()), last + 2) << "one write may have been in flight";
    for (std::int32_t i = 0; i <= last; ++i) {
      const Result<StoredObject> kept = store->get({"ModelService", "r" + std::to_string(round), "o" + std::to_string(i)});
      ASSERT_TRUE(kept.ok());
      ASSERT_EQ(*kept->spec.find("n"), Value(i));
      ASSERT_EQ(kept->spec.find("filler")->asString()->size(), static_cast<std::size_t>(i * 37 % 5000)) << "no half write";
      ASSERT_EQ(*kept->status.find("n"), Value(i));
    }
    acknowledged += last + 1;
  }
  std::printf("%d kills, %ld objects acknowledged, none lost\n", rounds, static_cast<long>(acknowledged));
}

// Fills a store until it refuses, in a child if `limited` (a file size limit cannot be raised again).
void fillAndCheck(const std::string& folder, EventLoop& loop) {
  int stored = 0;
  {
    const auto store = mustOpen(folder, loop);
    ASSERT_NE(store, nullptr);
    StoredObject small = *store->create(object("n", "small"));
    const std::string filler(20000, 'x');
    for (;; ++stored) {
      StoredObject big = object("n", "big" + std::to_string(stored));
      big.spec.set("filler", filler);
      const Result<StoredObject> result = store->create(big);
      if (result.ok()) {
        ASSERT_LT(stored, 10000);
        continue;
      }
      ASSERT_EQ(result.error().code, Code::Unavailable);
      ASSERT_EQ(result.error().reason, "StoreFull") << result.error().message;
      break;
    }
    EXPECT_EQ(store->get({"ModelService", "n", "big" + std::to_string(stored)}).error().code, Code::NotFound) << "a refused write is not there";
    EXPECT_TRUE(store->get(small.key).ok());
    (void)store->append({.object = small.key, .reason = "R", .message = filler});
    EXPECT_EQ(store->last(small.key, 9).size(), 1u) << "the record stays in memory";
  }
  const auto store = mustOpen(folder, loop);
  ASSERT_NE(store, nullptr) << "a full disk is no reason not to start";
  EXPECT_EQ(static_cast<int>(store->list("ModelService", "n")->objects.size()), stored + 1);
}

TEST_F(Disk, AFullDiskRefusesAndLosesNothing) {
  const std::string mount = folder.parent() + "/small";
  fs::create_directory(mount);
  if (::mount("tmpfs", mount.c_str(), "tmpfs", 0, "size=512k") != 0) GTEST_SKIP() << "needs the right to mount a tmpfs";
  fillAndCheck(mount + "/data", loop);
  // With more room it goes on.
  ASSERT_EQ(::mount("tmpfs", mount.c_str(), "tmpfs", MS_REMOUNT, "size=4m"), 0);
  {
    const auto store = mustOpen(mount + "/data", loop);
    EXPECT_TRUE(store->remove({"ModelService", "n", "big0"}, 0).ok());
  }
  ::umount2(mount.c_str(), MNT_DETACH);
}

TEST_F(Disk, AFileSizeLimitRefusesAndLosesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{400000, 400000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    fillAndCheck(folder.path(), loop);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  const int status = waitFor(child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const auto store = mustOpen(folder.path(), loop);
  EXPECT_TRUE(store->create(object("n", "after")).ok()) << "with room again, it goes on";
}

}  // namespace
}  // namespace coterie::sqlite

namespace coterie::contract {
namespace {
const StoreUnderTest kSqlite{"sqlite", [](EventLoop& loop) -> std::unique_ptr<ObjectStore> { return sqlite::fresh(loop); },
                             [](EventLoop& loop) -> std::unique_ptr<EventLog> { return sqlite::fresh(loop); }};
}  // namespace
INSTANTIATE_TEST_SUITE_P(Store, ObjectStoreContract, ::testing::Values(kSqlite), storeName);
INSTANTIATE_TEST_SUITE_P(Store, EventLogContract, ::testing::Values(kSqlite), storeName);
}  // namespace coterie::contract
