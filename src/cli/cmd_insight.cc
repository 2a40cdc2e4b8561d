// explain, top, events, logs: what the server does and why.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <ostream>
#include <thread>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/duration.h"
#include "cli/node_top.h"
#include "cli/references.h"
#include "cli/table.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

constexpr std::int64_t kMostShown = 10'000;  // lines that the server gives at once

struct ServiceOptions {
  std::string service;
  std::string nameSpace;
  std::string output{"table"};
  bool follow{false};
  std::int64_t tail{100};
};

// The path below /admin/v1 for a service as people name it; the exit code if there is none.
Result<std::string> servicePath(Context& context, const ServiceOptions& options, std::string_view what) {
  const auto reference = parseReference(options.service, kModelServiceKind, namespaceOf(context, options.nameSpace));
  if (!reference.ok()) return reference.error();
  if (reference->kind != kModelServiceKind) return Error{Code::InvalidArgument, "BadName", options.service + " is no service"};
  const auto object = fetch(context, *reference);
  if (!object.ok()) return object.error();
  return "/admin/v1/" + std::string(what) + "/" + percentEncode(metadataText(*object, "namespace")) + "/" +
         percentEncode(metadataText(*object, "name"));
}

// In a sentence a zero is a number, not a blank cell.
std::string cpuCount(MilliCpu cpus) { return cpus.value == 0 ? "0" : cpuText(cpus); }

void answerTo(Context& context, std::string_view question, const std::vector<admin::Because>& reasons) {
  std::ostream& out = context.terminal.out;
  out << "\n" << styled(question, Style::Strong, context.terminal.colors) << "\n";
  for (const auto& [reason, message] : reasons)
    out << "  " << printable(message) << styled(" (" + printable(reason) + ")", Style::Faint, context.terminal.colors) << "\n";
}

void sayWidth(Context& context, const admin::WidthInfo& width) {
  const auto threads = [](int count) { return fmt::format("{} {}", count, count == 1 ? "thread" : "threads"); };
  std::ostream& out = context.terminal.out;
  out << "  a request is run by " << threads(width.threads);
  if (width.proposedThreads > 0) {
    out << fmt::format("; proposed: {} {}, {} a request", width.proposedInstances, width.proposedInstances == 1 ? "instance" : "instances",
                       threads(width.proposedThreads));
  }
  out << "\n";
}

void printJudged(Context& context, const std::vector<admin::WidthLine>& judged) {
  Table table({"THREADS", "SERVERS", "WAIT", "LATENCY", "REQ/S", "OBJECTIVE"});
  for (const admin::WidthLine& line : judged) {
    table.add({std::to_string(line.threads),
               std::to_string(line.servers),
               line.endless ? "endless" : latencyText(line.wait),
               line.endless ? "endless" : latencyText(line.latency),
               fmt::format("{:.1f}", line.requestsPerSecond),
               {line.meetsObjective ? "met" : "not met", line.meetsObjective ? Style::Good : Style::Bad}});
  }
  table.print(context.terminal.out, context.terminal.colors);
}

int explain(Context& context, const ServiceOptions& options) {
  const auto path = servicePath(context, options, "explain");
  if (!path.ok()) return context.fail(path.error());
  const auto value = context.server().get(*path);
  if (!value.ok()) return context.fail(value.error());
  std::ostream& out = context.terminal.out;
  if (options.output == "json") return out << text::printJson(*value, text::JsonStyle::Indented) << "\n", kOk;
  if (options.output == "yaml") return out << text::printYaml(*value), kOk;
  const admin::Explanation e = admin::decodeExplanation(*value);
  const std::string home = !e.home.empty() ? "CPUs " + e.home : !e.pool.empty() ? "the shared pool, CPUs " + e.pool : "no CPUs";
  out << styled(e.service.path(), Style::Strong, context.terminal.colors) << " of tenant " << printable(e.tenant.value) << " has " << home;
  if (!e.loans.empty()) out << ", and borrows CPUs " << e.loans;
  out << fmt::format("\n  entitled to {} CPUs, could use {} now; floor {}, ceiling {}\n", cpuCount(e.entitlement), cpuCount(e.demand),
                     e.floor.value == 0 ? "none" : cpuText(e.floor), e.ceiling.value == 0 ? "the machine" : cpuText(e.ceiling));
  if (!e.isolation.empty())
    out << "  isolated: no other tenant on its "
        << (e.isolation == "core"    ? "cores"
            : e.isolation == "cache" ? "last-level caches"
                                     : "NUMA nodes")
        << "\n";
  out << fmt::format("  {} {}, {} own {}, {} loan {}\n", e.instances, e.instances == 1 ? "instance" : "instances", e.ownLanes,
                     e.ownLanes == 1 ? "lane" : "lanes", e.loanLanes, e.loanLanes == 1 ? "lane" : "lanes");
  sayWidth(context, e.width);
  answerTo(context, "Why these CPUs?", e.whyThese);
  answerTo(context, "Why this many?", e.whyThisMany);
  answerTo(context, "Why not more?", e.whyNotMore);
  if (!e.width.why.empty()) answerTo(context, "Why so many threads a request?", e.width.why);
  if (e.width.judged.size() > 1) printJudged(context, e.width.judged);
  const Value* changes = value->find("changes");
  if (changes == nullptr || changes->asList() == nullptr || changes->asList()->empty()) return kOk;
  const std::size_t count = changes->asList()->size();
  out << "\n" << styled(count == 1 ? "The last change" : fmt::format("The last {} changes", count), Style::Strong, context.terminal.colors) << "\n";
  Table table({"WHEN", "COUNT", "REASON", "MESSAGE"});
  for (const Value& item : *changes->asList()) {
    const Event event = admin::decodeEvent(item);
    table.add({ageText(context.nowMicros() - event.lastMicros), std::to_string(event.count), event.reason, event.message});
  }
  table.print(out, context.terminal.colors);
  return kOk;
}

struct TopOptions {
  bool once{false};
  bool node{false};
  std::string interval{"1s"};
  std::string output{"table"};
};

void printTop(Context& context, const admin::TopReport& report) {
  std::ostream& out = context.terminal.out;
  out << fmt::format("{} of {} CPUs in use, {} {}, DRC {}\n\n", cpuCount(report.use), cpuCount(report.capacity), report.services.size(),
                     report.services.size() == 1 ? "service" : "services",
                     report.drcOn ? "on" : styled("off", Style::Doubtful, context.terminal.colors));
  Table table({"TENANT", "SERVICE", "REQ/S", "P50", "P99", "OBJECTIVE", "QUEUE", "RUNNING", "ENTITLED", "HOME", "USE", "LENT", "BORROWED", "INST"});
  for (const auto& s : report.services) {
    const bool late = s.objective.count() > 0 && s.p99 > s.objective;
    table.add({s.tenant.value,
               {s.service.path(), s.ready ? Style::Plain : Style::Doubtful},
               fmt::format("{:.1f}", s.requestsPerSecond),
               latencyText(s.p50),
               {latencyText(s.p99), late ? Style::Bad : Style::Plain},
               latencyText(s.objective),
               std::to_string(s.queued),
               std::to_string(s.inFlight),
               cpuText(s.entitlement),
               cpuText(s.home) + (s.isolation.empty() ? "" : " (" + s.isolation + ")"),
               cpuText(s.use),
               cpuText(s.lent),
               cpuText(s.borrowed),
               std::to_string(s.instances)});
  }
  table.print(out, context.terminal.colors);
}

int top(Context& context, const TopOptions& options) {
  const auto interval = parseDuration(options.interval);
  if (!interval || *interval < Millis(100)) return context.usage("--interval must be a duration of at least 100ms");
  std::optional<ServerLink> agent;
  if (options.node) agent.emplace(context.stateFolder, ServerLink::To::Agent);
  for (;;) {
    const auto value = agent ? agent->get("/node/v1/top") : context.server().get("/admin/v1/top");
    if (!value.ok()) return context.fail(value.error());
    std::ostream& out = context.terminal.out;
    // Into a pipe or a file goes one picture, not a film.
    const bool live = context.terminal.interactive && !options.once && options.output == "table";
    if (options.output == "json")
      out << text::printJson(*value, text::JsonStyle::Indented) << "\n";
    else {
      if (live) out << "\x1b[H\x1b[2J";
      if (agent)
        printNodeTop(context, *value);
      else
        printTop(context, admin::decodeTop(*value));
      if (live) out << styled("\nevery " + options.interval + "; Ctrl-C ends", Style::Faint, context.terminal.colors) << "\n";
    }
    out.flush();
    if (!live || !out.good()) return kOk;
    std::this_thread::sleep_for(*interval);
  }
}

struct EventOptions {
  std::string nameSpace;
  std::string about;
  std::int64_t limit{50};
  std::string output{"table"};
  bool watch{false};
};

std::vector<Cell> eventRow(const Context& context, const Event& event) {
  const std::string type = event.object.kind == kTenantKind ? "tenant/" : "modelservice/";
  const std::string name = event.object.nameSpace.empty() ? event.object.name : event.object.nameSpace + "/" + event.object.name;
  return {ageText(context.nowMicros() - event.lastMicros), std::to_string(event.count), type + name, event.reason, event.message};
}

int events(Context& context, const EventOptions& options) {
  if (options.limit < 1 || options.limit > kMostShown)
    return context.usage(fmt::format("--limit: 1 to {} is wanted, found {}", kMostShown, options.limit));
  std::string target = "/admin/v1/events?limit=" + std::to_string(options.limit);
  const auto nameSpace = namespaceOf(context, options.nameSpace);
  if (!options.about.empty()) {
    const auto reference = parseReference(options.about, kModelServiceKind, nameSpace);
    if (!reference.ok()) return context.usage(reference.error().message);
    // Events outlive their object, so it need not be there.
    target += "&kind=" + reference->kind + "&name=" + percentEncode(reference->name);
    if (reference->nameSpace) target += "&namespace=" + percentEncode(*reference->nameSpace);
  } else if (nameSpace) {
    target += "&namespace=" + percentEncode(*nameSpace);
  }
  std::ostream& out = context.terminal.out;
  Table table({"LAST", "COUNT", "OBJECT", "REASON", "MESSAGE"});
  if (options.watch) {
    const Status status = context.server().stream(target + "&watch=1", ServerLink::Ends::Never, [&](const Value& value) {
      if (options.output == "json") {
        out << text::printJson(value) << "\n";
      } else {
        const Event event = admin::decodeEvent(value);
        auto row = eventRow(context, event);
        row.front() = Cell(clockText(event.lastMicros));
        Table line({"", "", "", "", ""});
        line.add(std::move(row));
        line.print(out, context.terminal.colors, Table::Header::Hidden);
      }
      out.flush();
      return out.good() ? http::Client::Next::Continue : http::Client::Next::Stop;
    });
    return status.ok() ? kOk : context.fail(status.error());
  }
  const auto value = context.server().get(target);
  if (!value.ok()) return context.fail(value.error());
  if (options.output == "json") return out << text::printJson(*value, text::JsonStyle::Indented) << "\n", kOk;
  for (const Value& item : *value->find("items")->asList()) table.add(eventRow(context, admin::decodeEvent(item)));
  if (table.empty())
    context.terminal.err << "No events.\n";
  else
    table.print(out, context.terminal.colors);
  return kOk;
}

int logs(Context& context, const ServiceOptions& options) {
  if (options.tail < 0 || options.tail > kMostShown)
    return context.usage(fmt::format("--tail: 0 to {} is wanted, found {}", kMostShown, options.tail));
  const auto path = servicePath(context, options, "logs");
  if (!path.ok()) return context.fail(path.error());
  std::ostream& out = context.terminal.out;
  bool any = false;
  const Status status = context.server().stream(*path + "?tail=" + std::to_string(options.tail) + (options.follow ? "&follow=1" : ""),
                                                options.follow ? ServerLink::Ends::Never : ServerLink::Ends::Itself, [&](const Value& value) {
                                                  any = true;
                                                  const auto line = admin::decodeLogLine(value);
                                                  out << styled(clockText(line.time.micros) + " [" + std::to_string(line.instance.value) + "]",
                                                                Style::Faint, context.terminal.colors)
                                                      << " " << printable(line.text) << "\n";
                                                  if (options.follow) out.flush();
                                                  return out.good() ? http::Client::Next::Continue : http::Client::Next::Stop;
                                                });
  if (!status.ok()) return context.fail(status.error());
  if (!any && options.tail > 0) context.terminal.err << "No log lines: the workers of " << printable(options.service) << " wrote nothing.\n";
  return kOk;
}

}  // namespace

Command makeExplain() {
  const auto options = std::make_shared<ServiceOptions>();
  return {"explain",
          "Insight",
          "Say why a service has these CPUs, this many, and not more",
          "coterie explain speech",
          {{"SERVICE", "which service", &options->service, {}, Names::Services, true},
           namespaceOption(&options->nameSpace),
           outputOption(&options->output, {"table", "json", "yaml"})},
          {},
          [options](Context& context) { return explain(context, *options); }};
}

Command makeTop() {
  const auto options = std::make_shared<TopOptions>();
  return {"top",
          "Insight",
          "Show live figures: requests, latency, queue, CPUs, lent and borrowed",
          "coterie top --once\n  coterie top --node",
          {{"--once", "print once and end (as into a pipe)", &options->once, {}, Names::None, false},
           {"--interval", "between two pictures", &options->interval, {}, Names::None, false},
           {"--node", "of `coterie agent`: containers, their CPUs, use, waiting, throttling, hints", &options->node, {}, Names::None, false},
           outputOption(&options->output, {"table", "json"})},
          {},
          [options](Context& context) { return top(context, *options); }};
}

Command makeEvents() {
  const auto options = std::make_shared<EventOptions>();
  return {"events",
          "Insight",
          "Show what happened, and why",
          "coterie events -w\n  coterie events --about tenant/audio",
          {namespaceOption(&options->nameSpace),
           {"--about", "only of this service, or TYPE/NAME", &options->about, {}, Names::Services, false},
           {"--limit", "at most so many", &options->limit, {}, Names::None, false},
           {"-w,--watch", "go on with new ones", &options->watch, {}, Names::None, false},
           outputOption(&options->output, {"table", "json"})},
          {},
          [options](Context& context) { return events(context, *options); }};
}

Command makeLogs() {
  const auto options = std::make_shared<ServiceOptions>();
  return {"logs",
          "Insight",
          "Show what a service's workers wrote",
          "coterie logs speech -f",
          {{"SERVICE", "which service", &options->service, {}, Names::Services, true},
           namespaceOption(&options->nameSpace),
           {"-f,--follow", "go on with new lines", &options->follow, {}, Names::None, false},
           {"--tail", "how many of the last lines", &options->tail, {}, Names::None, false}},
          {},
          [options](Context& context) { return logs(context, *options); }};
}

}  // namespace coterie::cli
