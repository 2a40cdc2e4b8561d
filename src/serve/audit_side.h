// The audit log of a running server: written on the control loop; the gateway's refusals are folded on the gateway's loop and handed over.
//
// Errors of open(): what the folder says (files/disk_log_folder.h). A log that cannot be written is no error: audit/trail.h. Thread rule: each
// function says its loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "audit/refusals.h"
#include "audit/trail.h"
#include "base/result.h"
#include "base/units.h"
#include "gateway/gateway.h"
#include "ports/clock.h"
#include "ports/log_folder.h"

namespace coterie::serve {

class AuditSide {
 public:
  static constexpr int kFiles = 64;

  // limit: of all files together. The loops outlive it.
  [[nodiscard]] static Result<std::unique_ptr<AuditSide>> open(const std::string& folder, Bytes limit, EventLoop& control, EventLoop& gateway);
  AuditSide(std::unique_ptr<LogFolder> folder, Bytes limit, EventLoop& control, EventLoop& gateway);
  ~AuditSide();
  AuditSide(const AuditSide&) = delete;
  AuditSide& operator=(const AuditSide&) = delete;

  [[nodiscard]] audit::Trail& trail() { return trail_; }  // control loop
  // Something that the server does itself: "start", "stop". Control loop.
  void tell(std::string verb, std::string object);
  void denied(const gateway::Denied& denied);  // gateway's loop
  void handOver() { refusals_->flush(); }      // gateway's loop: what is being folded
  // The gateway's loop turns no more, and the control loop may not either: what is left is written now. Control loop's thread.
  void gatewayEnded();

 private:
  void take(std::vector<audit::Entry> lines);

  EventLoop& control_;
  std::unique_ptr<LogFolder> folder_;
  audit::Trail trail_;
  bool ended_{false};  // the gateway's loop: set when nobody else looks at it any more
  std::unique_ptr<audit::Refusals> refusals_;
};

}  // namespace coterie::serve
