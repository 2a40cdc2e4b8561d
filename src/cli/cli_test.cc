#include "cli/cli.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "admin/admin_handler.h"
#include "admin/scripted_backend.h"
#include "cli/context.h"
#include "cli/duration.h"
#include "cli/line_diff.h"
#include "cli/table.h"
#include "http/server_fixture.h"
#include "memory/event_table.h"
#include "memory/memory_object_store.h"
#include "model/objects.h"
#include "objects/encode.h"

namespace coterie::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTenantYaml = "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata:\n  name: audio\nspec:\n  namespaces: [audio]\n";

std::string serviceYaml(const std::string& name, const std::string& more = "") {
  return "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata:\n  name: " + name +
         "\n  namespace: audio\nspec:\n  model:\n    uri: file:" + name + ".onnx\n" + more;
}

class Cli : public testing::Test {
 protected:
  struct Ran {
    int code;
    std::string out;
    std::string err;
  };

  Cli() {
    std::string name = testing::TempDir() + "coterie_cli_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    store_.emplace(loop_);
    events_.emplace(loop_.clock());
    handler_.emplace(loop_, *store_, *events_, backend_);
    auto server = http::Server::listenUnix(loop_, folder_ + "/admin.sock", {}, *handler_);
    if (!server.ok()) ADD_FAILURE() << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Cli() override {
    stop();
    fs::remove_all(folder_);
  }

  void stop() {
    if (!thread_.joinable()) return;
    loop_.post([this] {
      server_.reset();
      loop_.stop();
    });
    thread_.join();
  }

  void onLoop(const std::function<void()>& f) {
    std::promise<void> done;
    loop_.post([&] {
      f();
      done.set_value();
    });
    done.get_future().wait();
  }

  Ran run(const std::vector<std::string>& arguments, const std::string& input = "", bool colors = false, std::vector<Command> more = {}) {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    environment_["COTERIE_STATE"] = folder_;
    const Terminal terminal{in, out, err, colors, colors, 80, [this](std::string_view name) {
                              const auto found = environment_.find(std::string(name));
                              return found == environment_.end() ? std::nullopt : std::optional<std::string>(found->second);
                            }};
    const int code = runCli(arguments, terminal, std::move(more));
    return {code, out.str(), err.str()};
  }

  std::string file(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }

  void applyAudio() {
    ASSERT_EQ(run({"apply", "-f", "-"}, std::string(kTenantYaml) + "---\n" + serviceYaml("speech") + "---\n" + serviceYaml("notes")).code, kOk);
  }

  void setReady(const std::string& name, ConditionStatus status, const std::string& reason) {
    onLoop([&] {
      auto object = store_->get({std::string(kModelServiceKind), "audio", name});
      ASSERT_TRUE(object.ok());
      object->status.set("conditions", objects::encodeConditions({{"Ready", status, object->generation, 1'000'000, reason, "why"}}));
      Value instances = Value::emptyList();
      for (const char* cpus : {"0", "1"}) {
        instances.push(Value::emptyMap());
        instances.asList()->back().set("cpus", cpus);
      }
      object->status.set("instances", std::move(instances));
      ASSERT_TRUE(store_->updateStatus(*object).ok());
    });
  }

  std::string folder_;
  std::map<std::string, std::string> environment_;
  http::AsioLoop loop_;
  admin::ScriptedBackend backend_;
  std::optional<memory::MemoryObjectStore> store_;
  std::optional<memory::MemoryEventLog> events_;
  std::optional<admin::AdminHandler> handler_;
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
};

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

TEST_F(Cli, DescribesAndExplains) {
  applyAudio();
  setReady("speech", ConditionStatus::False, "CrashLoop");
  onLoop([this] { (void)events_->append({0, 0, 0, 1, {"ModelService", "audio", "speech"}, "Moved", "to\x1b[31m CPU 1", Value()}); });
  const auto described = run({"describe", "service", "speech"});
  EXPECT_EQ(described.code, kOk) << described.err;
  for (const char* part : {"Name:         speech", "uri: file:speech.onnx", "Ready  False", "CrashLoop", "Instances", "Moved", "to?[31m CPU 1"}) {
    EXPECT_NE(described.out.find(part), std::string::npos) << part << "\n" << described.out;
  }
  const auto tenant = run({"describe", "tenant", "audio"});
  EXPECT_NE(tenant.out.find("speech"), std::string::npos);
  const auto explained = run({"explain", "speech"});
  EXPECT_EQ(explained.code, kOk) << explained.err;
  for (const char* part : {"audio/speech of tenant", "a request is run by 1 thread; proposed: 1 instance, 2 threads a request",
                           "Why so many threads a request?", "no width meets it (ObjectiveNotMet)", "82.0ms", "endless", "Why these CPUs?",
                           "they share a cache (SameL3)", "Why this many?", "Why not more?", "The last change\n"}) {
    EXPECT_NE(explained.out.find(part), std::string::npos) << part << "\n" << explained.out;
  }
  EXPECT_NE(explained.out.find("entitled to 0 CPUs, could use 0 now; floor none, ceiling the machine"), std::string::npos) << explained.out;
  EXPECT_EQ(run({"explain", "speech", "-o", "json"}).out.front(), '{');
}

TEST_F(Cli, ShowsTopEventsAndLogs) {
  applyAudio();
  const auto top = run({"top"});
  EXPECT_EQ(top.code, kOk);
  EXPECT_EQ(top.out.rfind("1.50 of 2.00 CPUs in use, 1 service, DRC on\n", 0), 0U) << top.out;
  onLoop([this] { (void)events_->append({0, 0, 0, 1, {"Tenant", "", "audio"}, "Admitted", "quota holds", Value()}); });
  EXPECT_NE(run({"events"}).out.find("tenant/audio  Admitted  quota holds"), std::string::npos) << run({"events"}).out;
  EXPECT_EQ(run({"events", "--about", "speech"}).err, "No events.\n");
  EXPECT_NE(run({"logs", "speech", "--tail", "2"}).out.find("line 1"), std::string::npos);
}

TEST_F(Cli, KeysGoToStandardOutputAlone) {
  applyAudio();
  const auto created = run({"key", "create", "audio", "--label", "ci"});
  EXPECT_EQ(created.out, "ctk_secret\n");
  EXPECT_NE(created.err.find("shown this once"), std::string::npos);
  const auto list = run({"key", "list"});
  EXPECT_NE(list.out.find("id0  audio   ci"), std::string::npos) << list.out;
  EXPECT_EQ(list.out.find("ctk_"), std::string::npos);
  EXPECT_EQ(run({"key", "rotate", "id0", "--grace", "1h"}).out, "ctk_new\n");
  EXPECT_EQ(run({"key", "revoke", "id0"}).out, "key id0 revoked\n");
  ASSERT_EQ(run({"key", "create", "audio", "--label", "expired", "--expires", "90d"}).code, kOk);  // the script counts from 1970
  const auto none = run({"key", "list"});
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, "No valid keys. coterie key create TENANT makes one.\n2 revoked or expired keys are not shown; --all shows them.\n");
  const auto all = run({"key", "list", "--all"});
  EXPECT_NE(all.out.find("revoked"), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("expired"), std::string::npos) << all.out;
  EXPECT_EQ(run({"key", "create", "video"}).code, kNotFound);
}

TEST_F(Cli, FreezesTheDrc) {
  EXPECT_NE(run({"drc", "off"}).out.find("DRC off"), std::string::npos);
  EXPECT_EQ(backend_.mode, admin::DrcMode::Off);
  EXPECT_NE(run({"drc"}).out.find("DRC off"), std::string::npos);
  EXPECT_NE(run({"drc", "on"}).out.find("DRC on"), std::string::npos);
}

TEST_F(Cli, ShowsVersionsWithAndWithoutAServer) {
  EXPECT_NE(run({"version"}).out.find("runtime ONNX Runtime 1.32.0"), std::string::npos);
  EXPECT_EQ(run({"version", "--client"}).out.find("server"), std::string::npos);
  stop();
  const auto away = run({"version"});
  EXPECT_EQ(away.code, kOk);
  EXPECT_NE(away.err.find("not reachable"), std::string::npos);
}

TEST_F(Cli, InfersByInputsAndByFile) {
  applyAudio();
  std::vector<std::string> bodies;
  http::TestServer gateway([&](const std::shared_ptr<http::RequestContext>& request) {
    request->readAll(1 << 20, [&, request](const Result<std::string>& body) {
      const std::string_view* key = request->head().find("Authorization");
      http::Response response;
      response.contentType = "application/json";
      if (key == nullptr || *key != "Bearer ctk_secret")
        response = http::errorResponse(401, "InvalidKey", "no such key");
      else if (request->head().path == "/v2/models/audio.speech")
        response.body = R"({"name":"speech","inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]}]})";
      else if (request->head().path == "/v2/models/audio.speech/infer") {
        bodies.push_back(*body);
        response.body = R"({"outputs":[{"name":"y","datatype":"FP32","shape":[1,10],"data":[1,2,3,4,5,6,7,8,9,10]}]})";
      } else
        response = http::errorResponse(404, "ModelNotFound", "no such model");
      request->respond(std::move(response));
    });
  });
  onLoop([&] { backend_.gatewayUrl = "http://127.0.0.1:" + std::to_string(gateway.server().port()); });
  const auto ran = run({"infer", "speech", "--input", "x=[[1, 2.5]]"});
  EXPECT_EQ(ran.code, kOk) << ran.err;
  EXPECT_EQ(bodies, std::vector<std::string>{R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[[1,2.5]]}]})"});
  EXPECT_EQ(ran.out, "OUTPUT  DATATYPE  SHAPE   DATA\ny       FP32      [1,10]  1 2 3 4 5 6 7 8 ... (10 values)\n");
  EXPECT_TRUE(backend_.keys.back().revoked.has_value());
  EXPECT_EQ(run({"infer", "speech", "--input", "[[1, 2]]"}).code, kOk);
  EXPECT_EQ(run({"infer", "speech", "--input", "z=[1]"}).code, kUsage);
  EXPECT_EQ(run({"infer", "speech", "-f", "-", "-o", "json"}, R"({"inputs":[]})").code, kOk);
  EXPECT_EQ(bodies.back(), R"({"inputs":[]})");
  environment_["COTERIE_KEY"] = "ctk_other";
  const auto refused = run({"infer", "speech", "-f", "-"}, "{}");
  EXPECT_EQ(refused.code, kFailed);
  EXPECT_NE(refused.err.find("InvalidKey"), std::string::npos);
}

TEST_F(Cli, WatchesUntilTheReaderStops) {
  applyAudio();
  // A reader that goes away after the second line, as `head` does.
  std::istringstream in;
  std::ostringstream err;
  struct Pipe : std::stringbuf {
    std::function<void()> onTable;
    bool told{false};
    int sync() override {
      if (!std::exchange(told, true)) onTable();
      return lines() > 3 ? -1 : 0;
    }
    [[nodiscard]] std::ptrdiff_t lines() const {
      const std::string text = str();
      return std::count(text.begin(), text.end(), '\n');
    }
  } pipe;
  pipe.onTable = [this] { run({"scale", "speech", "--instances", "2"}); };
  std::ostream out(&pipe);
  const Terminal terminal{in, out, err, false, false, 80, [this](std::string_view name) {
                            return name == "COTERIE_STATE" ? std::optional<std::string>(folder_) : std::nullopt;
                          }};
  EXPECT_EQ(runCli({"get", "services", "-w"}, terminal, {}), kOk) << err.str();
  EXPECT_EQ(pipe.lines(), 4);  // header, two services, one change
}

TEST_F(Cli, CompletesCommandsOptionsAndNames) {
  applyAudio();
  EXPECT_EQ(run({"__complete", "de"}).out, "delete\ndescribe\n");
  EXPECT_EQ(run({"__complete", "key", "r"}).out, "revoke\nrotate\n");
  EXPECT_EQ(run({"__complete", "get", "t"}).out, "tenants\n");
  EXPECT_EQ(run({"__complete", "get", "tenants", ""}).out, "audio\n");
  EXPECT_EQ(run({"__complete", "get", "services", "s"}).out, "speech\n");
  EXPECT_EQ(run({"__complete", "get", "services", "-o", "j"}).out, "json\n");
  EXPECT_EQ(run({"__complete", "explain", "audio/"}).out, "audio/notes\naudio/speech\n");
  EXPECT_EQ(run({"__complete", "apply", "--d"}).out, "--dry-run\n");
  EXPECT_EQ(run({"__complete", "drc", "o"}).out, "off\non\n");
  EXPECT_EQ(run({"__complete", "get", "services", "-o", "=", "j"}).out, "json\n");  // as bash splits -o=j
  EXPECT_EQ(run({"__complete", "get", "services", "-o", "="}).out, "json\nname\ntable\nwide\nyaml\n");
  EXPECT_EQ(run({"__complete", "--state", "/nowhere", "get", "services", "s"}).out, "");
  EXPECT_EQ(run({"__complete", "get", "--state", folder_, "services", "s"}).out, "speech\n");
  EXPECT_EQ(run({"__complete", "get", "--state", ""}).out, "");
  EXPECT_EQ(run({"__complete", ""}).out.find("__complete"), std::string::npos);
  EXPECT_NE(run({"completion", "bash"}).out.find("complete -o default -F _coterie coterie"), std::string::npos);
  EXPECT_NE(run({"completion", "bash"}).out.find("\"$1\" __complete"), std::string::npos) << "the program that is typed, on the PATH or not";
  stop();
  EXPECT_EQ(run({"__complete", "explain", ""}).code, kOk);
}

TEST_F(Cli, HelpNamesExitCodesAndTheHandedCommands) {
  std::int64_t port = 8000;
  bool ran = false;
  const Command serve{
      "serve", "Server", "Serve models", "coterie serve", {{"--port", "where", &port, {}, Names::None, false}}, {}, [&](Context& context) {
        EXPECT_EQ(context.stateFolder, "/x");
        return ran = true, 7;
      }};
  const auto help = run({"--help"}, "", false, {serve});
  EXPECT_EQ(help.code, kOk);
  for (const char* part : {"Exit codes:", "serve", "COTERIE_STATE", "apply"}) EXPECT_NE(help.out.find(part), std::string::npos) << part << help.out;
  EXPECT_NE(run({"get", "--help"}).out.find("-o,--output"), std::string::npos);
  EXPECT_EQ(run({"--version"}).out, "coterie 0.1.0\n");
  EXPECT_EQ(run({"serve", "--port", "9", "--state", "/x"}, "", false, {serve}).code, 7);
  EXPECT_EQ(port, 9);
  EXPECT_TRUE(ran);
}

TEST(Words, Durations) {
  EXPECT_EQ(parseDuration("90s"), Seconds(90));
  EXPECT_EQ(parseDuration("5m"), Seconds(300));
  EXPECT_EQ(parseDuration("2h"), Seconds(7200));
  EXPECT_EQ(parseDuration("30d"), Seconds(30 * 86400));
  EXPECT_EQ(parseDuration("250ms"), Millis(250));
  EXPECT_EQ(parseDuration("7"), Seconds(7));
  for (const char* bad : {"", "s", "-1s", "1w", "1.5h", "99999999999d", "5 m"}) EXPECT_EQ(parseDuration(bad), std::nullopt) << bad;
  EXPECT_EQ(ageText(59'000'000), "59s");
  EXPECT_EQ(ageText(192'000'000), "3m12s");
  EXPECT_EQ(ageText(4LL * 3600 * 1'000'000), "4h");
  EXPECT_EQ(ageText(12LL * 86400 * 1'000'000), "12d");
  EXPECT_EQ(ageText(-5), "0s");
  EXPECT_EQ(latencyText(Micros(140)), "0.14ms");
  EXPECT_EQ(latencyText(Millis(1200)), "1.2s");
  EXPECT_EQ(sizeText(Bytes(76LL << 20)), "76.0Mi");
}

TEST(Words, Diffs) {
  EXPECT_TRUE(diffLines("a\nb\n", "a\nb\n").empty());
  EXPECT_EQ(diffLines("a\nb\nc\n", "a\nx\nc\n"), (std::vector<std::string>{" a", "-b", "+x", " c"}));
  EXPECT_EQ(diffLines("", "a\n"), (std::vector<std::string>{"+a"}));
  EXPECT_EQ(diffLines("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n1\n2\n3\n4\n5\n6\n7\n8\nx\n").size(), 10U);
}

}  // namespace
}  // namespace coterie::cli
