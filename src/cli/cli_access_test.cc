// Who one is to the server, what one may do, and acting with a key, as people type it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/cli_fixture.h"
#include "identity/key_format.h"

namespace coterie::cli {
namespace {

class CliAccess : public Cli {
 protected:
  // A file of a key of tenant audio.
  std::string keyFile(Role role, mode_t mode = 0600) {
    const std::string key = identity::formatKey(identity::randomKeyId(), identity::randomSecret());
    identity::Identity caller;
    caller.tenant = TenantName("audio");
    caller.role = role;
    caller.keyId = "key-1";
    onLoop([&] { backend_.callers[key] = caller; });
    const std::string path = file(std::string(roleName(role)) + ".key", key + "\n");
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  void applyVideo() {
    ASSERT_EQ(run({"tenant", "create", "video"}).code, kOk);
    ASSERT_EQ(
        run({"apply", "-f", "-"},
            "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata: {name: clip, namespace: video}\nspec: {model: {uri: \"file:a.onnx\"}}\n")
            .code,
        kOk);
  }
};

TEST_F(CliAccess, AKeyFileActsWithItsRole) {
  applyAudio();
  applyVideo();
  const std::string admin = keyFile(Role::TenantAdmin);
  const std::string observer = keyFile(Role::Observe);
  EXPECT_EQ(run({"get", "modelservices", "-o", "name"}).out, "modelservice/audio/notes\nmodelservice/audio/speech\nmodelservice/video/clip\n");
  EXPECT_EQ(run({"--key-file", admin, "get", "modelservices", "-o", "name"}).out, "modelservice/audio/notes\nmodelservice/audio/speech\n");
  EXPECT_EQ(run({"get", "tenants", "-o", "name", "--key-file", observer}).out, "tenant/audio\n");
  EXPECT_EQ(run({"--key-file", admin, "get", "service/video/clip"}).code, kNotFound);
  EXPECT_EQ(run({"--key-file", admin, "scale", "audio/speech", "--instances", "2"}).code, kOk);
  const auto refused = run({"--key-file", observer, "scale", "audio/speech", "--instances", "3"});
  EXPECT_EQ(refused.code, kFailed);
  EXPECT_NE(refused.err.find("role observe may not update ModelService: needed is role tenant-admin"), std::string::npos) << refused.err;
  EXPECT_EQ(run({"--key-file", admin, "key", "create", "audio", "--role", "observe"}).code, kOk);
  EXPECT_EQ(run({"--key-file", admin, "key", "create", "video"}).code, kNotFound);
  EXPECT_EQ(run({"__complete", "--key-file", admin, "get", "services", ""}).out, "audio/notes\naudio/speech\nnotes\nspeech\n");
}

TEST_F(CliAccess, AKeyFileThatOthersMayReadIsRefused) {
  const auto said = [&](const std::string& path) {
    const auto ran = run({"--key-file", path, "whoami"});
    EXPECT_NE(ran.code, kOk);
    return ran.err;
  };
  EXPECT_NE(said(keyFile(Role::Infer, 0640)).find("chmod 600"), std::string::npos);
  EXPECT_NE(said(keyFile(Role::Infer, 0604)).find("InsecurePermissions"), std::string::npos);
  EXPECT_NE(said(folder_ + "/none.key").find("cannot be read"), std::string::npos);
  EXPECT_NE(said(folder_).find("it is no file"), std::string::npos);
  const std::string cut = file("cut.key", "ctk_abc\n");
  ASSERT_EQ(::chmod(cut.c_str(), 0600), 0);
  EXPECT_NE(said(cut).find("cut.key"), std::string::npos);
  EXPECT_EQ(said(cut).find("ctk_abc"), std::string::npos) << "no part of a key in a message";
}

TEST_F(CliAccess, SaysWhoOneIs) {
  applyAudio();
  const auto root = run({"whoami"});
  EXPECT_EQ(root.code, kOk);
  EXPECT_NE(root.out.find("role    platform-admin\n"), std::string::npos) << root.out;
  EXPECT_EQ(root.out.find("tenant"), std::string::npos) << root.out;
  const auto key = run({"--key-file", keyFile(Role::Observe), "whoami"});
  EXPECT_NE(key.out.find("role    observe\ntenant  audio\nkey     key-1, does not expire\n"), std::string::npos) << key.out;
  EXPECT_NE(run({"whoami", "-o", "json"}).out.find("\"role\": \"platform-admin\""), std::string::npos);
}

TEST_F(CliAccess, SaysWhatOneMayAndWhy) {
  applyAudio();
  applyVideo();
  const std::string admin = keyFile(Role::TenantAdmin);
  const auto yes = run({"can-i", "delete", "tenant", "audio"});
  EXPECT_EQ(yes.code, kOk);
  EXPECT_EQ(yes.out, "yes: role platform-admin may delete Tenant audio\n");
  const auto no = run({"--key-file", admin, "can-i", "delete", "tenant", "audio"});
  EXPECT_EQ(no.code, kFailed);
  EXPECT_EQ(no.out, "no: role tenant-admin may not delete Tenant: needed is role platform-admin\n");
  EXPECT_EQ(run({"--key-file", admin, "can-i", "update", "modelservices"}).out, "yes: role tenant-admin may update ModelService of its own tenant\n");
  EXPECT_EQ(run({"--key-file", admin, "can-i", "update", "ms", "video/clip"}).code, kFailed);
  EXPECT_EQ(run({"--key-file", admin, "can-i", "update", "modelservice", "video/clip"}).out,
            "no: update ModelService video/clip: it is not tenant audio's, and answers as if it did not exist\n");
  EXPECT_EQ(run({"can-i", "infer", "model", "audio/speech", "--tenant", "audio", "--role", "observe"}).code, kFailed);
  EXPECT_EQ(run({"can-i", "infer", "model", "speech", "-n", "audio", "--tenant", "audio", "--role", "infer"}).code, kOk);
  EXPECT_NE(run({"can-i", "fly", "model"}).err.find("verbs are get, list"), std::string::npos);
}

TEST_F(CliAccess, ATenantComesWithAQuotaAndAFirstKey) {
  const auto made = run({"tenant", "create", "audio", "--preset", "team", "--weight", "300"});
  EXPECT_EQ(made.code, kOk) << made.err;
  EXPECT_NE(made.out.find("tenant/audio created\n"), std::string::npos);
  EXPECT_NE(made.out.find("export COTERIE_URL=http://127.0.0.1:8000 COTERIE_KEY=ctk_secret\n"), std::string::npos) << made.out;
  EXPECT_NE(made.out.find("/v2/repository/index -H @- <<< "), std::string::npos) << "the key is no word of curl's: " << made.out;
  ASSERT_EQ(backend_.keys.size(), 1U);
  EXPECT_EQ(backend_.keys[0].role, Role::Infer);
  const auto spec = run({"get", "tenant", "audio", "-o", "yaml"}).out;
  for (const char* line : {"weight: 300", "services: 20", "requestsPerSecond: 500", "concurrentRequests: 64", "namespaces:"})
    EXPECT_NE(spec.find(line), std::string::npos) << line << "\n" << spec;
  EXPECT_EQ(run({"tenant", "create", "mine", "--preset", "small", "--cpus", "3"}).code, kOk);
  EXPECT_NE(run({"get", "tenant", "mine", "-o", "yaml"}).out.find("services: 3"), std::string::npos);
  EXPECT_NE(run({"tenant", "create", "mine2", "-o", "json"}).out.find("\"key\": \"ctk_secret\""), std::string::npos);
  EXPECT_EQ(run({"tenant", "create", "dry", "--dry-run"}).out, "tenant/dry created (dry run)\n");
  EXPECT_EQ(backend_.keys.size(), 3U) << "a dry run makes no key";
  EXPECT_EQ(run({"tenant", "create", "heavy", "--weight", "99999"}).code, kFailed);
}

// docs/tenancy.md shows the numbers that are written.
TEST_F(CliAccess, PresetsAreAsDocumented) {
  std::ifstream docs(COTERIE_SOURCE_DIR "/docs/tenancy.md");
  int rows = 0;
  for (std::string line; std::getline(docs, line);) {
    std::vector<std::string> columns;
    std::istringstream in(line);
    for (std::string column; std::getline(in, column, '|');) {
      const std::size_t begin = column.find_first_not_of(' ');
      columns.push_back(begin == std::string::npos ? "" : column.substr(begin, column.find_last_not_of(' ') - begin + 1));
    }
    if (columns.size() != 8 || (columns[1] != "small" && columns[1] != "team")) continue;
    ++rows;
    ASSERT_EQ(run({"tenant", "create", columns[1], "--preset", columns[1]}).code, kOk);
    const std::string spec = run({"get", "tenant", columns[1], "-o", "yaml"}).out;
    const std::vector<std::string> fields{"cpus", "memory", "services", "requestsPerSecond", "concurrentRequests", "queuedBytes"};
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::size_t at = spec.find("  " + fields[i] + ": ");
      ASSERT_NE(at, std::string::npos) << fields[i] << "\n" << spec;
      std::string value = spec.substr(at + fields[i].size() + 4, spec.find('\n', at) - at - fields[i].size() - 4);
      std::erase(value, '"');
      EXPECT_EQ(value, columns[2 + i]) << columns[1] << " " << fields[i];
    }
  }
  EXPECT_EQ(rows, 2);
}

TEST_F(CliAccess, LimitsAreShownWithTheirUse) {
  using tenancy::LimitKind;
  applyAudio();
  applyVideo();
  onLoop([&] {
    backend_.limitLines = {{TenantName("audio"), {}, {LimitKind::RequestRate, 50, 100, 7, 3}},
                           {TenantName("audio"), {}, {LimitKind::QueuedBytes, 1 << 20, 0, 512, 0}},
                           {TenantName("audio"), {}, {LimitKind::QueuedRequests, 0, 0, 4, 0}},
                           {TenantName("audio"), ServiceName{"video", "clip"}, {LimitKind::QueuedTime, 2'500'000'000, 0, 1'250'000'000, 9}},
                           {TenantName("video"), {}, {LimitKind::Concurrency, 5, 0, 5, 1}}};
  });
  EXPECT_EQ(run({"limits", "-n", "audio"}).out,
            "TENANT  SERVICE     LIMIT              VALUE          USED  MET\n"
            "audio   all         requestsPerSecond  50, burst 100  7     3\n"
            "audio   all         queuedBytes        1Mi            512B  0\n"
            "audio   all         queuedRequests     none           4     0\n"
            "audio   video/clip  queuedSeconds      2.5            1.25  9\n");
  EXPECT_NE(run({"limits"}).out.find("video   all         concurrentRequests"), std::string::npos) << run({"limits"}).out;
  EXPECT_NE(run({"limits", "-o", "json"}).out.find("\"queuedSeconds\""), std::string::npos);
  const std::string observer = keyFile(Role::Observe);
  EXPECT_EQ(run({"--key-file", observer, "limits"}).out, run({"limits", "-n", "audio"}).out);
  EXPECT_EQ(run({"--key-file", observer, "limits", "-n", "video"}).code, kNotFound);
  EXPECT_EQ(run({"limits", "-n", "nobody"}).code, kNotFound);
  EXPECT_EQ(run({"--key-file", keyFile(Role::Infer), "limits"}).code, kFailed);
}

}  // namespace
}  // namespace coterie::cli
