// A `coterie serve` of its own for a bench: a state folder that goes with it, objects applied and keys made by the command line, as anybody would.
//
// Errors end the program with what the server or the command said: there is nothing to measure then. One at a time. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace coterie::fairness {

class BenchServer {
 public:
  // models: tenant/file without .onnx, each a name that the generator knows (testing/onnx_writer.h).
  explicit BenchServer(const std::vector<std::string>& models);
  ~BenchServer();
  BenchServer(const BenchServer&) = delete;
  BenchServer& operator=(const BenchServer&) = delete;

  void start(const std::string& record = "");  // record: a file name in its folder; empty: none
  void stop();
  void apply(const std::string& manifests);
  void waitReady(const std::string& service);
  [[nodiscard]] std::string key(const std::string& tenant);
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] pid_t pid() const { return server_; }
  [[nodiscard]] std::string pathOf(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string command(const std::vector<std::string>& arguments, const std::string& input);

  std::string folder_;
  pid_t server_{-1};
  std::uint16_t port_{0};
};

}  // namespace coterie::fairness
