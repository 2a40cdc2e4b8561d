#include "node_subject.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "linux/cgroup_paths.h"
#include "linux/files.h"

namespace coterie::agent_bench {

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr Millis kWarmUp{50};
constexpr Seconds kPatience{60};

constexpr std::array<const char*, 3> kCares{"none", "sets", "threads"};
const char* nameOf(Care care) { return kCares[static_cast<std::size_t>(care)]; }

void pause(Nanos time) { ::poll(nullptr, 0, static_cast<int>(std::chrono::ceil<Millis>(time).count())); }

enum class Cgroups : std::uint8_t { Shared, Hidden };

// One machine has one enforcing agent, and here two are there, one of them frozen: each gets a mount namespace in which the machine's cgroups cannot
// be reached, so that it is alone on what it sees as one. The servers have no cgroups of their own, so nothing else is different.
bool hideCgroups() {
  const std::string root = linux::cpusetRoot(linux::readText("/proc/self/mountinfo").value_or(""));
  return root.empty() || (::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                          ::mount("none", root.c_str(), "tmpfs", 0, nullptr) == 0);
}

// Ends with this process; its output goes to a file.
pid_t launch(const std::vector<std::string>& words, const std::string& output, Cgroups cgroups = Cgroups::Shared) {
  std::vector<std::string> copy = words;
  std::vector<char*> pointers;
  for (std::string& word : copy) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file < 0) ::_exit(127);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  if (cgroups == Cgroups::Hidden && !hideCgroups()) {
    ::perror("a mount namespace without cgroups");
    ::_exit(127);
  }
  ::execvp(pointers[0], pointers.data());
  ::_exit(127);
}

bool hasTold(const std::string& folder, int servers) {
  std::size_t told = 0;
  std::error_code fault;
  for (const auto& entry : std::filesystem::directory_iterator(folder, fault)) told += entry.path().extension() == ".json" ? 1 : 0;
  return told >= static_cast<std::size_t>(servers);
}

}  // namespace

NodeSubject::NodeSubject(Setup setup, Care care) : setup_(std::move(setup)), care_(care), folder_(setup_.folder + "/" + nameOf(care)) {
  ::mkdir(folder_.c_str(), 0755);
  for (const char* tenant : tenantsOf(setup_.servers)) progress_.push_back(std::make_unique<Progress>(folder_ + "/" + tenant + ".progress"));
  // Every server is told, so that one knows when all are placed; but without hints they do not look there.
  std::ofstream(folder_ + "/agent.yaml") << config();
}

// The first tenant weighs as much as the two others. Nothing is lent: who is frozen looks idle.
std::string NodeSubject::config() const {
  std::string text = "tenants:\n";
  for (const char* tenant : tenantsOf(setup_.servers))
    text += fmt::format("  - {{name: {}, weight: {}}}\n", tenant, tenant == kTenants[0] ? 200 : 100);
  text += "groups:\n";
  for (const char* tenant : tenantsOf(setup_.servers)) {
    text += fmt::format("  - name: {0}/server\n    tenant: {0}\n    lend: never\n    members: [{{command: \"*--server {1}/{0}.progress *\"}}]\n",
                        tenant, folder_);
    if (care_ == Care::None) continue;
    text += fmt::format("    hints: {{file: \"{}/{}-{{pid}}.json\"{}}}\n", folder_, tenant, care_ == Care::SetsAndThreads ? ", signal: SIGUSR1" : "");
  }
  return text;
}

Result<std::unique_ptr<NodeSubject>> NodeSubject::start(const Setup& setup, Care care) {
  std::unique_ptr<NodeSubject> subject(new NodeSubject(setup, care));
  auto tree = testing::FreezableProcess::start(nameOf(care),
                                               {setup.self, "--tree", subject->folder_, setup.coterie, setup.library, setup.model,
                                                std::to_string(setup.threads), nameOf(care), std::to_string(setup.servers)},
                                               {});
  if (!tree) return tree.error();
  subject->tree_ = std::move(tree).value();
  if (const Status ready = subject->waitReady(); !ready) return ready.error();
  if (const Status frozen = subject->tree_->freeze(); !frozen) return frozen.error();
  return subject;
}

Status NodeSubject::waitReady() {
  const auto until = SteadyClock::now() + kPatience;
  const auto all = [&](const std::vector<long>& before) {
    const auto now = runs();
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i] < before[i] + 3) return false;
    }
    return true;
  };
  const auto await = [&](const auto& done) {
    while (!done() && SteadyClock::now() < until && tree_->running()) pause(Millis(20));
    return done();
  };
  bool ready = await([&] { return all(std::vector<long>(progress_.size())); });
  if (ready && care_ != Care::None) {
    ready = await([&] { return hasTold(folder_, setup_.servers); });
    const auto placed = runs();  // with its new threads, too
    ready = ready && await([&] { return all(placed); });
  }
  if (ready) return {};
  std::ifstream output(folder_ + "/output");
  return Error{
      Code::Unavailable, "NotReady",
      std::string("the servers of ") + nameOf(care_) + " do not work: " + std::string{std::istreambuf_iterator<char>(output), {}}.substr(0, 2000)};
}

std::vector<long> NodeSubject::runs() const {
  std::vector<long> all(progress_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = progress_[i]->runs();
  return all;
}

Result<Slice> NodeSubject::slice(Nanos length) {
  if (const Status thawed = tree_->thaw(); !thawed) return thawed.error();
  pause(kWarmUp);
  const auto before = runs();
  const double cpuBefore = tree_->cpuSeconds();
  const auto from = SteadyClock::now();
  pause(length);
  const auto after = runs();
  const double cpuAfter = tree_->cpuSeconds();
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - from).count();
  if (const Status frozen = tree_->freeze(); !frozen) return frozen.error();
  if (!tree_->running()) return Error{Code::Unavailable, "NotReady", std::string("the servers of ") + nameOf(care_) + " ended"};
  Slice slice;
  for (std::size_t i = 0; i < after.size(); ++i) slice.rates.push_back(static_cast<double>(after[i] - before[i]) / seconds);
  slice.cpus = (cpuAfter - cpuBefore) / seconds;
  return slice;
}

Result<std::string> NodeSubject::foretold(Seconds window) {
  if (const Status thawed = tree_->thaw(); !thawed) return thawed.error();
  const std::string output = folder_ + "/foretold.txt";
  ::unlink(output.c_str());
  const pid_t agent = launch({setup_.coterie, "--state", folder_ + "/observer", "agent", "--config", folder_ + "/agent.yaml", "--mode", "observe",
                              "--once", "--window", std::to_string(window.count()), "-o", "json"},
                             output);
  int status = 0;
  ::waitpid(agent, &status, 0);
  if (const Status frozen = tree_->freeze(); !frozen) return frozen.error();
  std::ifstream file(output);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return Error{Code::Unavailable, "NotReady", "the observing agent failed: " + text};
  return text;
}

int runTree(const std::vector<std::string>& arguments) {
  if (arguments.size() != 7) return 2;
  const std::string& folder = arguments[0];
  for (const char* tenant : tenantsOf(std::atoi(arguments[6].c_str()))) {
    const std::string hint = arguments[5] == "threads" ? folder + "/" + tenant + "-{pid}.json" : folder + "/none";
    launch({"/proc/self/exe", "--server", folder + "/" + tenant + ".progress", hint, arguments[2], arguments[3], arguments[4]}, folder + "/output");
  }
  if (arguments[5] != "none") {
    launch({arguments[1], "--state", folder + "/state", "agent", "--config", folder + "/agent.yaml", "--mode", "enforce", "--log-level", "error",
            "--window", "3600"},
           folder + "/output", Cgroups::Hidden);
  }
  int status = 0;
  ::wait(&status);  // none is to end
  return 1;
}

}  // namespace coterie::agent_bench
