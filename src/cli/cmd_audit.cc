// audit: who did what, and who was refused; and whether the log is whole.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "admin/reports.h"
#include "audit/chain.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/duration.h"
#include "cli/file_content.h"
#include "cli/table.h"
#include "objects/quantity.h"

namespace coterie::cli {
namespace {

struct AuditOptions {
  std::string since;
  bool verify{false};
  bool json{false};
  std::int64_t limit{200};
  std::string output{"table"};
  std::vector<std::string> files;
  std::string expect;
};

// "2h" ago, or a time.
std::optional<std::int64_t> sinceMicros(const Context& context, const std::string& text) {
  if (text.empty()) return 0;
  if (const auto age = parseDuration(text)) return context.nowMicros() - Micros(*age).count();
  if (const auto time = objects::parseTime(text)) return time;
  return objects::parseTime(text + "T00:00:00Z");
}

// One row for a change, of the line that began it and the one that says how it ended.
class AuditTable {
 public:
  explicit AuditTable(std::size_t limit) : limit_(limit) {}

  void add(audit::Line line) {
    if (line.entry.begins || endedWith(line)) return;
    lines_.push_back(std::move(line));
    if (lines_.size() <= limit_) return;
    lines_.pop_front();
    ++left_;
  }

  void print(Context& context) const {
    if (lines_.empty()) {
      context.terminal.err << "No lines.\n";
      return;
    }
    Table table({"TIME", "WHO", "TENANT", "THROUGH", "WHAT", "RESULT", "CHANGES"});
    for (const audit::Line& line : lines_) {
      const audit::Entry& entry = line.entry;
      std::string what = entry.verb;
      for (const std::string& word : {entry.kind, entry.object}) what += word.empty() ? "" : " " + word;
      std::string changes;
      for (const std::string& change : entry.changes) changes += (changes.empty() ? "" : "; ") + change;
      table.add({clockText(entry.time.micros), audit::actorText(entry.actor), entry.tenant.value, std::string(audit::throughName(entry.through)),
                 what, resultOf(entry), changes});
    }
    table.print(context.terminal.out, context.terminal.colors);
    if (left_ > 0) context.terminal.err << fmt::format("{} earlier lines are not shown; --limit shows more of them.\n", left_);
  }

 private:
  // Of a row that is there.
  bool endedWith(const audit::Line& line) {
    if (line.entry.of == 0) return false;
    const auto begun = std::find_if(lines_.rbegin(), lines_.rend(), [&](const audit::Line& each) { return each.sequence == line.entry.of; });
    if (begun == lines_.rend()) return false;
    begun->entry.outcome = line.entry.outcome;
    begun->entry.reason = line.entry.reason;
    begun->entry.object = line.entry.object;  // the id of a new key is known only then
    return true;
  }

  static Cell resultOf(const audit::Entry& entry) {
    const std::string times = entry.count == 1 ? "" : fmt::format(", {} times", entry.count);
    switch (entry.outcome) {
      case audit::Outcome::Done: return {"done", Style::Good};
      case audit::Outcome::Failed: return {"failed: " + entry.reason, Style::Bad};
      case audit::Outcome::Refused: return {"refused: " + entry.reason + times, Style::Bad};
      case audit::Outcome::Begun: return {"begun, and no end: the server died then", Style::Doubtful};
      case audit::Outcome::Noted: break;
    }
    return {entry.reason + times, Style::Plain};
  }

  std::size_t limit_;
  std::deque<audit::Line> lines_;
  std::size_t left_{0};
};

// What a check found, and the exit code that says it.
int sayChain(std::ostream& out, const audit::ChainCheck& check, bool colors) {
  if (check.fault()) {
    out << styled("broken: ", Style::Bad, colors) << printable(check.fault()->text()) << "\n";
    return kFailed;
  }
  if (check.lines() == 0) {
    out << "there is no line\n";
    return kFailed;
  }
  out << styled("the chain holds: ", Style::Good, colors)
      << fmt::format("{} {}, {} to {}; the hash of the last one is {}\n", check.lines(), check.lines() == 1 ? "line" : "lines", check.first(),
                     check.last().sequence, check.last().hash);
  if (check.first() > 1) out << fmt::format("lines before {} are not here: the log's oldest files are removed\n", check.first());
  if (check.cutOff()) out << "after it comes a line that is not whole: the server writes it, or was killed while it did\n";
  return kOk;
}

int show(Context& context, const AuditOptions& options) {
  const auto since = sinceMicros(context, options.since);
  if (!since) return context.usage("--since: a duration such as 2h, or a time such as 2026-01-31 or 2026-01-31T23:59:59Z, is wanted");
  if (options.limit < 1) return context.usage("--limit: at least 1 is wanted");
  if (options.verify && !context.key.empty())
    return context.usage("--verify needs every line of the log, and a key shows those of its tenant only: leave --key-file out");
  const bool json = options.json || options.output == "json";
  // To follow the chain every line is needed, also those that are not shown.
  const std::string filter = options.since.empty() || options.verify ? "" : "&since=" + percentEncode(objects::timeText(*since));
  audit::ChainCheck check;
  AuditTable table(static_cast<std::size_t>(options.limit));
  std::string file;
  for (audit::Page page; !page.last;) {
    const auto value = context.server().get("/admin/v1/audit?from=" + std::to_string(page.next) + filter);
    if (!value.ok()) return context.fail(value.error());
    page = admin::decodeAuditPage(*value);
    if (page.file != file) check.startFile(file = page.file);
    for (const std::string& text : page.lines) {
      if (options.verify) (void)check.take(text);
      auto line = audit::decode(text);
      if (line.ok() && line->entry.time.micros < *since) continue;
      if (json)
        context.terminal.out << printable(text) << "\n";
      else if (line.ok())
        table.add(std::move(*line));
    }
  }
  if (!json) table.print(context);
  return options.verify ? sayChain(context.terminal.err, check, context.terminal.colors) : kOk;
}

// A folder stands for the log's files in it.
Result<std::vector<std::string>> filesOf(const std::vector<std::string>& named) {
  std::vector<std::string> files;
  for (const std::string& name : named) {
    std::error_code fault;
    if (!std::filesystem::is_directory(name, fault)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(name, fault)) {
      const std::string file = entry.path().filename();
      if (file.starts_with("audit-") && file.ends_with(".jsonl")) inside.push_back(entry.path());
    }
    if (inside.empty()) return Error{Code::NotFound, "CannotRead", name + " has no audit-*.jsonl that can be read"};
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

int verify(Context& context, const AuditOptions& options) {
  const auto files = filesOf(options.files);
  if (!files.ok()) return context.fail(files.error());
  audit::ChainCheck check;
  bool met = false;
  for (const std::string& file : *files) {
    const auto bytes = contentOf(file);
    if (!bytes.ok()) return context.fail(bytes.error());
    if (!check.takeFile(file, *bytes, [&](const audit::Line& line) { met = met || line.hash == options.expect; })) break;
  }
  std::ostream& out = context.terminal.out;
  const int code = sayChain(out, check, context.terminal.colors);
  if (code != kOk || options.expect.empty()) return code;
  out << (met ? "a line has the expected hash\n" : "no line has the expected hash: the log was written anew, or that line is not here any more\n");
  return met ? kOk : kFailed;
}

}  // namespace

Command makeAudit() {
  const auto options = std::make_shared<AuditOptions>();  // shared by the parser, which fills it, and the run
  Command offline{"verify",
                  "Tenants and keys",
                  "Check the chain of the log's files, without a server; names the first line that does not fit",
                  "coterie audit verify ~/.local/state/coterie/audit\n  coterie audit verify copy.jsonl --expect HASH",
                  {{"FILE", "files in their order, or their folder", &options->files, {}, Names::Files, true},
                   {"--expect", "a hash noted before, which a line must have", &options->expect, {}, Names::None, false}},
                  {},
                  [options](Context& context) { return verify(context, *options); }};
  return {"audit",
          "Tenants and keys",
          "Show who changed what, and who was refused",
          "coterie audit --since 2h\n  coterie audit --verify --json > copy.jsonl",
          {{"--since", "from then on: a duration before now, or a time (UTC)", &options->since, {}, Names::None, false},
           {"--limit", "at most so many rows of the table, the last ones", &options->limit, {}, Names::None, false},
           {"--verify", "check the chain as well; exit code 1 if it is broken", &options->verify, {}, Names::None, false},
           {"--json", "as -o json: the lines as the log has them", &options->json, {}, Names::None, false},
           outputOption(&options->output, {"table", "json"})},
          {std::move(offline)},
          [options](Context& context) { return show(context, *options); }};
}

}  // namespace coterie::cli
