// get: tables of objects, and their text.
#include <algorithm>
#include <memory>
#include <ostream>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/object_view.h"
#include "cli/references.h"
#include "cli/table.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

using admin::textAt;

struct GetOptions {
  std::string type;
  std::vector<std::string> names;
  std::string nameSpace;
  bool allNamespaces{false};
  std::string output{"table"};
  bool watch{false};
};

Table tableFor(std::string_view kind, const GetOptions& options) {
  return objectTable(kind, options.output == "wide" ? Detail::Wide : Detail::Usual);
}

void printObjects(Context& context, const GetOptions& options, const std::vector<Value>& objects) {
  std::ostream& out = context.terminal.out;
  if (options.output == "name") {
    for (const Value& object : objects) out << shortName(object) << "\n";
    return;
  }
  if (options.output == "json" || options.output == "yaml") {
    Value value;
    if (objects.size() == 1 && !options.names.empty()) {
      value = objects.front();
    } else {
      Value list = Value::emptyList();
      for (const Value& object : objects) list.push(object);
      value.set("apiVersion", kApiVersion);
      value.set("kind", "List");
      value.set("items", std::move(list));
    }
    out << (options.output == "json" ? text::printJson(value, text::JsonStyle::Indented) + "\n" : text::printYaml(value));
    return;
  }
  for (const std::string_view kind : {kTenantKind, kModelServiceKind}) {
    Table table = tableFor(kind, options);
    for (const Value& object : objects) {
      if (textAt(object, "kind") == kind) table.add(objectRow(object, options.output == "wide" ? Detail::Wide : Detail::Usual, context.nowMicros()));
    }
    if (table.empty()) continue;
    if (kind == kModelServiceKind && options.type == "all" && textAt(objects.front(), "kind") == kTenantKind) out << "\n";
    table.print(out, context.terminal.colors);
  }
  out.flush();
}

// Each change as a line of its own, until the server or the reader ends it.
int watch(Context& context, const GetOptions& options, const std::string& kind, const std::optional<std::string>& nameSpace,
          const std::string& version) {
  const std::string target = collectionPath(kind, nameSpace) + "?watch=1&resourceVersion=" + version;
  const Detail detail = options.output == "wide" ? Detail::Wide : Detail::Usual;
  const Status status = context.server().stream(target, ServerLink::Ends::Never, [&](const Value& change) {
    const Value* object = change.find("object");
    if (object == nullptr) return http::Client::Next::Continue;
    if (!options.names.empty() && std::find(options.names.begin(), options.names.end(), metadataText(*object, "name")) == options.names.end())
      return http::Client::Next::Continue;
    std::ostream& out = context.terminal.out;
    if (options.output == "json")
      out << text::printJson(change) << "\n";
    else if (options.output == "yaml")
      out << "---\n" << text::printYaml(*object);
    else if (options.output == "name")
      out << shortName(*object) << "\n";
    else {
      Table table = objectTable(kind, detail);
      auto row = objectRow(*object, detail, context.nowMicros());
      if (textAt(change, "type") == "DELETED") row.back() = Cell("deleted", Style::Bad);
      table.add(std::move(row));
      table.print(out, context.terminal.colors, Table::Header::Hidden);
    }
    out.flush();
    return out.good() ? http::Client::Next::Continue : http::Client::Next::Stop;
  });
  return status.ok() ? kOk : context.fail(status.error());
}

int getAll(Context& context, const GetOptions& options, const std::vector<std::string>& kinds, const std::optional<std::string>& nameSpace) {
  std::vector<Value> objects;
  std::string version;
  for (const std::string& kind : kinds) {
    const auto list = context.server().get(collectionPath(kind, nameSpace));
    if (!list.ok()) return context.fail(list.error());
    version = metadataText(*list, "resourceVersion");
    for (const Value& item : *list->find("items")->asList()) objects.push_back(item);
  }
  const bool text = options.output == "table" || options.output == "wide";
  if (objects.empty() && text) {
    context.terminal.err << (nameSpace ? "Nothing found in namespace " + *nameSpace + "." : "Nothing found. coterie apply -f FILE creates objects.")
                         << "\n";
  } else {
    printObjects(context, options, objects);
  }
  return options.watch ? watch(context, options, kinds.front(), nameSpace, version) : kOk;
}

int get(Context& context, GetOptions options) {
  const auto nameSpace = options.allNamespaces ? std::nullopt : namespaceOf(context, options.nameSpace);
  if (options.type == "all") {
    if (!options.names.empty()) return context.usage("`get all` takes no names");
    if (options.watch) return context.usage("watch one type at a time: coterie get modelservices -w");
    return getAll(context, options, {std::string(kTenantKind), std::string(kModelServiceKind)}, nameSpace);
  }
  // get service/speech
  std::string kind{kModelServiceKind};
  if (options.type.find('/') != std::string::npos) {
    options.names.insert(options.names.begin(), options.type);
  } else {
    const auto known = kindOf(options.type);
    if (!known.ok()) return context.usage(known.error().message);
    kind = *known;
  }
  if (options.names.empty()) return getAll(context, options, {kind}, kind == kTenantKind ? std::nullopt : nameSpace);
  std::vector<Value> objects;
  int code = kOk;
  for (const auto& name : options.names) {
    const auto reference = parseReference(name, kind, nameSpace);
    if (!reference.ok()) return context.usage(reference.error().message);
    const auto object = fetch(context, *reference);
    if (object.ok()) {
      objects.push_back(*object);
      continue;
    }
    const int failed = context.fail(object.error());
    if (code == kOk) code = failed;
    if (failed == kUnreachable) return failed;
  }
  if (!objects.empty()) printObjects(context, options, objects);
  if (!options.watch || code != kOk) return code;
  for (std::size_t i = 0; i < objects.size(); ++i) options.names[i] = metadataText(objects[i], "name");
  return watch(context, options, textAt(objects.front(), "kind"), nameSpace, metadataText(objects.back(), "resourceVersion"));
}

}  // namespace

Command makeGet() {
  const auto options = std::make_shared<GetOptions>();
  return {"get",
          "Objects",
          "List objects, or print some",
          "coterie get all\n  coterie get modelservices -n audio -o wide\n  coterie get service speech -o yaml\n  coterie get modelservices -w",
          {{"TYPE", "tenants, modelservices (services, ms) or all; or TYPE/NAME", &options->type, {}, Names::Types, true},
           {"NAMES", "only these", &options->names, {}, Names::Services, false},
           namespaceOption(&options->nameSpace),
           {"-A,--all-namespaces", "all namespaces, whatever $COTERIE_NAMESPACE says", &options->allNamespaces, {}, Names::None, false},
           outputOption(&options->output, {"table", "wide", "json", "yaml", "name"}),
           {"-w,--watch", "go on with every change", &options->watch, {}, Names::None, false}},
          {},
          [options](Context& context) { return get(context, *options); }};
}

}  // namespace coterie::cli
