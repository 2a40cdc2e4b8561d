// A BenchNode on a loop of its own, driven step by step from a bench's main thread.
//
// Time passes only inside waitReady() and pass(); between them nothing runs. Thread rule: one thread.
#pragma once

#include <set>
#include <string>

#include "bench_node.h"
#include "http/asio_loop.h"

namespace coterie::elastic {

class ElasticNode final : private in_node::BenchNode::Events {
 public:
  ElasticNode() : node_(loop_, loop_, *this) {}

  Status start(std::size_t services);
  // Starts a service and waits until it answers.
  Status serve(std::size_t service, const std::string& model);
  // Lets the loop run. Error: what a part has reported since.
  Status pass(Nanos time);
  Status passUntil(Instant when) { return pass(when - now()); }

  [[nodiscard]] Instant now() const { return loop_.clock().now(); }
  [[nodiscard]] http::AsioLoop& loop() { return loop_; }
  [[nodiscard]] in_node::BenchNode& node() { return node_; }
  [[nodiscard]] CpuSet home(std::size_t service) { return node_.drc().plannedHome(in_node::BenchNode::instanceOf(service, 0)); }

 private:
  void serviceReady(std::size_t service) override { ready_.insert(service); }
  void failed(const std::string& message) override {
    if (failure_.empty()) failure_ = message;
  }

  http::AsioLoop loop_;
  in_node::BenchNode node_;
  std::set<std::size_t> ready_;
  std::string failure_;
};

}  // namespace coterie::elastic
