#include "subject.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "active_loop.h"
#include "bench_node.h"
#include "http/asio_loop.h"
#include "scenario.h"
#include "testing/bench_report.h"

namespace coterie::in_node {

namespace {

constexpr int kRequestsPerCpu = 2;

Result<allocation::PolicyName> parsePolicy(const std::string& name) {
  using allocation::PolicyName;
  if (name == "drc") return PolicyName::Drc;
  if (name == "none-single") return PolicyName::NoneSingle;
  if (name == "none-multi") return PolicyName::NoneMulti;
  if (name == "cm-single") return PolicyName::CpuManagerSingle;
  if (name == "cm-multi") return PolicyName::CpuManagerMulti;
  return Error{Code::InvalidArgument, "UnknownPolicy", "policy " + name};
}

class SubjectRun final : public BenchNode::Events {
 public:
  SubjectRun(SharedPage& page, std::string policy, Threads threads, std::vector<Arrival> arrivals)
      : page_(page),
        loop_(inner_, page),
        node_(inner_, loop_, *this),
        policy_(std::move(policy)),
        threads_(threads),
        arrivals_(std::move(arrivals)),
        ready_(arrivals_.size(), false) {}

  int run() {
    if (const Status status = start(); !status) failed(status.error().message);
    inner_.run();
    return 0;
  }

  void serviceReady(std::size_t service) override;
  void failed(const std::string& message) override {
    std::snprintf(page_.failure.data(), page_.failure.size(), "%s", message.c_str());
    page_.state.store(SubjectState::Failed);
  }

 private:
  Status start();
  void arrive();
  void atActiveTime(std::size_t service, Instant due, std::function<void()> callback);
  void beginLoad(std::size_t service);
  void loadFinished();

  SharedPage& page_;
  http::AsioLoop inner_;
  ActiveLoop loop_;
  BenchNode node_;
  std::string policy_;
  Threads threads_;
  std::vector<Arrival> arrivals_;
  std::vector<bool> ready_;
  std::vector<TimerHandle> timers_;
  bool fixedWork_{false};
  std::size_t finished_{0};
  Instant began_{};
};

Status SubjectRun::start() {
  const auto policy = parsePolicy(policy_);
  if (!policy) return policy.error();
  BenchNode::Options options{"in-node", {}};
  options.allocation.policy = *policy;
  if (const Status status = node_.start(options, arrivals_.size()); !status) return status;
  fixedWork_ = arrivals_.front().requests > 0;
  arrive();
  return {};
}

void SubjectRun::arrive() {
  began_ = loop_.clock().now();
  timers_.resize(arrivals_.size());
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    const auto begin = [this, i] {
      const Form form = formOf({policy_, threads_}, static_cast<int>(arrivals_.size()), node_.cpus());
      if (const Status status = node_.startService(i, arrivals_[i].model, form); !status) failed(status.error().message);
    };
    atActiveTime(i, began_ + Nanos(static_cast<std::int64_t>(arrivals_[i].startSeconds * 1e9)), begin);
  }
}

// Timers know nothing of freezes: one that fires too early is set again.
void SubjectRun::atActiveTime(std::size_t service, Instant due, std::function<void()> callback) {
  const Nanos left = due - loop_.clock().now();
  if (left <= Nanos{}) return callback();
  timers_[service] = inner_.after(left, [this, service, due, callback = std::move(callback)] { atActiveTime(service, due, callback); });
}

// Fixed work starts when its own service is ready; otherwise all begin together, when the last one is.
void SubjectRun::serviceReady(std::size_t service) {
  ready_[service] = true;
  if (fixedWork_) {
    beginLoad(service);
  } else if (std::find(ready_.begin(), ready_.end(), false) != ready_.end()) {
    return;
  } else {
    for (std::size_t i = 0; i < arrivals_.size(); ++i) beginLoad(i);
  }
  page_.state.store(SubjectState::Ready);
}

void SubjectRun::beginLoad(std::size_t service) {
  ClosedLoopOptions options;
  options.outstanding = kRequestsPerCpu * node_.cpus();
  options.requests = arrivals_[service].requests;
  node_.beginLoad(service, page_.services[service], options, [this] { loadFinished(); });
}

void SubjectRun::loadFinished() {
  if (++finished_ < arrivals_.size()) return;
  page_.finishedAt.store((loop_.clock().now() - began_).count());
  page_.state.store(SubjectState::Finished);
}

}  // namespace

int subjectMain(int argc, char** argv) {
  const int fd = std::atoi(testing::benchOption(argc, argv, "page", "-1").c_str());
  void* memory = ::mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return 1;
  ::close(fd);
  const auto threads = parseThreads(testing::benchOption(argc, argv, "threads", "follow"));
  const auto services = parseServices(testing::benchOption(argc, argv, "services", ""));
  if (!threads || !services || services->empty() || services->size() > kMaxServices) return 2;
  return SubjectRun(*static_cast<SharedPage*>(memory), testing::benchOption(argc, argv, "policy", "drc"), *threads, *services).run();
}

}  // namespace coterie::in_node
