#include "serve/startup_view.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "allocation/reason_text.h"
#include "base/count_text.h"

namespace coterie::serve {

namespace {
constexpr int kBarWidth = 24;

// Obstacles that pass by themselves within a moment are no news.
const controller::Obstacle* obstacleOf(const controller::ServiceSummary& service) {
  const auto found =
      std::find_if(service.obstacles.begin(), service.obstacles.end(), [](const controller::Obstacle& one) { return one.reason != "Inspecting"; });
  return found == service.obstacles.end() ? nullptr : &*found;
}

// Told to have no instance: there is nothing to wait for.
bool stopped(const controller::ServiceSummary& service) { return service.spec.instances == 0; }

bool settled(const controller::ServiceSummary& service) {
  return stopped(service) || obstacleOf(service) != nullptr || (service.desired > 0 && service.serving >= service.desired);
}

int progressOf(const controller::ServiceSummary& service) {
  if (service.desired > 0 && service.serving >= service.desired) return 100;
  int sum = 0;
  for (const auto& instance : service.instances) sum += instance.state == controller::InstanceState::Starting ? instance.progress : 100;
  return service.desired > 0 ? std::min(99, sum / service.desired) : 0;
}

// This program as it can be typed here: relative where it lies below the working folder.
std::string programName() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "coterie";
  const auto relative = path.lexically_relative(std::filesystem::current_path(error));
  return error || relative.empty() || *relative.begin() == ".." ? path.string() : relative.string();
}

const agent::GroupView* groupOf(const controller::ServiceSummary& service, const std::vector<agent::GroupView>& groups) {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const agent::GroupView& one) { return one.spec.id == service.group; });
  return found == groups.end() ? nullptr : &*found;
}

std::string objectiveText(const controller::ServiceSummary& service) {
  if (!service.spec.objective) return "-";
  return fmt::format("p{:g} <= {:g} ms", service.spec.objective->percentile, static_cast<double>(service.spec.objective->latency.count()) / 1e6);
}
}  // namespace

std::string placeText(const agent::GroupView* group) {
  if (group == nullptr) return "-";
  if (group->inPool) return fmt::format("pool, {}", allocation::cpusText(group->entitlement));
  CpuSet home;
  for (const auto& container : group->containers) home |= container.home;
  if (home.empty()) return "-";
  return cpusNamed(home);
}

std::string Examples::bodyFor(const ServiceName& service) const {
  std::error_code ignored;
  for (const auto& folder : folders) {
    const std::string body = folder + "/bodies/" + service.name + ".json";
    if (!std::filesystem::exists(body, ignored)) continue;
    const std::string words = folder + "/answer.py";
    return "--data-binary @" + body + (std::filesystem::exists(words, ignored) ? " | " + words : "");
  }
  return {};
}

std::string StartupView::line(const controller::ServiceSummary& service) const {
  const int percent = progressOf(service);
  const std::string name = fmt::format("{:<28}", service.name.path());
  if (const auto* obstacle = obstacleOf(service)) return fmt::format("  {} {}: {}", name, obstacle->reason, obstacle->message);
  if (stopped(service)) return fmt::format("  {} stopped", name);
  if (!style_.interactive) return fmt::format("  {} {}", name, percent >= 100 ? "ready" : "loading");
  const int filled = kBarWidth * percent / 100;
  return fmt::format("  {} [{}{}] {:>3} %", name, std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(kBarWidth - filled), '.'), percent);
}

bool StartupView::update(const std::vector<controller::ServiceSummary>& services) {
  const bool done = std::all_of(services.begin(), services.end(), settled);
  if (style_.quiet) return done;
  if (style_.interactive) {
    if (drawn_ > 0) fmt::print(out_, "\x1b[{}A", drawn_);
    for (const auto& service : services) fmt::print(out_, "\x1b[2K{}\n", line(service));
    drawn_ = services.size();
  } else {
    for (const auto& service : services) {
      std::string text = line(service);
      if (std::exchange(shown_[service.name], text) != text) fmt::print(out_, "{}\n", text);
    }
  }
  std::fflush(out_);
  return done;
}

void StartupView::ready(const std::vector<controller::ServiceSummary>& services, const std::vector<agent::GroupView>& groups, const std::string& url,
                        const std::string& stateFolder, const std::vector<DemoKey>& keys, const Examples& examples, Nanos sinceStart) {
  if (style_.quiet) return;
  const char* bold = style_.colors ? "\x1b[1m" : "";
  const char* green = style_.colors ? "\x1b[32m" : "";
  const char* plain = style_.colors ? "\x1b[0m" : "";
  const bool all = std::all_of(services.begin(), services.end(), [](const auto& one) { return obstacleOf(one) == nullptr; });
  fmt::print(out_, "\n{}{}{}{} after {:.1f} s\n\n", bold, green, all ? "READY" : "STARTED, not everything serves", plain,
             static_cast<double>(sinceStart.count()) / 1e9);
  fmt::print(out_, "{}{:<12} {:<18} {:>9}  {:<18} {:<16} {}{}\n", bold, "TENANT", "SERVICE", "INSTANCES", "CPUS", "OBJECTIVE", "URL", plain);
  for (const auto& service : services) {
    fmt::print(out_, "{:<12} {:<18} {:>4} / {:<2}  {:<18} {:<16} {}/v2/models/{}\n", service.tenant.value, service.name.name, service.serving,
               service.desired, placeText(groupOf(service, groups)), objectiveText(service), url, service.name.name);
  }
  // The key reaches curl by standard input: its words are seen by everybody who lists the machine's processes.
  for (const auto& key : keys) {
    fmt::print(out_, "\n{}As tenant {}:{}\n  export COTERIE_URL={} COTERIE_KEY={}\n", bold, key.tenant.value, plain, url, key.key);
    bool any = false;
    for (const auto& service : services) {
      const std::string body = examples.bodyFor(service.name);
      if (service.tenant != key.tenant || service.serving == 0 || body.empty()) continue;
      any = true;
      fmt::print(out_, "  curl -s $COTERIE_URL/v2/models/{}/infer -H @- <<< \"Authorization: Bearer $COTERIE_KEY\" {}\n", service.name.name, body);
    }
    if (!any) fmt::print(out_, "  curl -s -X POST $COTERIE_URL/v2/repository/index -H @- <<< \"Authorization: Bearer $COTERIE_KEY\"\n");
  }
  const std::string command = programName() + " --state " + stateFolder;
  const std::string sample = services.empty() ? "NAMESPACE/SERVICE" : services.front().name.path();
  fmt::print(out_, "\n{0}Next:{1}\n  {2} top\n  {2} explain {3}\n  {2} get modelservices -A\n", bold, plain, command, sample);
  std::fflush(out_);
}

}  // namespace coterie::serve
