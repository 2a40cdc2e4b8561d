// replay: a record of `coterie serve --record`, decided again. No server is asked.
#include <fmt/format.h>

#include <memory>
#include <ostream>

#include "cli/commands.h"
#include "cli/context.h"
#include "cli/file_content.h"
#include "cli/table.h"
#include "dispatch/replay.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

using dispatch::FreeRunResult;
using dispatch::ReplayResult;
using dispatch::TenantRun;

struct ReplayOptions {
  std::string file;
  bool free{false};
  std::string output{"table"};
};

Value valueOf(const ReplayResult& result) {
  return Value(Value::Map{{"frames", result.frames},
                          {"stations", result.stations},
                          {"arrivals", result.arrivals},
                          {"dispatches", result.dispatches},
                          {"drops", result.drops},
                          {"cutOff", result.cutOff},
                          {"identical", result.identical()},
                          {"firstDifferent", result.different == 0 ? Value() : Value(result.different)},
                          {"difference", result.difference.empty() ? Value() : Value(result.difference)},
                          {"fault", result.fault.empty() ? Value() : Value(result.fault)}});
}

Value valueOf(const TenantRun& run) {
  return Value(Value::Map{{"arrivals", run.arrivals},
                          {"started", run.started},
                          {"slotSeconds", static_cast<double>(run.charged.count()) / 1e9},
                          {"share", run.share},
                          {"medianWaitMs", static_cast<double>(run.medianWait.count()) / 1e6}});
}

Value valueOf(const FreeRunResult& result) {
  Value rows = Value::emptyList();
  for (std::size_t i = 0; i < result.free.size(); ++i) {
    rows.push(Value(Value::Map{{"station", result.free[i].station},
                               {"tenant", result.free[i].tenant},
                               {"recorded", valueOf(result.recorded[i])},
                               {"free", valueOf(result.free[i])}}));
  }
  return rows;
}

void printReplay(std::ostream& out, const ReplayResult& result, bool colors) {
  out << fmt::format("{} stations, {} calls: {} requests came, {} ran, {} were dropped while they waited\n", result.stations, result.frames,
                     result.arrivals, result.dispatches, result.drops);
  if (result.cutOff) out << "the end of the record is cut off, as when a server is killed; what is before it was replayed\n";
  if (!result.fault.empty()) {
    out << styled("cannot be replayed: ", Style::Bad, colors) << printable(result.fault) << "\n";
  } else if (result.different != 0) {
    out << styled(fmt::format("call {} is decided in another way. ", result.different), Style::Bad, colors) << result.difference << "\n";
  } else {
    out << styled("decided the same, byte for byte", Style::Good, colors) << "\n";
  }
}

void printFreeRun(std::ostream& out, const FreeRunResult& result, bool colors) {
  Table table({"STATION", "TENANT", "CAME", "RAN", "RAN (FREE)", "SHARE", "SHARE (FREE)", "MEDIAN WAIT", "MEDIAN WAIT (FREE)"});
  for (std::size_t i = 0; i < result.free.size(); ++i) {
    const TenantRun& then = result.recorded[i];
    const TenantRun& now = result.free[i];
    table.add({printable(then.station), printable(then.tenant), std::to_string(then.arrivals), std::to_string(then.started),
               std::to_string(now.started), fmt::format("{:.3f}", then.share), fmt::format("{:.3f}", now.share), latencyText(then.medianWait),
               latencyText(now.medianWait)});
  }
  out << "\n";
  table.print(out, colors);
}

int run(Context& context, const ReplayOptions& options) {
  const auto bytes = contentOf(options.file);
  if (!bytes) return context.fail(bytes.error());
  const ReplayResult result = dispatch::replay(*bytes);
  FreeRunResult free;
  if (options.free && result.fault.empty()) free = dispatch::freeRun(*bytes);
  std::ostream& out = context.terminal.out;
  if (options.output == "json") {
    Value value = valueOf(result);
    if (options.free) value.set("freeRun", valueOf(free));
    out << text::printJson(value, text::JsonStyle::Indented) << "\n";
  } else {
    printReplay(out, result, context.terminal.colors);
    if (options.free && free.fault.empty()) printFreeRun(out, free, context.terminal.colors);
    if (!free.fault.empty()) out << "no free run: " << printable(free.fault) << "\n";
  }
  return result.identical() && free.fault.empty() ? kOk : kFailed;
}

}  // namespace

Command makeReplay() {
  const auto options = std::make_shared<ReplayOptions>();  // shared by the parser, which fills it, and the run
  return {"replay",
          "Insight",
          "Decide again whose request runs next, from a record of `coterie serve --record`, and compare",
          "coterie replay decisions.record --free",
          {{"FILE", "what was recorded", &options->file, {}, Names::Files, true},
           {"--free", "also let the recorded requests run on a virtual clock, and compare shares and waits", &options->free, {}, Names::None, false},
           outputOption(&options->output, {"table", "json"})},
          {},
          [options](Context& context) { return run(context, *options); }};
}

}  // namespace coterie::cli
