// describe: all that the server knows about one object, for people.
#include <fmt/format.h>

#include <memory>
#include <ostream>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/object_view.h"
#include "cli/references.h"
#include "cli/table.h"
#include "objects/encode.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

using admin::textAt;

constexpr int kLabelWidth = 14;

void field(std::ostream& out, std::string_view label, std::string_view value) {
  if (!value.empty()) out << fmt::format("{:<{}}{}\n", fmt::format("{}:", label), kLabelWidth, printable(value));
}

void heading(Context& context, std::string_view title) {
  context.terminal.out << "\n" << styled(title, Style::Strong, context.terminal.colors) << "\n";
}

// The table's lines two blanks in.
void indented(Context& context, const Table& table) { table.print(context.terminal.out, context.terminal.colors); }

void conditions(Context& context, const Value& object) {
  const auto all = conditionsOf(object);
  if (all.empty()) return;
  heading(context, "Conditions");
  Table table({"TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"});
  for (const Condition& condition : all) {
    const Style style = condition.status == ConditionStatus::True    ? Style::Good
                        : condition.status == ConditionStatus::False ? Style::Bad
                                                                     : Style::Doubtful;
    table.add({condition.type,
               {std::string(objects::conditionStatusName(condition.status)), style},
               ageText(context.nowMicros() - condition.lastTransitionMicros),
               condition.reason,
               condition.message});
  }
  indented(context, table);
}

int instances(Context& context, const Value& object) {
  const auto listed = context.server().get("/admin/v1/instances/" + percentEncode(metadataText(object, "namespace")) + "/" +
                                           percentEncode(metadataText(object, "name")));
  if (!listed.ok()) return listed.error().code == Code::NotFound ? kOk : context.fail(listed.error());
  heading(context, "Instances");
  Table table({"ID", "PID", "STATE", "CPUS", "LANES", "LOAN LANES", "MEMORY", "LIMIT", "RESTARTS", "AGE"});
  for (const Value& item : *listed->find("items")->asList()) {
    const auto instance = admin::decodeInstance(item);
    const Style style = instance.state == "Ready" ? Style::Good : instance.state == "BackOff" ? Style::Bad : Style::Doubtful;
    table.add({std::to_string(instance.id.value),
               std::to_string(instance.pid),
               {instance.reason.empty() ? instance.state : instance.state + " (" + instance.reason + ")", style},
               instance.home,
               std::to_string(instance.ownLanes),
               std::to_string(instance.loanLanes),
               sizeText(instance.memory),
               sizeText(instance.memoryLimit),
               std::to_string(instance.restarts),
               instance.started.micros == 0 ? "-" : ageText(context.nowMicros() - instance.started.micros)});
  }
  if (table.empty())
    context.terminal.out << "none\n";
  else
    indented(context, table);
  return kOk;
}

int events(Context& context, const Value& object) {
  const auto listed = context.server().get("/admin/v1/events?limit=20&kind=" + textAt(object, "kind") + "&namespace=" +
                                           percentEncode(metadataText(object, "namespace")) + "&name=" + percentEncode(metadataText(object, "name")));
  if (!listed.ok()) return context.fail(listed.error());
  heading(context, "Events");
  Table table({"LAST", "COUNT", "REASON", "MESSAGE"});
  for (const Value& item : *listed->find("items")->asList()) {
    const auto event = admin::decodeEvent(item);
    table.add({ageText(context.nowMicros() - event.lastMicros), std::to_string(event.count), event.reason, event.message});
  }
  if (table.empty())
    context.terminal.out << "none\n";
  else
    indented(context, table);
  return kOk;
}

int describeOne(Context& context, const Value& object) {
  std::ostream& out = context.terminal.out;
  const Value& metadata = *object.find("metadata");
  field(out, "Kind", textAt(object, "kind"));
  field(out, "Namespace", textAt(metadata, "namespace"));
  field(out, "Name", textAt(metadata, "name"));
  field(out, "Created", textAt(metadata, "creationTimestamp") + " (" + ageOf(object, context.nowMicros()) + " ago)");
  field(out, "Generation", std::to_string(admin::intAt(metadata, "generation")));
  std::string labels;
  if (const Value* found = metadata.find("labels"); found != nullptr && found->asMap() != nullptr) {
    for (const auto& [key, value] : *found->asMap())
      labels += (labels.empty() ? "" : ", ") + key + "=" + (value.asString() == nullptr ? "" : *value.asString());
  }
  field(out, "Labels", labels);
  heading(context, "Spec");
  if (const Value* spec = object.find("spec")) out << printable(text::printYaml(*spec));
  conditions(context, object);
  if (textAt(object, "kind") == kModelServiceKind) {
    if (const int code = instances(context, object); code != kOk) return code;
  } else {
    const auto services = context.server().get(collectionPath(kModelServiceKind, std::nullopt));
    if (!services.ok()) return context.fail(services.error());
    heading(context, "Services");
    Table table = objectTable(kModelServiceKind, Detail::Usual);
    const Value* spec = object.find("spec");
    const Value* namespaces = spec == nullptr ? nullptr : spec->find("namespaces");
    for (const Value& service : *services->find("items")->asList()) {
      for (std::size_t i = 0; namespaces != nullptr && namespaces->asList() != nullptr && i < namespaces->asList()->size(); ++i) {
        if ((*namespaces->asList())[i] == Value(metadataText(service, "namespace")))
          table.add(objectRow(service, Detail::Usual, context.nowMicros()));
      }
    }
    if (table.empty())
      out << "none\n";
    else
      indented(context, table);
  }
  return events(context, object);
}

struct DescribeOptions {
  std::string type;
  std::vector<std::string> names;
  std::string nameSpace;
};

int describe(Context& context, const DescribeOptions& options) {
  const auto nameSpace = namespaceOf(context, options.nameSpace);
  std::string kind{kModelServiceKind};
  std::vector<std::string> names = options.names;
  if (options.type.find('/') != std::string::npos) {
    names.insert(names.begin(), options.type);
  } else {
    const auto known = kindOf(options.type);
    if (!known.ok()) return context.usage(known.error().message);
    kind = *known;
    if (names.empty()) return context.usage("say which: coterie describe " + options.type + " NAME");
  }
  bool first = true;
  for (const auto& name : names) {
    const auto reference = parseReference(name, kind, nameSpace);
    if (!reference.ok()) return context.usage(reference.error().message);
    const auto object = fetch(context, *reference);
    if (!object.ok()) return context.fail(object.error());
    if (!first) context.terminal.out << "\n\n";
    first = false;
    if (const int code = describeOne(context, *object); code != kOk) return code;
  }
  return kOk;
}

}  // namespace

Command makeDescribe() {
  const auto options = std::make_shared<DescribeOptions>();
  return {"describe",
          "Objects",
          "Show everything about an object: spec, conditions, instances, events",
          "coterie describe service speech",
          {{"TYPE", "tenant or service; or TYPE/NAME", &options->type, {}, Names::Types, true},
           {"NAMES", "which", &options->names, {}, Names::Services, false},
           namespaceOption(&options->nameSpace)},
          {},
          [options](Context& context) { return describe(context, *options); }};
}

}  // namespace coterie::cli
