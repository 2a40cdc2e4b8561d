#include "elastic_node.h"

namespace coterie::elastic {

namespace {
constexpr Seconds kLoadTime{60};
}

Status ElasticNode::start(std::size_t services) { return node_.start({"elastic", {}}, services); }

Status ElasticNode::serve(std::size_t service, const std::string& model) {
  in_node::Form form;
  form.ownLanes = node_.cpus();
  form.loanLanes = node_.cpus();
  if (const Status started = node_.startService(service, model, form); !started) return started;
  loop_.runUntil([&] { return ready_.count(service) > 0 || !failure_.empty(); }, kLoadTime);
  if (!failure_.empty()) return Error{Code::Unavailable, "NodeFailed", failure_};
  if (ready_.count(service) == 0) return Error{Code::DeadlineExceeded, "NotReady", model + " was not ready within a minute"};
  return {};
}

Status ElasticNode::pass(Nanos time) {
  if (time > Nanos{}) loop_.runUntil([&] { return !failure_.empty(); }, time);
  if (!failure_.empty()) return Error{Code::Unavailable, "NodeFailed", failure_};
  return {};
}

}  // namespace coterie::elastic
