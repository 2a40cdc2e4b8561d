// One of the machines that `bench agent` compares: two or three model servers, and an agent that enforces over them or none; a process tree of its
// own that is frozen while another one runs.
//
// Of a slice the first 50 ms after the thaw do not count. Errors: those of FreezableProcess; Unavailable/NotReady. Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model_server.h"
#include "testing/freezable.h"

namespace coterie::agent_bench {

enum class Care : std::uint8_t { None, Sets, SetsAndThreads };
inline constexpr std::array<const char*, 3> kTenants{"red", "green", "blue"};
// The tenants of so many servers, one each.
inline std::span<const char* const> tenantsOf(int servers) { return std::span(kTenants).first(static_cast<std::size_t>(servers)); }

struct Setup {
  std::string self;     // this program
  std::string coterie;  // the product's binary
  std::string library, model;
  std::string folder;  // of this run
  int servers{3};      // 1 to 3
  int threads{2};      // of each of them
};

struct Slice {
  std::vector<double> rates;  // runs per second, by tenant
  double cpus{0};             // CPUs that the tree had
};

class NodeSubject {
 public:
  // Returns when every server has finished runs and, with an agent, every one is where it is wanted; frozen.
  [[nodiscard]] static Result<std::unique_ptr<NodeSubject>> start(const Setup& setup, Care care);

  [[nodiscard]] Result<Slice> slice(Nanos length);
  // What an observing agent foretells while this subject runs alone: its report, in JSON.
  [[nodiscard]] Result<std::string> foretold(Seconds window);
  [[nodiscard]] int pid() const { return tree_->pid(); }

 private:
  NodeSubject(Setup setup, Care care);
  [[nodiscard]] Status waitReady();
  [[nodiscard]] std::string config() const;
  [[nodiscard]] std::vector<long> runs() const;

  Setup setup_;
  Care care_;
  std::string folder_;
  std::vector<std::unique_ptr<Progress>> progress_;
  std::unique_ptr<testing::FreezableProcess> tree_;
};

// The inside of the tree: starts the servers and, where there is a configuration for one, the agent, and waits. Arguments as NodeSubject gives them.
int runTree(const std::vector<std::string>& arguments);

}  // namespace coterie::agent_bench
