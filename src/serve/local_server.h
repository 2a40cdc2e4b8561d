// Everything of `coterie serve` in one process: store, keys, reconcilers, resource controller, gateway, admin API; worker processes beside it.
//
// create() opens the state and builds the parts in order of need; start() begins to work; requestStop() ends in order: new requests are refused,
// those under way finish within the grace, workers stop, CPUs are given back. The control loop is the calling thread's, so that workers die with it
// and never before (PDEATHSIG follows the thread). The gateway's loop has a thread of its own. Errors of create(): what the parts say, e.g.
// Unavailable/StoreInUse with the pid of the other server, Internal/StoreCorrupt, Conflict/AddressInUse. Thread rule: all on the control loop's
// thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/drc.h"
#include "base/result.h"
#include "controller/instance_reconciler.h"
#include "http/asio_loop.h"
#include "objects/decode.h"
#include "serve/options.h"
#include "serve/startup_view.h"

namespace coterie::serve {

class LocalServer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LocalServer>> create(http::AsioLoop& control, const ServeOptions& options);
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  [[nodiscard]] Status start();
  // Brings the store to what manifests say; before or after start().
  [[nodiscard]] Status apply(const std::vector<objects::AnyObject>& objects);
  // A key per tenant with the label `quickstart`; keys of that label from earlier runs are revoked, since their secrets cannot be shown again.
  [[nodiscard]] Result<std::vector<DemoKey>> makeDemoKeys();
  [[nodiscard]] std::vector<controller::ServiceSummary> services() const;
  [[nodiscard]] std::size_t servicesStored() const;  // ModelServices in the store, whether the reconciler has looked at them or not
  [[nodiscard]] std::vector<agent::GroupView> groups() const;
  [[nodiscard]] std::string url() const;       // of the gateway
  [[nodiscard]] std::string adminUrl() const;  // of the metrics
  // Calls back when everything has ended.
  void requestStop(std::function<void()> stopped);

 private:
  struct Parts;
  explicit LocalServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace coterie::serve
