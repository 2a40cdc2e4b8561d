// What tests of the command line stand on: an admin API over a Unix socket in a folder of its own, with a store, events and a backend that is told
// what to answer; run() is one command as a person types it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "admin/admin_handler.h"
#include "admin/scripted_backend.h"
#include "cli/cli.h"
#include "http/asio_loop.h"
#include "http/server.h"
#include "memory/event_table.h"
#include "memory/memory_object_store.h"
#include "model/objects.h"
#include "objects/encode.h"
#include "testing/fake_log_folder.h"

namespace coterie::cli {

namespace fs = std::filesystem;

inline constexpr const char* kTenantYaml = "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata:\n  name: audio\nspec:\n  namespaces: [audio]\n";

inline std::string serviceYaml(const std::string& name, const std::string& more = "") {
  return "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata:\n  name: " + name +
         "\n  namespace: audio\nspec:\n  model:\n    uri: file:" + name + ".onnx\n" + more;
}

class Cli : public ::testing::Test {
 protected:
  struct Ran {
    int code;
    std::string out;
    std::string err;
  };

  Cli() {
    std::string name = ::testing::TempDir() + "coterie_cli_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    store_.emplace(loop_);
    events_.emplace(loop_.clock());
    trail_.emplace(auditFolder_, loop_.clock());
    handler_.emplace(loop_, *store_, *events_, backend_, *trail_, ::geteuid());
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
  coterie::testing::FakeLogFolder auditFolder_;
  std::optional<audit::Trail> trail_;
  std::optional<admin::AdminHandler> handler_;
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
};

}  // namespace coterie::cli
