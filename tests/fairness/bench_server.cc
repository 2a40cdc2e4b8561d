#include "bench_server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "testing/onnx_writer.h"

namespace coterie::fairness {

namespace {

[[noreturn]] void give(const std::string& why) {
  std::fprintf(stderr, "fairness: %s\n", why.c_str());
  std::exit(1);
}

std::string contentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A child with its output in files; its input is a file too.
pid_t spawn(const std::vector<std::string>& words, const std::string& input, const std::string& output, const std::string& errors) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto open = [](const std::string& path, int flags, int as) {
    const int file = ::open(path.c_str(), flags, 0600);
    if (file < 0 || ::dup2(file, as) < 0) ::_exit(126);
  };
  open(input.empty() ? "/dev/null" : input, O_RDONLY, 0);
  open(output, O_WRONLY | O_CREAT | O_TRUNC, 1);
  open(errors, O_WRONLY | O_CREAT | O_TRUNC, 2);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

}  // namespace

BenchServer::BenchServer(const std::vector<std::string>& models) {
  std::string pattern = (std::filesystem::temp_directory_path() / "coterie-fairness-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) give("no temporary folder");
  folder_ = pattern;
  for (const std::string& model : models) {
    const auto bytes = testing::makeModel(model.substr(model.find('/') + 1));
    if (!bytes) give(bytes.error().message);
    const std::filesystem::path path = std::filesystem::path(folder_) / "models" / (model + ".onnx");
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << *bytes;
  }
}

BenchServer::~BenchServer() {
  stop();
  std::error_code fault;
  std::filesystem::remove_all(folder_, fault);
}

void BenchServer::start(const std::string& record) {
  std::vector<std::string> words{COTERIE_BINARY, "--state", pathOf("state"), "serve", "--models",    pathOf("models"),
                                 "--port",       "0",       "--admin-port",  "0",     "--log-level", "error"};
  if (!record.empty()) words.insert(words.end(), {"--record", pathOf(record)});
  server_ = spawn(words, "", pathOf("out"), pathOf("err"));
  for (int i = 0; i < 1000; ++i) {
    const std::string said = contentOf(pathOf("out"));
    if (const std::size_t at = said.find("gateway http://127.0.0.1:"); at != std::string::npos && said.find('\n') != std::string::npos) {
      port_ = static_cast<std::uint16_t>(std::stoi(said.substr(said.find(':', at + 15) + 1)));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  give("the server does not start: " + contentOf(pathOf("err")));
}

void BenchServer::stop() {
  if (server_ < 0) return;
  ::kill(server_, SIGTERM);
  ::waitpid(server_, nullptr, 0);
  server_ = -1;
}

std::string BenchServer::command(const std::vector<std::string>& arguments, const std::string& input) {
  std::vector<std::string> words{COTERIE_BINARY, "--state", pathOf("state")};
  words.insert(words.end(), arguments.begin(), arguments.end());
  if (!input.empty()) std::ofstream(pathOf("in")) << input;
  int status = 0;
  ::waitpid(spawn(words, input.empty() ? "" : pathOf("in"), pathOf("said"), pathOf("complained")), &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) give("coterie " + arguments[0] + ": " + contentOf(pathOf("complained")));
  return contentOf(pathOf("said"));
}

void BenchServer::apply(const std::string& manifests) { command({"apply", "-f", "-"}, manifests); }
void BenchServer::waitReady(const std::string& service) { command({"wait", "service/" + service, "--timeout", "60s"}, ""); }
std::string BenchServer::key(const std::string& tenant) {
  std::string key = command({"key", "create", tenant}, "");
  while (!key.empty() && key.back() == '\n') key.pop_back();
  return key;
}

}  // namespace coterie::fairness
