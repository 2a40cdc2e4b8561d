// What the instance reconciler knows of one service: the wanted (its object), the seen (its instances), and what it waits for. Internal to
// src/controller.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocation/width.h"
#include "base/cpu_set.h"
#include "controller/allocation_port.h"
#include "controller/backoff.h"
#include "controller/memory.h"
#include "controller/service_plan.h"
#include "model/ids.h"
#include "model/objects.h"
#include "model/value.h"
#include "ports/clock.h"
#include "ports/container_runtime.h"
#include "ports/model_files.h"
#include "tenancy/quota.h"

namespace coterie::controller {

struct InstanceRecord {
  InstanceId id;
  InstanceState state{InstanceState::Starting};
  std::string version;  // of the model and of all that a process keeps for life
  int width{1};         // threads of one run
  bool placed{false};   // the allocator knows it
  TenantName tenant;
  std::string sha256;
  std::string measuredAs;  // under which name its memory is remembered
  Bytes limit;
  std::shared_ptr<const PreparedModel> prepared;  // over which it runs; null: it loads the file
  WallTime started;
  Instant servingSince{};  // valid from Serving on
  std::string silence;     // why it is out of the rotation though it serves; empty: it answers
  int progress{0};         // percent of loading
  InstanceReady ready;     // valid from Ready on
  CpuSet home;             // as the allocator placed it
  CpuSet loans;
  TimerHandle drainTimeout;
  [[nodiscard]] bool loaded() const { return state == InstanceState::Ready || state == InstanceState::Serving || state == InstanceState::Draining; }
};

// Why a service has no (further) instance, in the words of a condition.
struct Obstacle {
  std::string condition;  // whose condition it is: "ModelLoaded", "Allocated", "Ready"
  std::string reason;     // CamelCase
  std::string message;
  friend bool operator==(const Obstacle&, const Obstacle&) = default;
};

struct Inspection {
  std::string root;  // what was asked for
  std::string path;
  Bytes largest;                             // that was allowed to be read
  std::unique_ptr<ModelInspection> pending;  // the question under way
  bool again{false};                         // the answer may be out of date
  std::optional<Result<ModelFile>> answer;
  Instant answered{};
  [[nodiscard]] bool unread() const { return answer && answer->ok() && answer->value().sha256.empty(); }
};

// What the last instances were started with.
struct ServedModel {
  std::string uri;
  std::string sha256;                         // empty: none yet
  std::optional<std::uint64_t> externalMark;  // nullopt: not known, it was another run of the program
};

// What a service is promised of the machine's CPUs.
struct CpuClaim {
  MilliCpu floor;
  Isolation isolation{Isolation::None};
  friend bool operator==(const CpuClaim&, const CpuClaim&) = default;
};

// By how many threads one request of a service is run, what is known of its run times, and what was seen of its load.
struct WidthRecord {
  int inForce{1};                                     // of instances that are started from now on
  int recalled{1};                                    // in force when the program ended
  std::string sha256;                                 // of the model that all below is about
  std::vector<allocation::RunTime> curve;             // ascending; may be width 1 alone
  bool measured{false};                               // other widths were timed, too
  bool inPlace{false};                                // the times are of runs over a prepared form
  std::shared_ptr<const PreparedModel> prepared;      // over which instances run that are started from now on; null: each loads the file
  bool unpreparable{false};                           // it was tried, and is not again before the spec changes
  allocation::WidthWatch watch{1};                    // over the windows
  std::optional<Instant> windowEnd;                   // of the one under way
  std::int64_t looks{0};                              // in it
  std::int64_t arrivals{0};                           // sum of milli-requests per second over them
  int mostAtOnce{0};                                  // waiting and running, in it
  int quietLooks{0};                                  // in a row, without a request
  std::optional<allocation::WidthQuestion> question;  // of the last whole window
  std::optional<allocation::WidthChoice> choice;
  std::string held;        // why the choice is not followed; empty: it is
  std::string unmeasured;  // why other widths were not timed, though that was tried; empty: it was not, or they were
  Instant measureAgain{};  // not before
  int failed{0};           // a width whose instance did not come up; 0: none
};

struct ServiceRecord {
  GroupId group;
  ModelService service;  // the last sound spec
  std::string uid;
  std::int64_t generation{0};  // of that spec
  std::int64_t created{0};
  bool deleted{false};
  std::optional<TenantName> tenant;
  std::optional<Obstacle> invalid;  // the stored spec does not decode
  Inspection inspection;
  ServedModel model;
  std::string changedFile;  // not empty: the file changed under the same spec, and its new instances are not loaded yet
  std::string version;      // wanted; empty: not known (yet)
  MemoryNeed memory;
  WidthRecord width;
  bool admitted{false};  // its claim counts
  CpuClaim admittedClaim;
  tenancy::ServiceUse admittedUse;  // what its tenant's quota is charged
  std::optional<ServiceGroup> toldGroup;
  int proposed{0};  // by automation; 0: none
  int desired{0};
  int granted{0};               // of them, when its tenant was last within its quota: what it may keep and start again
  bool overQuota{false};        // it may not grow beyond that now
  std::vector<Bytes> reserved;  // limits of instances that failed and are to be started again: nobody else gets that memory meanwhile
  Backoff backoff;
  int restarts{0};
  std::optional<InstanceEnd> lastEnd;     // that was no stop
  std::vector<InstanceRecord> instances;  // ascending id
  std::vector<Obstacle> obstacles;        // of the last pass, most telling first
  std::vector<Condition> conditions;
  std::optional<Value> writtenStatus;                 // as the store has it; nullopt: not known
  std::map<std::string, std::string> toldConditions;  // by type: what the last event about it said
  std::string toldGateway;                            // fingerprint of what the gateway knows
};

}  // namespace coterie::controller
