// The admin API over HTTP. Serve it on a Unix socket of mode 0600 in the state folder. Who calls, and what of all this is there for that caller:
// access.h.
//
// Objects (JSON, as Kubernetes has them), below /apis/coterie.dev/v1alpha1; C = tenants, modelservices (all namespaces), namespaces/NS/modelservices:
//   GET  C                         list; ?watch=1[&resourceVersion=N] streams {"type","object"} lines (without N: what is there first)
//   POST C                         create (201)
//   GET, PUT, PATCH, DELETE C/NAME PUT and PATCH (RFC 7396 merge) honour metadata.resourceVersion if it is there; DELETE ?resourceVersion=N
//   GET, PUT C/NAME/status
//   ?dryRun=All                    everything is checked, nothing is written
// What a server tells, below /admin/v1 (forms: admin_backend.h, reports.h):
//   GET version | top | explain/NS/NAME | instances/NS/NAME | drc     PUT drc {"on":bool}
//   GET limits ?tenant=T   GET metrics (Prometheus' text form)
//   GET events ?kind=&namespace=&name=&limit=N&after=SEQ&watch=1       lines if watched
//   GET logs/NS/NAME ?tail=N&follow=1                                 lines of {"time","instance","text"}
//   GET whoami   GET can-i ?verb=&kind=&namespace=&name=&tenant=&role=
//   GET audit ?from=PLACE&since=TIME                                  a page of the audit log: {file, items: lines as they are written, next, last}
//   GET keys ?tenant=T   POST keys {"tenant","role","label","lifetimeSeconds"}   POST keys/ID/rotate {"overlapSeconds"}   DELETE keys/ID
// Errors: {"error","reason"} with the status of the code, for bad objects also "faults": [{path, line, message}].
// Audit: a change is made after the log says so, durably (audit/trail.h), and while it cannot, changes are 503 AuditUnavailable; every 401 and 403 is
// told to it (audit/refusals.h).
// Requests are handled at once; each costs what the store's call costs. Thread rule: the loop's thread, which must be the control loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "admin/access.h"
#include "admin/admin_backend.h"
#include "admin/streams.h"
#include "audit/refusals.h"
#include "audit/trail.h"
#include "base/result.h"
#include "http/server.h"
#include "model/fault.h"
#include "objects/decode.h"
#include "ports/clock.h"
#include "ports/event_log.h"
#include "ports/object_store.h"

namespace coterie::admin {

class AdminHandler final : public http::RequestHandler {
 public:
  static constexpr std::size_t kMaxBody = 4 * 1024 * 1024;

  // serverUser: the user beside root that may connect.
  AdminHandler(EventLoop& loop, ObjectStore& store, EventLog& events, AdminBackend& backend, audit::Trail& trail, std::uint32_t serverUser);
  ~AdminHandler() override;

  void onRequest(const std::shared_ptr<http::RequestContext>& request) override;

 private:
  using Request = std::shared_ptr<http::RequestContext>;
  struct Target;  // a parsed path
  using Segments = std::vector<std::string>;

  void route(const Request& request, const Caller& caller, const std::string& body);
  // admin_handler.cc: what the server tells
  void tell(const Request& request, const Caller& caller, const Segments& path, const std::string& body);
  void tellOfAll(const Request& request, const Caller& caller, const std::string& what);
  void tellOfService(const Request& request, const Caller& caller, const std::string& what, const ServiceName& service);
  void switchController(const Request& request, const Caller& caller, const std::string& body);
  void tellLimits(const Request& request, const Caller& caller);
  void tellEvents(const Request& request, const Caller& caller);
  void tellLogs(const Request& request, const Caller& caller, const ServiceName& service);
  [[nodiscard]] std::function<bool()> validity(const Caller& caller) const;
  // audit_routes.cc
  void tellAudit(const Request& request, const Caller& caller);
  [[nodiscard]] Result<audit::Begun> begin(const Caller& caller, audit::Entry change);
  // True: go on. False: it was answered, and the audit log told.
  [[nodiscard]] bool allowed(const Request& request, const Caller& caller, tenancy::Verb verb, tenancy::Kind kind, std::string_view object = {});
  void refuse(const Request& request, const Caller& caller, const Error& error, std::string_view verb, std::string_view kind,
              std::string_view object);
  // key_routes.cc
  void keys(const Request& request, const Caller& caller, const Segments& path, const std::string& body);
  void listKeys(const Request& request, const Caller& caller);
  void createKey(const Request& request, const Caller& caller, const Value& wanted);
  void rotateKey(const Request& request, const Caller& caller, const std::string& id, Seconds overlap);
  void revokeKey(const Request& request, const Caller& caller, const std::string& id);
  [[nodiscard]] TenantName tenantOfKey(const std::string& id) const;
  [[nodiscard]] Status keyIsThere(const Caller& caller, const std::string& id) const;
  // object_routes.cc
  void objects(const Request& request, const Caller& caller, const Segments& path, const std::string& body);
  void list(const Request& request, const Caller& caller, const Target& target);
  void watch(const Request& request, const Caller& caller, const Target& target);
  void create(const Request& request, const Caller& caller, const Target& target, const std::string& body);
  void replace(const Request& request, const Caller& caller, const Target& target, const std::string& body);
  void patch(const Request& request, const Caller& caller, const Target& target, const std::string& body);
  void write(const Request& request, const Caller& caller, const Target& target, const StoredObject& old, const Value& wanted);
  void remove(const Request& request, const Caller& caller, const Target& target);
  void status(const Request& request, const Caller& caller, const Target& target, const std::string& body);
  [[nodiscard]] Result<objects::AnyObject> decode(const Value& value, const Target& target, Faults& faults) const;

  ObjectStore& store_;
  EventLog& events_;
  AdminBackend& backend_;
  audit::Trail& trail_;
  std::uint32_t serverUser_;
  Streams streams_;
  audit::Refusals refusals_;  // of this API
};

}  // namespace coterie::admin
