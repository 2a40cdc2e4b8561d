#include "linux/cpu_rivals.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "linux/files.h"

namespace coterie::linux {

namespace {

constexpr std::array<std::string_view, 12> kKnown{"kubelet",    "koordlet",    "katalyst-agent", "nri-resource-policy",
                                                  "cri-resmgr", "crane-agent", "numad",          "slurmd",
                                                  "slurmstepd", "libvirtd",    "tuned",          "ananicy-cpp"};
constexpr std::size_t kLongestName = 15;  // that the kernel keeps

// "serve" of "coterie serve", "agent" of "coterie --state FOLDER agent"; empty: something else, as its workers, which set nobody's CPUs.
std::string_view coterieAs(std::string_view commandLine) {
  const std::string_view program = commandLine.substr(0, commandLine.find('\0'));
  if (program.substr(program.rfind('/') + 1) != "coterie") return {};
  while (!commandLine.empty()) {
    const std::string_view word = commandLine.substr(0, commandLine.find('\0'));
    if (word == "serve" || word == "agent") return word;
    commandLine.remove_prefix(std::min(commandLine.size(), word.size() + 1));
  }
  return {};
}

// Empty: it sets no CPUs of others. enforces: asked of agents.
std::string programName(const std::string& directory, bool enforces) {
  std::string name = readText(directory + "/comm").value_or("");
  if (!name.empty() && name.back() == '\n') name.pop_back();
  const auto known = std::find_if(kKnown.begin(), kKnown.end(), [&](std::string_view one) { return one.substr(0, kLongestName) == name; });
  if (known != kKnown.end()) return std::string(*known);
  const std::string commandLine = name == "coterie" ? readText(directory + "/cmdline").value_or("") : std::string();
  const std::string_view what = coterieAs(commandLine);
  return what == "serve" || (what == "agent" && enforces) ? name : "";
}

}  // namespace

std::string cpuRivals(int self, const std::string& procRoot, const std::optional<std::vector<int>>& enforcing) {
  std::vector<std::pair<int, std::string>> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(procRoot, error), end; !error && entry != end; entry.increment(error)) {
    const std::string directory = entry->path().filename().string();
    int pid = 0;
    const auto [rest, ec] = std::from_chars(directory.data(), directory.data() + directory.size(), pid);
    if (ec != std::errc{} || rest != directory.data() + directory.size() || pid == self) continue;
    const bool enforces = !enforcing || std::find(enforcing->begin(), enforcing->end(), pid) != enforcing->end();
    if (std::string name = programName(entry->path().string(), enforces); !name.empty()) found.emplace_back(pid, std::move(name));
  }
  std::sort(found.begin(), found.end());
  std::string names;
  for (const auto& [pid, name] : found) names += (names.empty() ? "" : ", ") + name + " (pid " + std::to_string(pid) + ")";
  return names;
}

}  // namespace coterie::linux
