#include "serve/audit_side.h"

#include <utility>

#include "files/disk_log_folder.h"

namespace coterie::serve {

Result<std::unique_ptr<AuditSide>> AuditSide::open(const std::string& folder, Bytes limit, EventLoop& control, EventLoop& gateway) {
  auto opened = files::DiskLogFolder::open(folder);
  if (!opened) return opened.error();
  return std::make_unique<AuditSide>(std::move(opened).value(), limit, control, gateway);
}

AuditSide::AuditSide(std::unique_ptr<LogFolder> folder, Bytes limit, EventLoop& control, EventLoop& gateway)
    : control_(control),
      folder_(std::move(folder)),
      trail_(*folder_, control.clock(), {Bytes(limit.value / kFiles), kFiles}),
      refusals_(
          std::make_unique<audit::Refusals>(gateway, audit::Through::Gateway, [this](std::vector<audit::Entry> lines) { take(std::move(lines)); })) {}

AuditSide::~AuditSide() { gatewayEnded(); }

void AuditSide::tell(std::string verb, std::string object) {
  audit::Entry entry;
  entry.verb = std::move(verb);
  entry.kind = "Server";
  entry.object = std::move(object);
  trail_.note({std::move(entry)});
}

void AuditSide::denied(const gateway::Denied& denied) {
  const bool known = !denied.keyId.empty();
  refusals_->add(known ? denied.keyId : denied.source, denied.reason, [&] {
    audit::Entry entry;
    entry.actor.kind = known ? audit::Actor::Kind::Key : audit::Actor::Kind::Source;
    entry.actor.id = known ? denied.keyId : denied.source;
    entry.actor.tenant = TenantName(std::string(denied.tenant));
    if (known) entry.actor.role = denied.role;
    entry.verb = denied.verb;
    entry.kind = denied.kind;
    entry.object = denied.model;
    entry.tenant = entry.actor.tenant;
    return entry;
  });
}

void AuditSide::take(std::vector<audit::Entry> lines) {
  if (ended_) return trail_.note(std::move(lines));
  control_.post([this, lines = std::move(lines)] { trail_.note(lines); });
}

void AuditSide::gatewayEnded() {
  ended_ = true;
  refusals_->flush();
}

}  // namespace coterie::serve
