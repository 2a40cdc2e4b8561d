// apply, diff, delete: bringing the server to what files say.
#include <algorithm>
#include <memory>
#include <ostream>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/line_diff.h"
#include "cli/manifests.h"
#include "cli/references.h"
#include "cli/table.h"
#include "objects/encode.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

struct FileOptions {
  std::vector<std::string> files;
  std::string nameSpace;
  bool dryRun{false};
};

Option filesOption(std::vector<std::string>* files, bool required) {
  return {"-f,--filename", "file or folder of objects in YAML or JSON, or - for standard input; may be repeated", files, {}, Names::Files, required};
}

int complain(Context& context, const std::vector<std::string>& faults) {
  for (const auto& fault : faults) context.terminal.err << "coterie: " << printable(fault) << "\n";
  context.terminal.err << "coterie: nothing was changed\n";
  return kFailed;
}

// What people wrote and may compare: labels and spec, in canonical form.
Value comparable(const Value& object) {
  Value value = Value::emptyMap();
  for (const char* key : {"apiVersion", "kind"}) value.set(key, admin::textAt(object, key));
  Value metadata = Value::emptyMap();
  metadata.set("name", metadataText(object, "name"));
  if (const auto nameSpace = metadataText(object, "namespace"); !nameSpace.empty()) metadata.set("namespace", nameSpace);
  const Value* labels = object.find("metadata") == nullptr ? nullptr : object.find("metadata")->find("labels");
  if (labels != nullptr && labels->asMap() != nullptr && !labels->asMap()->empty()) metadata.set("labels", *labels);
  value.set("metadata", std::move(metadata));
  value.set("spec", object.find("spec") == nullptr ? Value::emptyMap() : *object.find("spec"));
  return value;
}

// Writes over what is stored, on the condition that nobody else changed it since `stored` was read: that must not be lost silently. Status has moved
// on when only the version differs; then the write is tried again on the new one.
Result<Value> replace(Context& context, const std::string& path, const std::string& suffix, const objects::AnyObject& object, Value stored) {
  constexpr int kTries = 10;
  const Value before = comparable(stored);
  for (int tries = 1;; ++tries) {
    Value change = manifestValue(object);
    if (!object.resourceVersion) change.find("metadata")->set("resourceVersion", metadataText(stored, "resourceVersion"));
    auto updated = context.server().call("PUT", path + suffix, change);
    if (updated.ok() || object.resourceVersion || updated.error().reason != "ResourceVersionConflict" || tries == kTries) return updated;
    auto now = context.server().get(path);
    if (!now.ok()) return now.error();
    if (comparable(*now) != before) return updated;
    stored = std::move(now).value();
  }
}

// One object: created, configured or unchanged.
Result<std::string> applyOne(Context& context, const objects::AnyObject& object, bool dryRun) {
  const Value wanted = manifestValue(object);
  const std::string suffix = dryRun ? "?dryRun=All" : "";
  const std::string path = objectPath(wanted);
  auto stored = context.server().get(path);
  if (!stored.ok() && stored.error().code != Code::NotFound) return stored.error();
  if (!stored.ok()) {
    const auto created = context.server().call("POST", collectionPath(object.kind(), object.metadata.nameSpace) + suffix, wanted);
    if (!created.ok()) return created.error();
    return std::string("created");
  }
  if (comparable(*stored) == comparable(wanted)) return std::string("unchanged");
  const auto updated = replace(context, path, suffix, object, std::move(stored).value());
  if (!updated.ok()) return updated.error();
  return std::string("configured");
}

int apply(Context& context, const FileOptions& options) {
  const Manifests manifests = readManifests(context, options.files, namespaceOf(context, options.nameSpace).value_or(""));
  if (!manifests.faults.empty()) return complain(context, manifests.faults);
  int code = kOk;
  for (const auto& object : manifests.objects) {
    const auto done = applyOne(context, object, options.dryRun);
    const std::string name = shortName(manifestValue(object));
    if (!done.ok()) {
      // Services of a tenant that a dry run did not really create cannot be checked.
      if (options.dryRun && done.error().reason == "UnknownNamespace" &&
          std::any_of(manifests.objects.begin(), manifests.objects.end(), [&](const objects::AnyObject& other) {
            const auto* tenant = std::get_if<TenantSpec>(&other.spec);
            return tenant != nullptr &&
                   std::find(tenant->namespaces.begin(), tenant->namespaces.end(), object.metadata.nameSpace) != tenant->namespaces.end();
          })) {
        context.terminal.out << name << " created (dry run; its tenant would be created first)\n";
        continue;
      }
      const int failed = context.fail({done.error().code, done.error().reason, name + ": " + done.error().message});
      if (code == kOk) code = failed;
      if (failed == kUnreachable) return failed;
      continue;
    }
    const Style style = *done == "unchanged" ? Style::Faint : Style::Good;
    context.terminal.out << name << " " << styled(*done, style, context.terminal.colors) << (options.dryRun ? " (dry run)" : "") << "\n";
  }
  return code;
}

int diff(Context& context, const FileOptions& options) {
  const Manifests manifests = readManifests(context, options.files, namespaceOf(context, options.nameSpace).value_or(""));
  if (!manifests.faults.empty()) return complain(context, manifests.faults);
  bool different = false;
  for (const auto& object : manifests.objects) {
    const Value wanted = manifestValue(object);
    const auto stored = context.server().get(objectPath(wanted));
    if (!stored.ok() && stored.error().code != Code::NotFound) return context.fail(stored.error());
    const std::string before = stored.ok() ? text::printYaml(comparable(*stored)) : "";
    const std::string after = text::printYaml(comparable(wanted));
    const auto lines = diffLines(before, after);
    if (lines.empty()) continue;
    different = true;
    context.terminal.out << styled("--- " + shortName(wanted) + (stored.ok() ? " on the server" : " (not on the server)"), Style::Strong,
                                   context.terminal.colors)
                         << "\n";
    context.terminal.out << styled("+++ " + shortName(wanted) + " in the files", Style::Strong, context.terminal.colors) << "\n";
    for (const auto& line : lines) {
      const Style style = line[0] == '+' ? Style::Good : line[0] == '-' ? Style::Bad : Style::Plain;
      context.terminal.out << styled(printable(line), style, context.terminal.colors) << "\n";
    }
  }
  return different ? kFailed : kOk;
}

struct DeleteOptions : FileOptions {
  std::vector<std::string> names;
  bool ignoreMissing{false};
};

int remove(Context& context, const DeleteOptions& options) {
  const auto nameSpace = namespaceOf(context, options.nameSpace);
  std::vector<Reference> references;
  if (!options.files.empty()) {
    if (!options.names.empty()) return context.usage("give either -f or names, not both");
    const Manifests manifests = readManifests(context, options.files, nameSpace.value_or(""));
    if (!manifests.faults.empty()) return complain(context, manifests.faults);
    for (const auto& object : manifests.objects) references.push_back({std::string(object.kind()), object.metadata.nameSpace, object.metadata.name});
    std::reverse(references.begin(), references.end());  // services before their tenants
  } else {
    if (options.names.empty()) return context.usage("say what to delete: coterie delete -f FILE, or coterie delete TYPE NAME...");
    // "delete service a b" as well as "delete service/a tenant/b"
    const bool typed = options.names.front().find('/') == std::string::npos && options.names.size() > 1;
    std::string kind;
    if (typed) {
      const auto known = kindOf(options.names.front());
      if (!known.ok()) return context.usage(known.error().message);
      kind = *known;
    }
    for (std::size_t i = typed ? 1 : 0; i < options.names.size(); ++i) {
      if (!typed && options.names[i].find('/') == std::string::npos)
        return context.usage("say what " + options.names[i] + " is: coterie delete TYPE " + options.names[i]);
      const auto reference = parseReference(options.names[i], typed ? kind : std::string(kModelServiceKind), nameSpace);
      if (!reference.ok()) return context.usage(reference.error().message);
      references.push_back(*reference);
    }
  }
  int code = kOk;
  for (const auto& reference : references) {
    auto object = fetch(context, reference);
    if (object.ok()) object = context.server().call("DELETE", objectPath(*object) + (options.dryRun ? "?dryRun=All" : ""), std::nullopt);
    if (!object.ok() && object.error().code == Code::NotFound && options.ignoreMissing) continue;
    if (!object.ok()) {
      const int failed = context.fail(object.error());
      if (code == kOk) code = failed;
      if (failed == kUnreachable) return failed;
      continue;
    }
    context.terminal.out << shortName(*object) << " deleted" << (options.dryRun ? " (dry run)" : "") << "\n";
  }
  return code;
}

}  // namespace

Command makeApply() {
  const auto options = std::make_shared<FileOptions>();
  return {"apply",
          "Objects",
          "Create or change objects to what files say",
          "coterie apply -f examples/quickstart/\n  coterie apply -f service.yaml --dry-run\n  cat service.yaml | coterie apply -f -",
          {filesOption(&options->files, true),
           {"-n,--namespace", "namespace of services whose file names none", &options->nameSpace, {}, Names::None, false},
           {"--dry-run", "check everything on the server, change nothing", &options->dryRun, {}, Names::None, false}},
          {},
          [options](Context& context) { return apply(context, *options); }};
}

Command makeDiff() {
  const auto options = std::make_shared<FileOptions>();
  return {"diff",
          "Objects",
          "Show what apply would change; exit code 1 if anything",
          "coterie diff -f examples/quickstart/",
          {filesOption(&options->files, true),
           {"-n,--namespace", "namespace of services whose file names none", &options->nameSpace, {}, Names::None, false}},
          {},
          [options](Context& context) { return diff(context, *options); }};
}

Command makeDelete() {
  const auto options = std::make_shared<DeleteOptions>();
  return {"delete",
          "Objects",
          "Delete objects by file or by name",
          "coterie delete -f service.yaml\n  coterie delete service speech -n audio\n  coterie delete service/audio/speech tenant/audio",
          {{"NAMES", "TYPE NAME..., or TYPE/NAME...", &options->names, {}, Names::Services, false},
           filesOption(&options->files, false),
           namespaceOption(&options->nameSpace),
           {"--ignore-not-found", "what is not there is no error", &options->ignoreMissing, {}, Names::None, false},
           {"--dry-run", "check, delete nothing", &options->dryRun, {}, Names::None, false}},
          {},
          [options](Context& context) { return remove(context, *options); }};
}

}  // namespace coterie::cli
