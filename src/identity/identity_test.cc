#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "identity/key_format.h"
#include "identity/key_store.h"

namespace coterie::identity {
namespace {

namespace fs = std::filesystem;
const TenantName kAudio("audio");
const TenantName kDocuments("documents");
WallTime at(std::int64_t seconds) { return {1'700'000'000'000'000 + seconds * 1'000'000}; }

class KeysTest : public ::testing::Test {
 protected:
  KeysTest() {
    std::string pattern = (fs::temp_directory_path() / "coterie-keys-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    umask_ = ::umask(0);  // the files' privacy must not depend on it
    open();
  }
  ~KeysTest() override {
    fs::remove_all(folder);
    ::umask(umask_);
  }
  void open() {
    store.reset();
    auto opened = KeyStore::open(folder);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    store = std::move(*opened);
  }
  std::string openError() {
    store.reset();
    const auto opened = KeyStore::open(folder);
    return opened.ok() ? "" : opened.error().reason;
  }
  NewKey make(const TenantName& tenant = kAudio, std::optional<Seconds> lifetime = {}, Role role = Role::Infer) {
    auto made = store->create(tenant, role, "test", lifetime, at(0));
    EXPECT_TRUE(made.ok());
    return *made;
  }
  // The tenant that the key speaks for, or the reason of the refusal.
  std::string who(const std::string& key, WallTime now = at(1)) {
    const auto identity = store->snapshot()->authenticate(key, now);
    return identity.ok() ? identity->tenant.value : identity.error().reason;
  }
  void execute(const std::string& sql) const {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(file("keys.db").c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
    sqlite3_close(handle);
  }
  [[nodiscard]] std::string file(const char* name) const { return folder + "/" + name; }
  static unsigned mode(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }

  std::string folder;
  std::unique_ptr<KeyStore> store;

 private:
  mode_t umask_;
};

// --- The text ---

TEST(KeyFormat, Crc32IsTheUsualOne) { EXPECT_EQ(crc32("123456789"), 0xcbf43926U); }

TEST(KeyFormat, Base62) {
  const std::array<std::uint8_t, 4> ones{255, 255, 255, 255};
  EXPECT_EQ(toBase62(ones, 6), "4gfFC3");  // 2^32 - 1
  const std::array<std::uint8_t, 2> small{0, 61};
  EXPECT_EQ(toBase62(small, 4), "000z");
}

TEST(KeyFormat, RoundTrip) {
  const std::string id = randomKeyId();
  const std::string secret = randomSecret();
  const std::string key = formatKey(id, secret);
  EXPECT_EQ(key.size(), kKeyLength);
  const auto parts = parseKey(key);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->id, id);
  EXPECT_EQ(parts->secret, secret);
}

TEST(KeyFormat, IdsAndSecretsDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    seen.insert(randomKeyId());
    seen.insert(randomSecret());
  }
  EXPECT_EQ(seen.size(), 2000U);
}

TEST(KeyFormat, EverySingleTypingErrorIsSeenBeforeAnyLookUp) {
  const std::string key = formatKey(randomKeyId(), randomSecret());
  for (std::size_t i = 0; i < key.size(); ++i) {
    std::string wrong = key;
    wrong[i] = key[i] == 'a' ? 'b' : 'a';
    const auto parts = parseKey(wrong);
    ASSERT_FALSE(parts.ok()) << i;
    EXPECT_EQ(parts.error().code, Code::Unauthenticated);
    EXPECT_EQ(parts.error().message.find(key.substr(17, 20)), std::string::npos);  // no secret in a message
    if (i + 1 == key.size()) continue;
    std::string swapped = key;
    std::swap(swapped[i], swapped[i + 1]);
    EXPECT_EQ(parseKey(swapped).ok(), swapped == key) << i;
  }
  EXPECT_EQ(parseKey(key.substr(0, key.size() - 1)).error().reason, "MalformedKey");
  EXPECT_EQ(parseKey("").error().reason, "MalformedKey");
  EXPECT_EQ(parseKey(key + " ").error().reason, "MalformedKey");
  EXPECT_EQ(parseKey(std::string(kKeyLength, '\0')).error().reason, "MalformedKey");
}

RC_GTEST_PROP(KeyFormatProperty, AnyBytesAreRefusedNotCrashedOn, ()) {
  auto text = *rc::gen::arbitrary<std::string>();
  RC_ASSERT(!parseKey(text).ok());
  text.resize(kKeyLength, '_');
  text.replace(0, 4, "ctk_");
  RC_ASSERT(!parseKey(text).ok());
}

// --- The store ---

TEST_F(KeysTest, AKeySpeaksForItsTenant) {
  const NewKey audio = make(kAudio);
  const NewKey documents = make(kDocuments);
  EXPECT_EQ(who(audio.key), "audio");
  EXPECT_EQ(who(documents.key), "documents");
  EXPECT_EQ(store->snapshot()->authenticate(audio.key, at(1))->keyId, audio.info.id);
}

TEST_F(KeysTest, WrongSecretUnknownIdRevokedAndExpiredAnswerAlike) {
  const NewKey key = make();
  const NewKey brief = make(kAudio, Seconds(10));
  EXPECT_EQ(who(formatKey(key.info.id, randomSecret())), "InvalidKey");
  EXPECT_EQ(who(formatKey(randomKeyId(), randomSecret())), "InvalidKey");
  EXPECT_EQ(who(brief.key, at(9)), "audio");
  EXPECT_EQ(who(brief.key, at(10)), "InvalidKey");
  ASSERT_TRUE(store->revoke(key.info.id, at(2)).ok());
  EXPECT_EQ(who(key.key), "InvalidKey");
  const auto refused = store->snapshot()->authenticate(key.key, at(3));
  EXPECT_EQ(refused.error(), store->snapshot()->authenticate(formatKey(randomKeyId(), randomSecret()), at(3)).error());
}

TEST_F(KeysTest, OneKeysSecretIsNotAnothers) {
  const NewKey a = make(kAudio);
  const NewKey b = make(kDocuments);
  const std::string mixed = formatKey(a.info.id, parseKey(b.key)->secret);
  EXPECT_EQ(who(mixed), "InvalidKey");
}

TEST_F(KeysTest, ARevokeIsInForceAtOnceAlsoForAThreadThatKeepsAsking) {
  const NewKey key = make();
  std::atomic<bool> revoked{false};
  std::atomic<int> acceptedAfter{0};
  std::atomic<int> asked{0};
  std::thread gateway([&] {
    for (int after = 0; after < 100;) {
      const bool was = revoked.load();
      const bool accepted = store->snapshot()->authenticate(key.key, at(1)).ok();
      if (was) {
        ++after;
        acceptedAfter += accepted ? 1 : 0;
      }
      ++asked;
    }
  });
  while (asked < 10) std::this_thread::yield();
  EXPECT_TRUE(store->revoke(key.info.id, at(1)).ok());
  revoked = true;
  gateway.join();
  EXPECT_EQ(acceptedAfter, 0);
}

TEST_F(KeysTest, RotationKeepsTheOldSecretForItsOverlapOnly) {
  const NewKey first = make();
  const auto second = store->rotate(first.info.id, Seconds(60), at(100));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->info.id, first.info.id);
  EXPECT_NE(second->key, first.key);
  EXPECT_EQ(who(first.key, at(159)), "audio");
  EXPECT_EQ(who(second->key, at(159)), "audio");
  EXPECT_EQ(who(first.key, at(160)), "InvalidKey");
  EXPECT_EQ(who(second->key, at(160)), "audio");
  const auto third = store->rotate(first.info.id, Seconds(0), at(110));
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(who(first.key, at(111)), "InvalidKey");    // still older: ended
  EXPECT_EQ(who(second->key, at(111)), "InvalidKey");  // no overlap
  EXPECT_EQ(who(third->key, at(111)), "audio");
  ASSERT_TRUE(store->revoke(first.info.id, at(112)).ok());
  EXPECT_EQ(store->rotate(first.info.id, Seconds(1), at(113)).error().reason, "KeyRevoked");
}

TEST_F(KeysTest, RevokingWithinAnOverlapEndsBothSecrets) {
  const NewKey first = make();
  const auto second = store->rotate(first.info.id, Seconds(1000), at(1));
  ASSERT_TRUE(store->revoke(first.info.id, at(2)).ok());
  EXPECT_EQ(who(first.key, at(3)), "InvalidKey");
  EXPECT_EQ(who(second->key, at(3)), "InvalidKey");
}

TEST_F(KeysTest, ListShowsNoSecretAndFiltersByTenant) {
  const NewKey a = make(kAudio);
  make(kDocuments);
  EXPECT_EQ(store->list({}).size(), 2U);
  const auto mine = store->list(kAudio);
  ASSERT_EQ(mine.size(), 1U);
  EXPECT_EQ(mine[0].id, a.info.id);
  EXPECT_EQ(mine[0].label, "test");
  EXPECT_EQ(mine[0].created, at(0));
}

TEST_F(KeysTest, EverythingSurvivesReopening) {
  const NewKey kept = make();
  const NewKey gone = make();
  const NewKey rotated = make();
  const NewKey brief = make(kAudio, Seconds(10));
  ASSERT_TRUE(store->revoke(gone.info.id, at(1)).ok());
  const auto fresh = store->rotate(rotated.info.id, Seconds(60), at(1));
  open();
  EXPECT_EQ(who(kept.key), "audio");
  EXPECT_EQ(who(gone.key), "InvalidKey");
  EXPECT_EQ(who(rotated.key, at(60)), "audio");
  EXPECT_EQ(who(rotated.key, at(61)), "InvalidKey");
  EXPECT_EQ(who(fresh->key, at(61)), "audio");
  EXPECT_EQ(who(brief.key, at(10)), "InvalidKey");
}

TEST_F(KeysTest, ATenantsKeysEndWithIt) {
  const NewKey a = make(kAudio);
  const NewKey b = make(kDocuments);
  make(kAudio);
  const auto revoked = store->revokeAll(kAudio, at(1));
  EXPECT_EQ(*revoked, 2);
  EXPECT_EQ(who(a.key), "InvalidKey");
  EXPECT_EQ(who(b.key), "documents");
}

TEST_F(KeysTest, KeysRevokedLongAgoAreForgottenWhenOneIsMade) {
  const Seconds hour(3600);
  const NewKey kept = make();
  const NewKey expired = make(kAudio, Seconds(60));  // never revoked: who knows whether the clock is right
  const NewKey revoked = make();
  const NewKey brief = make(kAudio, Seconds(300));
  ASSERT_TRUE(store->revoke(revoked.info.id, at(10)).ok());
  ASSERT_TRUE(store->revoke(brief.info.id, at(10)).ok());
  const auto idsAfterCreatingAt = [&](Seconds time) {
    EXPECT_TRUE(store->create(kDocuments, Role::Infer, "x", {}, at(time.count())).ok());
    std::set<std::string> ids;
    for (const KeyInfo& info : store->list(kAudio)) ids.insert(info.id);
    return ids;
  };
  EXPECT_EQ(idsAfterCreatingAt(Seconds(9) + hour).size(), 4U);
  EXPECT_EQ(idsAfterCreatingAt(Seconds(10) + hour), (std::set<std::string>{kept.info.id, expired.info.id, revoked.info.id}));
  EXPECT_EQ(idsAfterCreatingAt(Seconds(10) + 24 * 30 * hour), (std::set<std::string>{kept.info.id, expired.info.id}));
  open();
  EXPECT_EQ(store->list(kAudio).size(), 2U) << "nor do they come back";
  EXPECT_EQ(who(kept.key), "audio");
  EXPECT_EQ(who(revoked.key), "InvalidKey");
}

TEST_F(KeysTest, FaultsNameTheFix) {
  EXPECT_EQ(store->revoke("nope", at(0)).error().reason, "KeyNotFound");
  EXPECT_EQ(store->rotate("nope", Seconds(1), at(0)).error().code, Code::NotFound);
  EXPECT_EQ(store->create(TenantName(""), Role::Infer, "x", {}, at(0)).error().reason, "InvalidKeyField");
  EXPECT_EQ(store->create(kAudio, Role::PlatformAdmin, "x", {}, at(0)).error().message,
            "role: no key can be platform-admin; choose observe, infer or tenant-admin");
  EXPECT_EQ(store->create(kAudio, Role::Infer, std::string(65, 'x'), {}, at(0)).error().reason, "InvalidKeyField");
  EXPECT_EQ(store->create(kAudio, Role::Infer, "a\nb", {}, at(0)).error().reason, "InvalidKeyField");
  EXPECT_EQ(store->create(kAudio, Role::Infer, "x", Seconds(0), at(0)).error().reason, "InvalidKeyField");
  EXPECT_TRUE(store->create(kAudio, Role::Infer, "x", Seconds(std::numeric_limits<std::int64_t>::max()), at(0)).ok());
}

// --- The files ---

TEST_F(KeysTest, FilesArePrivateWhateverTheUmask) {
  make();
  for (const char* name : {"pepper", "keys.db", "keys.db-wal"}) EXPECT_EQ(mode(file(name)), 0600U) << name;
}

TEST_F(KeysTest, NoSecretIsOnDisk) {
  const std::string secret(parseKey(make().key)->secret);
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_EQ(bytes.find(secret), std::string::npos) << entry.path();
    EXPECT_EQ(bytes.find(secret.substr(0, 16)), std::string::npos) << entry.path();
  }
}

TEST_F(KeysTest, FilesThatOthersMayReadAreRefused) {
  for (const char* name : {"pepper", "keys.db"}) {
    ::chmod(file(name).c_str(), 0640);
    EXPECT_EQ(openError(), "InsecurePermissions") << name;
    ::chmod(file(name).c_str(), 0600);
  }
  open();
}

TEST_F(KeysTest, ALinkInPlaceOfTheFileIsRefused) {
  store.reset();
  fs::rename(file("pepper"), file("elsewhere"));
  fs::create_symlink(file("elsewhere"), file("pepper"));
  EXPECT_EQ(openError(), "KeysUnavailable");
}

TEST_F(KeysTest, AMissingPepperIsNotSilentlyMadeAnew) {
  make();
  store.reset();
  fs::remove(file("pepper"));
  EXPECT_EQ(openError(), "PepperMissing");
  EXPECT_FALSE(fs::exists(file("pepper")));
}

TEST_F(KeysTest, AnotherPepperIsNoticedAtStart) {
  store.reset();
  std::ofstream(file("pepper"), std::ios::binary | std::ios::in) << std::string(32, 'x');
  EXPECT_EQ(openError(), "PepperMismatch");
  std::ofstream(file("pepper"), std::ios::binary | std::ios::trunc) << std::string(31, 'x');
  EXPECT_EQ(openError(), "KeysCorrupt");
}

TEST_F(KeysTest, ADamagedFileIsRefusedNotEmptied) {
  make();
  store.reset();
  std::ofstream(file("keys.db"), std::ios::binary | std::ios::trunc) << std::string(8192, 'x');
  EXPECT_EQ(openError(), "KeysCorrupt");
  EXPECT_EQ(fs::file_size(file("keys.db")), 8192U);
}

TEST_F(KeysTest, AFileOfANewerCoterieIsLeftAlone) {
  store.reset();
  execute("PRAGMA user_version=3");
  EXPECT_EQ(openError(), "KeysTooNew");
}

// The database of the time before roles, as it was written then: its keys could infer and read of models, so they are `infer`.
TEST_F(KeysTest, KeysOfTheOldSchemaAreInferAndWorkAsBefore) {
  const NewKey old = make();
  const NewKey revoked = make();
  ASSERT_TRUE(store->revoke(revoked.info.id, at(1)).ok());
  store.reset();
  execute("ALTER TABLE keys DROP COLUMN role; PRAGMA user_version=1;");
  open();
  ASSERT_EQ(store->list(kAudio).size(), 2U);
  EXPECT_EQ(store->list(kAudio)[0].role, Role::Infer);
  const auto identity = store->snapshot()->authenticate(old.key, at(2));
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->role, Role::Infer);
  EXPECT_EQ(who(revoked.key), "InvalidKey");
  const NewKey observer = make(kAudio, {}, Role::Observe);  // and the file takes the new ones
  open();
  EXPECT_EQ(store->snapshot()->authenticate(observer.key, at(2))->role, Role::Observe);
}

TEST_F(KeysTest, AKeyHasTheRoleThatItWasMadeWithAlsoAfterRotation) {
  for (const Role role : kKeyRoles) {
    const NewKey key = make(kAudio, {}, role);
    const auto rotated = store->rotate(key.info.id, Seconds(0), at(1));
    ASSERT_TRUE(rotated.ok());
    open();
    EXPECT_EQ(store->snapshot()->authenticate(rotated->key, at(2))->role, role);
  }
}

// Somebody who may write the file gives himself no more than a key can have.
TEST_F(KeysTest, ARoleThatNoKeyCanHaveIsDamage) {
  make();
  for (const char* role : {"platform-admin", "", "root"}) {
    store.reset();
    execute(std::string("UPDATE keys SET role='") + role + "'");
    EXPECT_EQ(openError(), "KeysCorrupt") << role;
  }
}

TEST_F(KeysTest, AnIdentityHoldsAsLongAsItsSecret) {
  const NewKey rotated = make();
  const NewKey revoked = make();
  const NewKey brief = make(kAudio, Seconds(10));
  std::vector<Identity> identities;
  for (const NewKey* key : {&rotated, &revoked, &brief}) identities.push_back(*store->snapshot()->authenticate(key->key, at(1)));
  const auto valid = [&](int seconds) {
    std::string out;
    for (const Identity& identity : identities) out += store->snapshot()->stillValid(identity, at(seconds)) ? 'y' : 'n';
    return out;
  };
  EXPECT_EQ(valid(2), "yyy");
  ASSERT_TRUE(store->rotate(rotated.info.id, Seconds(3), at(2)).ok());
  ASSERT_TRUE(store->revoke(revoked.info.id, at(2)).ok());
  EXPECT_EQ(valid(4), "yny");
  EXPECT_EQ(valid(5), "nny");
  EXPECT_EQ(valid(10), "nnn");
}

TEST_F(KeysTest, AWriteThatFailsChangesNothing) {
  const NewKey key = make();
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{1, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &none);
  const auto made = store->create(kAudio, Role::Infer, "x", {}, at(1));
  const Status revoked = store->revoke(key.info.id, at(1));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_FALSE(made.ok());
  EXPECT_FALSE(revoked.ok());
  EXPECT_EQ(who(key.key), "audio");
  EXPECT_EQ(store->list({}).size(), 1U);
  ASSERT_TRUE(store->revoke(key.info.id, at(2)).ok());  // and it works again
  EXPECT_EQ(who(key.key), "InvalidKey");
}

TEST_F(KeysTest, TwoProcessesCannotHaveItOpen) {
  make();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto second = KeyStore::open(folder);
    ::_exit(!second.ok() && second.error().reason == "KeysInUse" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const NewKey still = make();  // the first one is not disturbed
  EXPECT_EQ(who(still.key), "audio");
}

// A key that was shown must work after kill -9; a revoke that returned must hold.
TEST_F(KeysTest, AcknowledgedWritesSurviveKillMinusNine) {
  store.reset();
  for (int round = 0; round < 10; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto opened = KeyStore::open(folder);
      if (!opened.ok()) ::_exit(1);
      while (true) {
        const auto made = (*opened)->create(kAudio, Role::Infer, "kill", {}, at(0));
        if (!made.ok() || ::write(pipe[1], made->key.data(), kKeyLength) != static_cast<ssize_t>(kKeyLength)) ::_exit(1);
      }
    }
    ::close(pipe[1]);
    std::string last(kKeyLength, '\0');
    for (int i = 0; i <= round; ++i) ASSERT_EQ(::read(pipe[0], last.data(), kKeyLength), static_cast<ssize_t>(kKeyLength));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::string more(kKeyLength, '\0');
    while (::read(pipe[0], more.data(), kKeyLength) == static_cast<ssize_t>(kKeyLength)) last = more;
    ::close(pipe[0]);
    open();
    EXPECT_EQ(who(last), "audio") << round;
    store.reset();
  }
}

// Structure, not stopwatch: an unknown id does the same hashing and comparing, so both ways cost the same number of HMACs. Measured in CPU time over
// many calls, with a wide margin, to catch an early return.
TEST_F(KeysTest, UnknownIdsCostWhatKnownOnesCost) {
  const NewKey key = make();
  const std::string wrong = formatKey(key.info.id, randomSecret());
  const std::string unknown = formatKey(randomKeyId(), randomSecret());
  const auto table = store->snapshot();
  const auto cost = [&](const std::string& text) {
    timespec before{};
    timespec after{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (int i = 0; i < 2000; ++i) EXPECT_FALSE(table->authenticate(text, at(1)).ok());
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    return static_cast<double>(after.tv_sec - before.tv_sec) * 1e9 + static_cast<double>(after.tv_nsec - before.tv_nsec);
  };
  double least = 1e9;
  for (int i = 0; i < 20 && least > 1.2; ++i) {
    const double known = cost(wrong);
    const double other = cost(unknown);
    least = std::min(least, std::max(known, other) / std::min(known, other));
  }
  EXPECT_LE(least, 1.2);
}

}  // namespace
}  // namespace coterie::identity
