#include "linux/cpu_rivals.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace coterie::linux {
namespace {

class ProcRoot {
 public:
  ProcRoot() { path_ = ::mkdtemp(path_.data()); }
  ~ProcRoot() { std::filesystem::remove_all(path_); }
  ProcRoot(const ProcRoot&) = delete;
  ProcRoot& operator=(const ProcRoot&) = delete;
  void process(const std::string& pid, const std::string& name, const std::string& commandLine) {
    std::filesystem::create_directories(path() + "/" + pid);
    std::ofstream(path() + "/" + pid + "/comm") << name << "\n";
    std::ofstream(path() + "/" + pid + "/cmdline") << commandLine;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_{::testing::TempDir() + "coterie_proc_XXXXXX"};
};

TEST(CpuRivals, NamesWhoIsKnownToSetCpus) {
  using namespace std::string_literals;
  ProcRoot proc;
  proc.process("812", "kubelet", "/usr/bin/kubelet\0--config=/x\0"s);
  proc.process("1000", "nri-resource-po", "/bin/nri-resource-policy-balloons\0"s);
  proc.process("900", "coterie", "/opt/coterie\0serve\0--data-dir\0/x\0"s);
  proc.process("901", "coterie", "/opt/coterie\0worker\0"s);
  proc.process("902", "coterie", "coterie\0get\0nodes\0"s);
  proc.process("77", "coterie", "coterie\0agent\0"s);
  proc.process("78", "coterie", "build/coterie\0--state\0/x\0serve\0--port\0000\0"s);
  proc.process("5", "kubelet-like", "kubelet-like\0"s);
  proc.process("6", "bash", "");
  proc.process("self", "kubelet", "");
  EXPECT_EQ(cpuRivals(900, proc.path(), std::nullopt), "coterie (pid 77), coterie (pid 78), kubelet (pid 812), nri-resource-policy (pid 1000)");
}

// An agent that observed beside one that enforced was named as who sets the CPUs, while it was a taskset that nobody knows.
TEST(CpuRivals, AnAgentThatObservesIsNone) {
  using namespace std::string_literals;
  ProcRoot proc;
  proc.process("77", "coterie", "coterie\0agent\0"s);
  proc.process("78", "coterie", "coterie\0agent\0--mode\0enforce\0"s);
  proc.process("79", "coterie", "coterie\0serve\0"s);
  EXPECT_EQ(cpuRivals(1, proc.path(), std::vector<int>{78}), "coterie (pid 78), coterie (pid 79)");
  EXPECT_EQ(cpuRivals(1, proc.path(), std::vector<int>{}), "coterie (pid 79)");
  EXPECT_EQ(cpuRivals(1, proc.path(), std::nullopt), "coterie (pid 77), coterie (pid 78), coterie (pid 79)") << "it cannot be told";
}

TEST(CpuRivals, WithoutProcessesThereAreNone) { EXPECT_EQ(cpuRivals(1, "/nonexistent"), ""); }

}  // namespace
}  // namespace coterie::linux
