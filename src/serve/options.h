// What `coterie serve` can be told. Command-line names in serve_command.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_set.h"
#include "base/units.h"
#include "model/cache_class.h"

namespace coterie::serve {

enum class Actuator : std::uint8_t { Auto, Affinity, CgroupV1, CgroupV2 };

struct ServeOptions {
  std::string state;                         // folder of store, keys, sockets; made with mode 0700 if it is not there
  std::string models;                        // model roots: tenant T's is the folder T below it
  std::vector<std::string> manifests;        // files or folders (*.yaml, *.yml, *.json, not below) applied at the start
  bool demoKeys{false};                      // make a key per tenant named "quickstart" and show it with a curl command
  std::string address{"127.0.0.1"};          // of the gateway
  std::uint16_t port{8080};                  // of the gateway; 0: the kernel's choice
  std::string adminAddress{"127.0.0.1"};     // of /metrics, /healthz, /readyz
  std::uint16_t adminPort{8081};             // 0: the kernel's choice
  bool metricsNeedKey{false};                // /metrics asks for a key also on loopback; elsewhere it always does
  bool allowNonLoopback{false};              // clear text may leave this machine
  std::string runtime;                       // ONNX Runtime's shared library
  std::string worker;                        // the worker's binary; empty: this one
  std::string record;                        // a new file for what the stations are told and answer (`coterie replay`); empty: none
  std::string accessLog;                     // a file for a line about each answered inference request; empty: none
  std::optional<CpuSet> reserved;            // CPUs for Coterie itself; not set: none below 8 CPUs
  Actuator actuator{Actuator::Auto};         // how CPU sets are enforced
  bool sandbox{true};                        // off only for debuggers and sanitizer builds
  Bytes requestArena{256LL << 20};           // per service: memory for inputs under way; sparse
  Bytes auditLimit{256LL << 20};             // of the audit log, all its files together
  Bytes recordLimit{std::int64_t{1} << 30};  // of the record
  std::int64_t authFailures{20};             // of one source address at once; then its keys are not looked at (429); 0: no limit
  std::int64_t authFailuresPerSecond{2};     // of one source address after that
  Seconds drainGrace{20};                    // requests under way at the end get this long
  bool quiet{false};                         // no progress bars, no table
  // Of whom caches are divided, where the kernel can.
  CacheClassMode cacheClasses{CacheClassMode::Auto};
};

}  // namespace coterie::serve
