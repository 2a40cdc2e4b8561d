// Commands that explain, hand out keys, infer and complete; and the words of the output.
#include "cli/cli.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/cli_fixture.h"
#include "cli/context.h"
#include "cli/duration.h"
#include "cli/line_diff.h"
#include "cli/table.h"
#include "http/server_fixture.h"

namespace coterie::cli {
namespace {

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
  EXPECT_NE(list.out.find("id0  audio   infer  ci"), std::string::npos) << list.out;
  EXPECT_EQ(list.out.find("ctk_"), std::string::npos);
  EXPECT_EQ(run({"key", "rotate", "id0", "--overlap", "1h"}).out, "ctk_new\n");
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
