// Objects by the command line: applied, shown, found, scaled, waited for, watched, deleted.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/cli.h"
#include "cli/cli_fixture.h"

namespace coterie::cli {
namespace {

TEST_F(Cli, AppliesFoldersAndSaysWhatChanged) {
  file("objects/b.yaml", serviceYaml("speech"));
  file("objects/a.yml", kTenantYaml);
  file("objects/notes.txt", "not read");
  const auto first = run({"apply", "-f", folder_ + "/objects"});
  EXPECT_EQ(first.out, "tenant/audio created\nmodelservice/audio/speech created\n");
  EXPECT_EQ(first.code, kOk) << first.err;
  EXPECT_EQ(run({"apply", "-f", folder_ + "/objects/"}).out, "tenant/audio unchanged\nmodelservice/audio/speech unchanged\n");
  const auto changed = file("objects/b.yaml", serviceYaml("speech", "  weight: 7\n"));
  EXPECT_EQ(run({"apply", "--dry-run", "-f", changed}).out, "modelservice/audio/speech configured (dry run)\n");
  EXPECT_EQ(run({"diff", "-f", changed}).code, kFailed);
  EXPECT_EQ(run({"apply", "-f", changed}).out, "modelservice/audio/speech configured\n");
  const auto same = run({"diff", "-f", changed});
  EXPECT_EQ(same.code, kOk);
  EXPECT_EQ(same.out, "");
}

TEST_F(Cli, AnInputWithoutEndIsRefusedAtTheParsersLimit) {
  const std::string fault = "more than 16777216 bytes in one text";
  const auto endless = run({"apply", "-f", "/dev/zero"});
  EXPECT_EQ(endless.code, kFailed);
  EXPECT_NE(endless.err.find("/dev/zero: " + fault), std::string::npos) << endless.err;
  // A byte order mark is no text, but what follows the limit is not read because of it.
  const std::string blank((std::size_t{16} << 20) - 3, '\n');
  const auto typed = run({"apply", "-f", "-"}, "\xef\xbb\xbf" + blank + kTenantYaml);
  EXPECT_EQ(typed.code, kFailed);
  EXPECT_NE(typed.err.find("standard input: " + fault), std::string::npos) << typed.err;
  EXPECT_EQ(run({"get", "tenants", "-o", "name"}).out, "");
}

// The reconciler writes status at any time: between our look and our write the version moves on without anybody having changed what people wrote.
TEST_F(Cli, ApplyIsNotDisturbedByStatusButByAnotherHandsChange) {
  applyAudio();
  int moves = 3;
  const auto touch = [&](bool spec) {
    auto object = store_->get({std::string(kModelServiceKind), "audio", "speech"});
    ASSERT_TRUE(object.ok());
    if (spec) {
      object->spec.set("minCpus", "500m");
      ASSERT_TRUE(store_->update(*object).ok());
    } else {
      object->status.set("note", std::to_string(moves));
      ASSERT_TRUE(store_->updateStatus(*object).ok());
    }
  };
  backend_.onMeasured = [&](const ServiceName& service) {
    if (service.name == "speech" && moves-- > 0) touch(false);
  };
  const auto done = run({"apply", "-f", "-"}, serviceYaml("speech", "  instances: 2\n"));
  EXPECT_EQ(done.code, kOk) << done.err;
  EXPECT_EQ(done.out, "modelservice/audio/speech configured\n");
  EXPECT_LT(moves, 0);
  bool changed = false;
  backend_.onMeasured = [&](const ServiceName& service) {
    if (service.name == "speech" && !std::exchange(changed, true)) touch(true);
  };
  const auto lost = run({"apply", "-f", "-"}, serviceYaml("speech", "  instances: 1\n"));
  EXPECT_EQ(lost.code, kConflict);
  EXPECT_NE(lost.err.find("ResourceVersionConflict"), std::string::npos) << lost.err;
}

TEST_F(Cli, ADryRunOfTenantAndServicesTogetherIsSound) {
  const auto ran = run({"apply", "--dry-run", "-f", "-"}, std::string(kTenantYaml) + "---\n" + serviceYaml("speech"));
  EXPECT_EQ(ran.code, kOk) << ran.err;
  EXPECT_EQ(run({"get", "all", "-o", "name"}).out, "");
}

TEST_F(Cli, ListsEveryFaultWithFileAndLineAndChangesNothing) {
  const auto bad = file("bad.yaml", std::string(kTenantYaml) + "---\n" + serviceYaml("speech", "  wieght: 1\n  minCpus: x\n"));
  const auto ran = run({"apply", "-f", bad, "-f", folder_ + "/none.yaml"});
  EXPECT_EQ(ran.code, kFailed);
  EXPECT_NE(ran.err.find(bad + ":16: spec.wieght: "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("did you mean weight?"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("spec.minCpus"), std::string::npos);
  EXPECT_NE(ran.err.find("none.yaml: cannot be read"), std::string::npos);
  EXPECT_NE(ran.err.find("nothing was changed"), std::string::npos);
  EXPECT_EQ(run({"get", "tenants", "-o", "name"}).out, "");
}

TEST_F(Cli, ShowsTablesAligned) {
  applyAudio();
  setReady("speech", ConditionStatus::True, "Serving");
  setReady("notes", ConditionStatus::False, "InsufficientCpu");
  const auto table = run({"get", "modelservices"});
  EXPECT_EQ(table.out,
            "NAMESPACE  NAME    READY                    INSTANCES  CPUS  OBJECTIVE  AGE\n"
            "audio      notes   False (InsufficientCpu)  -          0-1   -          0s\n"
            "audio      speech  True                     -          0-1   -          0s\n");
  EXPECT_EQ(run({"get", "tenant"}).out, "NAME   NAMESPACES  WEIGHT  AGE\naudio  audio       100     0s\n");
  EXPECT_NE(run({"get", "ms", "-o", "wide"}).out.find("file:speech.onnx"), std::string::npos);
  EXPECT_EQ(run({"get", "all", "-o", "name"}).out, "tenant/audio\nmodelservice/audio/notes\nmodelservice/audio/speech\n");
  EXPECT_NE(run({"get", "services"}, "", true).out.find("\x1b[32mTrue"), std::string::npos);
  EXPECT_EQ(run({"get", "services", "-n", "nowhere"}).err, "Nothing found in namespace nowhere.\n");
}

TEST_F(Cli, WhatGetPrintsCanBeApplied) {
  applyAudio();
  for (const char* form : {"yaml", "json"}) {
    const auto text = run({"get", "service", "speech", "-o", form});
    EXPECT_EQ(run({"apply", "-f", "-"}, text.out).code, kOk) << text.out;
    const auto list = run({"get", "all", "-o", form});
    // What was read before the write above carries an older version only if something changed; here nothing did.
    EXPECT_EQ(run({"apply", "-f", "-"}, list.out).code, kOk);
  }
}

TEST_F(Cli, FindsObjectsByEveryWayToNameThem) {
  applyAudio();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"service", "speech"}, {"service/speech"}, {"services", "audio/speech"}, {"modelservice/audio/speech"}, {"ms", "speech", "-n", "audio"}}) {
    std::vector<std::string> arguments{"get"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    arguments.insert(arguments.end(), {"-o", "name"});
    EXPECT_EQ(run(arguments).out, "modelservice/audio/speech\n") << words[0];
  }
  environment_["COTERIE_NAMESPACE"] = "other";
  EXPECT_EQ(run({"get", "service", "speech"}).code, kNotFound);
  EXPECT_EQ(run({"get", "services", "-A", "-o", "name"}).out, "modelservice/audio/notes\nmodelservice/audio/speech\n");
}

TEST_F(Cli, ExitCodesTellWhy) {
  applyAudio();
  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string message;
  };
  const std::vector<Case> cases{
      {{"get", "service", "spech"}, kNotFound, "did you mean speech?"},
      {{"get", "tenant", "video"}, kNotFound, "there is no tenant video"},
      {{"get", "pods"}, kUsage, "there is no type pods"},
      {{"gte", "tenants"}, kUsage, "did you mean get?"},
      {{"get", "tenants", "-o", "xml"}, kUsage, "xml"},
      {{"get"}, kUsage, "TYPE"},
      {{"get", "tenants", "--wide"}, kUsage, "--wide"},
      {{"scale", "speech"}, kUsage, "--instances N"},
      {{"scale", "speech", "--instances", "-1"}, kUsage, "--instances: a whole number from 0 (which stops it) to 1000 is wanted, found -1"},
      {{"scale", "speech", "--instances", "1001"}, kUsage, "found 1001"},
      {{"scale", "speech", "--instances", "2", "--auto"}, kUsage, "not both"},
      {{"--state", folder_, "scale", "speech", "--instances", "many"}, kUsage, "see coterie scale --help"},
      {{"--state", folder_, "gte", "tenants"}, kUsage, "there is no command gte"},
      {{"key", "rotate"}, kUsage, "see coterie key rotate --help"},
      {{"events", "--limit", "0"}, kUsage, "--limit: 1 to"},
      {{"logs", "speech", "--tail", "-5"}, kUsage, "--tail: 0 to"},
      {{"key", "create", "nobody"}, kNotFound, "`coterie get tenants` lists them"},
      {{"tenant", "create", "audio", "--namespace", "b"}, kConflict, "AlreadyExists"},
      {{"tenant", "create", "thief", "--namespace", "audio"}, kConflict, "NamespaceTaken"},
      {{"tenant", "create", "UPPER"}, kFailed, "metadata.name"},
      {{"delete", "tenant", "audio"}, kConflict, "TenantNotEmpty"},
      {{"delete", "speech"}, kUsage, "say what speech is"},
      {{"key", "revoke", "nobody"}, kNotFound, "no key nobody"},
      {{"wait", "speech", "--for", "luck"}, kUsage, "--for must be"},
      {{"wait", "speech", "--timeout", "soon"}, kUsage, "--timeout must be"},
      {{"infer", "speech"}, kUsage, "-f FILE"},
      {{"apply"}, kUsage, "--filename"},
      {{"drc", "maybe"}, kUsage, "maybe"},
  };
  for (const auto& [arguments, code, message] : cases) {
    const auto ran = run(arguments);
    EXPECT_EQ(ran.code, code) << arguments[0] << " " << ran.err;
    EXPECT_NE(ran.err.find(message), std::string::npos) << arguments[0] << ": " << ran.err;
    EXPECT_EQ(ran.err.rfind("coterie: ", 0), 0U) << ran.err;
  }
  stop();
  const auto away = run({"get", "tenants"});
  EXPECT_EQ(away.code, kUnreachable);
  EXPECT_NE(away.err.find("coterie serve --state " + folder_), std::string::npos) << away.err;
}

TEST_F(Cli, DeletesServicesBeforeTheirTenant) {
  applyAudio();
  const auto path = file("all.yaml", std::string(kTenantYaml) + "---\n" + serviceYaml("speech") + "---\n" + serviceYaml("notes"));
  EXPECT_EQ(run({"delete", "-f", path, "--dry-run"}).code, kConflict);  // a dry run deletes no service, so the tenant is not empty
  EXPECT_EQ(run({"delete", "-f", path}).out, "modelservice/audio/notes deleted\nmodelservice/audio/speech deleted\ntenant/audio deleted\n");
  EXPECT_EQ(run({"delete", "-f", path}).code, kNotFound);
  EXPECT_EQ(run({"delete", "-f", path, "--ignore-not-found"}).code, kOk);
}

TEST_F(Cli, ScalesAndShowsIt) {
  applyAudio();
  EXPECT_EQ(run({"scale", "speech", "--instances", "3"}).out, "modelservice/audio/speech scaled to 3 instances\n");
  EXPECT_NE(run({"get", "service", "speech", "-o", "yaml"}).out.find("instances: 3"), std::string::npos);
  EXPECT_EQ(run({"scale", "speech", "--auto"}).code, kOk);
  EXPECT_EQ(run({"get", "service", "speech", "-o", "yaml"}).out.find("instances:"), std::string::npos);
}

TEST_F(Cli, WaitsForConditionsAndDeletion) {
  applyAudio();
  setReady("speech", ConditionStatus::True, "Serving");
  EXPECT_EQ(run({"wait", "speech", "--for=condition=Ready"}).out, "modelservice/audio/speech Ready\n");
  const auto late = run({"wait", "notes", "--timeout", "0s"});
  EXPECT_EQ(late.code, kFailed);
  EXPECT_NE(late.err.find("WaitTimeout"), std::string::npos);
  setReady("notes", ConditionStatus::False, "InsufficientCpu");
  EXPECT_NE(run({"wait", "notes", "--timeout", "0s"}).err.find("False (InsufficientCpu): why"), std::string::npos);
  EXPECT_EQ(run({"wait", "notes", "--for=condition=Ready=False"}).code, kOk);
  EXPECT_NE(run({"wait", "notes", "--timeout", "0s", "--for=condition=Redy"}).err.find("has no condition Redy yet (it has Ready)"),
            std::string::npos);
  // Nor does what serves by a former spec.
  for (const char* reason : {"ServingOldSpec", "RollingOut"}) {
    setReady("notes", ConditionStatus::True, reason);
    const auto former = run({"wait", "notes", "--timeout", "0s"});
    EXPECT_EQ(former.code, kFailed) << reason;
    EXPECT_NE(former.err.find("serves by its former spec: why"), std::string::npos) << former.err;
    EXPECT_NE(run({"get", "service", "notes"}).out.find("True (" + std::string(reason) + ")"), std::string::npos);
  }
  // A condition about the spec before the last change does not count.
  run({"scale", "speech", "--instances", "2"});
  EXPECT_EQ(run({"wait", "speech", "--timeout", "0s"}).code, kFailed);
  run({"delete", "service", "speech"});
  EXPECT_EQ(run({"wait", "service/audio/speech", "--for=delete"}).code, kOk);
  EXPECT_EQ(run({"wait", "speech"}).code, kNotFound);
}

// Standard output that is told how many lines it has at each flush, and says whether the reader is still there.
struct Watched : std::stringbuf {
  explicit Watched(std::function<bool(std::ptrdiff_t)> told) : flushed(std::move(told)) {}
  int sync() override { return flushed(lines()) ? 0 : -1; }
  [[nodiscard]] std::ptrdiff_t lines() const {
    const std::string text = str();
    return std::count(text.begin(), text.end(), '\n');
  }
  std::function<bool(std::ptrdiff_t)> flushed;
};

class CliWatch : public Cli {
 protected:
  int watch(Watched& pipe, std::ostream& err) {
    std::istringstream in;
    std::ostream out(&pipe);
    const Terminal terminal{in, out, err, false, false, 80, [this](std::string_view name) {
                              return name == "COTERIE_STATE" ? std::optional<std::string>(folder_) : std::nullopt;
                            }};
    return runCli({"get", "services", "-w"}, terminal, {});
  }
  void scaleOnce() {
    if (!std::exchange(scaled_, true)) run({"scale", "speech", "--instances", "2"});
  }

 private:
  bool scaled_{false};
};

TEST_F(CliWatch, EndsWhenTheReaderStops) {
  applyAudio();
  // A reader that goes away after the second line, as `head` does.
  Watched pipe([this](std::ptrdiff_t lines) {
    scaleOnce();
    return lines <= 3;
  });
  std::ostringstream err;
  EXPECT_EQ(watch(pipe, err), kOk) << err.str();
  EXPECT_EQ(pipe.lines(), 4);  // header, two services, one change
}

// It said nothing and ended as if all had been said; beside a server that was frozen it waited for ever (admin/streams_test.cc has what it hears
// now).
TEST_F(CliWatch, SaysThatTheServerHasEnded) {
  applyAudio();
  Watched pipe([this](std::ptrdiff_t lines) {
    scaleOnce();
    if (lines > 3) stop();
    return true;
  });
  std::ostringstream err;
  EXPECT_EQ(watch(pipe, err), kUnreachable);
  EXPECT_NE(err.str().find("has ended"), std::string::npos) << err.str();
  EXPECT_NE(err.str().find("ServerEnded"), std::string::npos) << err.str();
}

}  // namespace
}  // namespace coterie::cli
