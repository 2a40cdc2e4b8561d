// Processes of a machine that is not there: tests begin and end them, and say what their threads do. Passes process_source_contract.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ports/process_source.h"

namespace coterie::testing {

class FakeProcesses final : public ProcessSource {
 public:
  [[nodiscard]] Result<SeenProcesses> scan() override {
    if (unreadable) return Error{Code::Unavailable, "ProcessesUnreadable", "/proc cannot be read"};
    std::vector<SeenProcess> all;
    for (const auto& [pid, process] : processes_) all.push_back(process.seen);
    if (scanned_ == nullptr || *scanned_ != all) scanned_ = std::make_shared<const std::vector<SeenProcess>>(std::move(all));
    return scanned_;
  }
  [[nodiscard]] std::vector<ThreadTimes> threads(int pid) override {
    ++threadLooks;
    const auto found = processes_.find(pid);
    return found == processes_.end() ? std::vector<ThreadTimes>{} : found->second.threads;
  }
  [[nodiscard]] int runnable() override { return atWork; }
  [[nodiscard]] Nanos used() override { return machineUsed; }
  void setCpus(int pid, const CpuSet& cpus) { processes_.at(pid).cpus = cpus; }
  [[nodiscard]] CpuSet cpus(int pid) override {
    const auto found = processes_.find(pid);
    return found == processes_.end() ? CpuSet{} : found->second.cpus;
  }
  [[nodiscard]] Bytes resident(int pid) override {
    const auto found = processes_.find(pid);
    return found == processes_.end() ? Bytes(0) : found->second.resident;
  }

  // A new process of the command; its threads have the ids pid, pid + 1, ...
  // pid 0: any.
  int begin(std::string command, int threads, std::string cgroup = "/", int pid = 0) {
    if (pid == 0) pid = next_ += 100;
    Process& made = processes_[pid];
    made.seen = {pid, 1, static_cast<std::uint64_t>(pid), std::move(command), std::move(cgroup)};
    for (int i = 0; i < threads; ++i) made.threads.push_back({pid + i, {}, {}});
    made.cpus = machine;
    return pid;
  }
  void end(int pid) { processes_.erase(pid); }
  void setResident(int pid, Bytes resident) { processes_.at(pid).resident = resident; }
  // Each thread of the process ran, and waited, for so long.
  void run(int pid, Nanos ran, Nanos waited) {
    for (ThreadTimes& thread : processes_.at(pid).threads) thread.run += ran, thread.waited += waited, machineUsed += ran;
  }

  CpuSet machine{0, 1, 2, 3};
  bool unreadable{false};
  int atWork{0};        // threads of the whole machine
  Nanos machineUsed{};  // by others, too
  int threadLooks{0};   // how often threads() was asked

 private:
  struct Process {
    SeenProcess seen;
    std::vector<ThreadTimes> threads;
    CpuSet cpus;
    Bytes resident{1 << 20};
  };
  std::map<int, Process> processes_;
  SeenProcesses scanned_;
  int next_{100000};
};

}  // namespace coterie::testing
