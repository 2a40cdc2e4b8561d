// An HTTP load generator in a process of its own, so that its CPU time is not the server's.
//
// Closed loop: each connection sends its next request when the last is answered. Open loop (ratePerSecond > 0): requests are due at even (or
// exponential) intervals whether or not earlier ones are answered; the latency counts from when a request was due, so a stalled server is not
// forgiven for what could not be sent. start() forks (call it before threads exist); begin() sends it one task: n keep-alive connections to a
// loopback port, each repeating the same request bytes until the time is over; resultFd() becomes readable when it is done and finish() reads the
// figures. Responses must carry Content-Length. A connection that breaks or a status other than 200 counts as an error; a broken connection is opened
// again. Errors: Unavailable if the process or a connection cannot be made. Thread-compatible. The process ends with this object.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/histogram.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace coterie::testing {

struct HttpLoadTask {
  std::uint16_t port{0};
  int connections{1};
  Nanos duration{Seconds(1)};
  double ratePerSecond{0};  // 0: closed loop
  std::string request;      // head and body
  bool poisson{false};      // open loop: exponential intervals
  Nanos deadline{};         // for inTime
};

struct HttpLoadResult {
  std::int64_t sent{0};
  std::int64_t requests{0};  // answered 200
  std::int64_t errors{0};    // refusals too
  std::int64_t inTime{0};    // of the requests: within the deadline from when they were sent
  Nanos wall{};
  Histogram latency;   // ns, of those answered 200
  Histogram refusals;  // ns from the end of the head to the answer, of those answered otherwise
};

class HttpLoad {
 public:
  [[nodiscard]] static Result<std::unique_ptr<HttpLoad>> start();
  ~HttpLoad();
  HttpLoad(const HttpLoad&) = delete;
  HttpLoad& operator=(const HttpLoad&) = delete;

  [[nodiscard]] Status begin(const HttpLoadTask& task);
  [[nodiscard]] int resultFd() const { return results_.get(); }
  [[nodiscard]] Result<HttpLoadResult> finish();

 private:
  HttpLoad(pid_t child, UniqueFd tasks, UniqueFd results) : child_(child), tasks_(std::move(tasks)), results_(std::move(results)) {}
  pid_t child_;
  UniqueFd tasks_;
  UniqueFd results_;
};

}  // namespace coterie::testing
