// limits: what bounds each tenant's requests, what of it is used now, and how often it was met.
#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <string>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/references.h"
#include "cli/table.h"
#include "objects/quantity.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

struct LimitOptions {
  std::string tenant;
  std::string output{"table"};
};

std::string amountText(tenancy::LimitKind kind, std::int64_t amount) {
  const bool bytes = kind == tenancy::LimitKind::QueuedBytes || kind == tenancy::LimitKind::InFlightBytes;
  return bytes ? objects::bytesText(Bytes(amount)) : tenancy::limitText(kind, amount);
}

std::string valueText(const tenancy::LimitUse& use) {
  if (use.limit == 0) return "none";
  const std::string value = amountText(use.kind, use.limit);
  return use.burst > 0 && use.burst != use.limit ? fmt::format("{}, burst {}", value, use.burst) : value;
}

int limits(Context& context, const LimitOptions& options) {
  const auto value = context.server().get("/admin/v1/limits" + (options.tenant.empty() ? "" : "?tenant=" + percentEncode(options.tenant)));
  if (!value.ok()) return context.fail(value.error());
  std::ostream& out = context.terminal.out;
  if (options.output == "json") return out << text::printJson(*value, text::JsonStyle::Indented) << "\n", kOk;
  Table table({"TENANT", "SERVICE", "LIMIT", "VALUE", "USED", "MET"});
  const Value* items = value->find("items");
  if (items != nullptr && items->asList() != nullptr) {
    for (const Value& item : *items->asList()) {
      const admin::LimitLine line = admin::decodeLimit(item);
      const bool full = line.use.limit > 0 && line.use.used >= (line.use.burst > 0 ? line.use.burst : line.use.limit);
      table.add({line.tenant.value,
                 line.service ? line.service->path() : "all",
                 std::string(tenancy::limitName(line.use.kind)),
                 valueText(line.use),
                 {amountText(line.use.kind, line.use.used), full ? Style::Bad : Style::Plain},
                 std::to_string(line.use.hits)});
    }
  }
  if (table.empty())
    context.terminal.err << "No tenants.\n";
  else
    table.print(out, context.terminal.colors);
  return kOk;
}

}  // namespace

Command makeLimits() {
  const auto options = std::make_shared<LimitOptions>();
  return {"limits",
          "Insight",
          "Show the limits of each tenant's requests, what is used of them now, and how often each was met",
          "coterie limits\n  coterie limits -n audio",
          {{"-n,--tenant", "of this tenant alone", &options->tenant, {}, Names::Tenants, false}, outputOption(&options->output, {"table", "json"})},
          {},
          [options](Context& context) { return limits(context, *options); }};
}

}  // namespace coterie::cli
