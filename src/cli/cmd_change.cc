// scale, wait.
#include <chrono>
#include <limits>
#include <memory>
#include <ostream>
#include <thread>

#include "admin/reports.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/duration.h"
#include "cli/object_view.h"
#include "cli/references.h"
#include "cli/table.h"
#include "objects/encode.h"

namespace coterie::cli {
namespace {

constexpr std::int64_t kNotGiven = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMostInstances = 1000;  // of spec.instances

struct ScaleOptions {
  std::string service;
  std::string nameSpace;
  std::int64_t instances{kNotGiven};
  bool automatic{false};
};

int scale(Context& context, const ScaleOptions& options) {
  const bool counted = options.instances != kNotGiven;
  if (!counted && !options.automatic) return context.usage("say how many: --instances N, or --auto to leave it to Coterie");
  if (counted && options.automatic) return context.usage("give either --instances N or --auto, not both");
  if (counted && (options.instances < 0 || options.instances > kMostInstances)) {
    return context.usage("--instances: a whole number from 0 (which stops it) to " + std::to_string(kMostInstances) + " is wanted, found " +
                         std::to_string(options.instances));
  }
  const auto reference = parseReference(options.service, kModelServiceKind, namespaceOf(context, options.nameSpace));
  if (!reference.ok()) return context.usage(reference.error().message);
  if (reference->kind != kModelServiceKind) return context.usage("only services have instances");
  const auto object = fetch(context, *reference);
  if (!object.ok()) return context.fail(object.error());
  Value spec = Value::emptyMap();
  spec.set("instances", options.automatic ? Value() : Value(options.instances));
  Value patch = Value::emptyMap();
  patch.set("spec", std::move(spec));
  const auto changed = context.server().call("PATCH", objectPath(*object), patch);
  if (!changed.ok()) return context.fail(changed.error());
  context.terminal.out << shortName(*changed) << " scaled to "
                       << (options.automatic ? "its range"
                                             : std::to_string(options.instances) + (options.instances == 1 ? " instance" : " instances"))
                       << "\n";
  return kOk;
}

struct WaitOptions {
  std::vector<std::string> names;
  std::string nameSpace;
  std::string goal{"condition=Ready"};
  std::string timeout{"60s"};
};

struct Goal {
  bool deletion{false};
  std::string type;
  ConditionStatus status{ConditionStatus::True};
};

std::optional<Goal> parseGoal(std::string_view text) {
  if (text == "delete") return Goal{true, {}, {}};
  constexpr std::string_view kPrefix = "condition=";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  const std::size_t equals = text.find('=');
  const std::string_view status = equals == std::string_view::npos ? "True" : text.substr(equals + 1);
  Goal goal{false, std::string(text.substr(0, equals)), ConditionStatus::True};
  if (status == "False" || status == "false")
    goal.status = ConditionStatus::False;
  else if (status == "Unknown" || status == "unknown")
    goal.status = ConditionStatus::Unknown;
  else if (status != "True" && status != "true")
    return std::nullopt;
  return goal.type.empty() ? std::nullopt : std::optional<Goal>(goal);
}

// Reached: "". Else what is still missing.
std::string missing(const Value& object, const Goal& goal) {
  const auto conditions = conditionsOf(object);
  const Condition* condition = objects::findCondition(conditions, goal.type);
  if (condition == nullptr) {
    std::string others;
    for (const Condition& other : conditions) others += (others.empty() ? " (it has " : ", ") + other.type;
    return "has no condition " + goal.type + " yet" + (others.empty() ? "" : others + ")");
  }
  // A condition that speaks of an older spec says nothing about this one.
  const std::int64_t generation = object.find("metadata") == nullptr ? 0 : admin::intAt(*object.find("metadata"), "generation");
  if (condition->observedGeneration != 0 && condition->observedGeneration < generation) return "its last change is not acted on yet";
  if (goal.status == ConditionStatus::True && servesFormerSpec(*condition)) return "serves by its former spec: " + condition->message;
  if (condition->status == goal.status) return {};
  return goal.type + " is " + conditionCell(conditions, goal.type).text + (condition->message.empty() ? "" : ": " + condition->message);
}

bool objectIsRefused(const Value& object, const Goal& goal) {
  const auto conditions = conditionsOf(object);
  const Condition* condition = objects::findCondition(conditions, goal.type);
  if (condition == nullptr) return !conditions.empty();
  if (condition->status == ConditionStatus::True) return condition->reason == "ServingOldSpec";
  return condition->status == ConditionStatus::False && condition->reason != "Loading" && condition->reason != "Inspecting";
}

int wait(Context& context, const WaitOptions& options) {
  const auto goal = parseGoal(options.goal);
  if (!goal) return context.usage("--for must be condition=TYPE, condition=TYPE=False or delete");
  const auto timeout = parseDuration(options.timeout);
  if (!timeout) return context.usage("--timeout must be a duration such as 30s or 5m");
  const auto end = std::chrono::steady_clock::now() + *timeout;
  for (const auto& name : options.names) {
    const auto reference = parseReference(name, kModelServiceKind, namespaceOf(context, options.nameSpace));
    if (!reference.ok()) return context.usage(reference.error().message);
    std::string said;
    for (;;) {
      const auto object = fetch(context, *reference);
      // A server that is away may be restarting: that is what one waits for.
      const bool away = !object.ok() && object.error().code == Code::Unavailable;
      if (!object.ok() && object.error().code == Code::NotFound && goal->deletion) {
        context.terminal.out << name << " deleted\n";
        break;
      }
      if (!object.ok() && !away) return context.fail(object.error());
      const std::string lacks = away ? object.error().message : goal->deletion ? "is still there" : missing(*object, *goal);
      if (lacks.empty()) {
        context.terminal.out << shortName(*object) << " " << goal->type
                             << (goal->status == ConditionStatus::True    ? ""
                                 : goal->status == ConditionStatus::False ? " is False"
                                                                          : " is Unknown")
                             << "\n";
        break;
      }
      // What is wrong now may be mended by itself, or by whoever reads this.
      if (!away && !goal->deletion && lacks != said && objectIsRefused(*object, *goal)) {
        context.terminal.err << name << ": " << lacks << "\n";
        said = lacks;
      }
      if (std::chrono::steady_clock::now() >= end) {
        return away ? context.fail(object.error())
                    : context.fail({Code::DeadlineExceeded, "WaitTimeout",
                                    name + ": " + lacks + " (after " + options.timeout + "); coterie describe tells more"});
      }
      std::this_thread::sleep_for(Millis(100));
    }
  }
  return kOk;
}

}  // namespace

Command makeScale() {
  const auto options = std::make_shared<ScaleOptions>();
  return {"scale",
          "Objects",
          "Set the number of instances of a service",
          "coterie scale speech --instances 2\n  coterie scale speech --auto",
          {{"SERVICE", "which service", &options->service, {}, Names::Services, true},
           {"--instances", "how many; 0 stops it", &options->instances, {}, Names::None, false},
           {"--auto", "as many as its minInstances..maxInstances and its load ask for", &options->automatic, {}, Names::None, false},
           namespaceOption(&options->nameSpace)},
          {},
          [options](Context& context) { return scale(context, *options); }};
}

Command makeWait() {
  const auto options = std::make_shared<WaitOptions>();
  return {"wait",
          "Objects",
          "Wait until objects are in a condition, or gone",
          "coterie wait speech --for=condition=Ready --timeout 30s\n  coterie wait service/audio/speech --for=delete",
          {{"NAMES", "services, or TYPE/NAME", &options->names, {}, Names::Services, true},
           {"--for", "condition=TYPE[=True|False|Unknown] or delete; Ready: and by the present spec", &options->goal, {}, Names::None, false},
           {"--timeout", "how long; then exit code 1", &options->timeout, {}, Names::None, false},
           namespaceOption(&options->nameSpace)},
          {},
          [options](Context& context) { return wait(context, *options); }};
}

}  // namespace coterie::cli
