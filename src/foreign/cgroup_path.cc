#include "foreign/cgroup_path.h"

#include <algorithm>
#include <array>
#include <utility>

namespace coterie::foreign {

namespace {

constexpr std::size_t kShortestId = 12;
constexpr std::size_t kLongestId = 64;

constexpr std::array<std::pair<std::string_view, Runtime>, 6> kPrefixes{{{"cri-containerd", Runtime::Containerd},
                                                                         {"nerdctl", Runtime::Containerd},
                                                                         {"containerd", Runtime::Containerd},
                                                                         {"crio", Runtime::CriO},
                                                                         {"docker", Runtime::Docker},
                                                                         {"libpod", Runtime::Podman}}};

bool isId(std::string_view text) {
  return text.size() >= kShortestId && text.size() <= kLongestId &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// A pod's uid: 36 characters with dashes, 32 without (static pods). systemd's driver writes '_' for '-'.
std::optional<std::string> podUid(std::string_view text) {
  if (text.size() != 36 && text.size() != 32) return std::nullopt;
  std::string uid(text);
  std::replace(uid.begin(), uid.end(), '_', '-');
  const bool sound = std::all_of(uid.begin(), uid.end(), [](char c) { return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return sound ? std::optional(uid) : std::nullopt;
}

std::optional<std::string_view> without(std::string_view text, std::string_view prefix, std::string_view suffix) {
  if (text.size() <= prefix.size() + suffix.size() || !text.starts_with(prefix) || !text.ends_with(suffix)) return std::nullopt;
  return text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
}

// "kubepods-burstable-pod<uid>.slice", also below a kubelet of its own ("kubelet-kubepods-...").
std::optional<std::string> podOfSlice(std::string_view name) {
  const auto stem = without(name, "", ".slice");
  if (!stem || stem->find("kubepods") == std::string_view::npos) return std::nullopt;
  const std::size_t pod = stem->rfind("-pod");
  return pod == std::string_view::npos ? std::nullopt : podUid(stem->substr(pod + 4));
}

std::optional<std::pair<Runtime, std::string_view>> prefixedId(std::string_view name) {
  for (const auto& [prefix, runtime] : kPrefixes) {
    if (!name.starts_with(prefix) || name.size() <= prefix.size() || name[prefix.size()] != '-') continue;
    const std::string_view id = name.substr(prefix.size() + 1);
    if (isId(id)) return std::pair(runtime, id);
  }
  return std::nullopt;
}

class Walk {
 public:
  explicit Walk(std::string_view path) : path_(path) {}

  ContainerName result() {
    std::size_t begin = 0;
    while (begin < path_.size()) {
      const std::size_t end = std::min(path_.find('/', begin), path_.size());
      if (end > begin) {
        step(path_.substr(begin, end - begin), end);
        ++depth_;
      }
      begin = end + 1;
    }
    return inPod_.id.empty() ? outermost_ : inPod_;
  }

 private:
  void step(std::string_view name, std::size_t end) {
    if (const auto pod = podOfSlice(name)) {
      enterPod(*pod);
    } else if (const auto uid = belowKubepods_ && name.starts_with("pod") ? podUid(name.substr(3)) : std::nullopt) {
      enterPod(*uid);
    } else if (name.find(':') != std::string_view::npos) {
      joined(name, end);
    } else {
      single(name, end);
    }
    belowKubepods_ = name.ends_with("kubepods") || (belowKubepods_ && (name == "burstable" || name == "besteffort"));
    previous_ = name;
  }

  void enterPod(std::string pod) {
    pod_ = std::move(pod);
    podDepth_ = depth_;
  }

  // "kubepods-burstable-pod<uid>.slice:cri-containerd:<id>": systemd's names with the cgroupfs driver.
  void joined(std::string_view name, std::size_t end) {
    const std::size_t first = name.find(':');
    const std::size_t second = name.find(':', first + 1);
    if (second == std::string_view::npos || !isId(name.substr(second + 1))) return;
    for (const auto& [prefix, runtime] : kPrefixes) {
      if (name.substr(first + 1, second - first - 1) != prefix) continue;
      if (const auto pod = podOfSlice(name.substr(0, first))) enterPod(*pod), podDepth_ = depth_ - 1;
      found(runtime, name.substr(second + 1), end);
      return;
    }
  }

  void single(std::string_view name, std::size_t end) {
    const std::string_view stem = without(name, "", ".scope").value_or(name);
    if (const auto known = prefixedId(stem)) return found(known->first, known->second, end);
    const bool spaceOfContainerd = depth_ == 1 && (previous_ == "default" || previous_ == "k8s.io" || previous_ == "moby");
    if (stem != name || !(isId(name) || (spaceOfContainerd && previous_ == "default"))) return;
    if (inPod()) return found(Runtime::Kubernetes, name, end);
    if (previous_ == "docker") return found(Runtime::Docker, name, end);
    if (spaceOfContainerd) found(Runtime::Containerd, name, end);
  }

  [[nodiscard]] bool inPod() const { return podDepth_ >= 0 && depth_ == podDepth_ + 1; }

  void found(Runtime runtime, std::string_view id, std::size_t end) {
    ContainerName name{runtime, inPod() ? pod_ : "", std::string(id), std::string(path_.substr(0, end))};
    ContainerName& place = inPod() ? inPod_ : outermost_;
    if (place.id.empty()) place = std::move(name);
  }

  std::string_view path_;
  std::string_view previous_;
  int depth_{0};
  int podDepth_{-1};
  std::string pod_;
  bool belowKubepods_{false};
  ContainerName outermost_;  // outside of pods
  ContainerName inPod_;
};

}  // namespace

std::string_view runtimeName(Runtime runtime) {
  switch (runtime) {
    case Runtime::Kubernetes: return "kubernetes";
    case Runtime::Containerd: return "containerd";
    case Runtime::CriO: return "cri-o";
    case Runtime::Docker: return "docker";
    case Runtime::Podman: return "podman";
    case Runtime::None: break;
  }
  return "none";
}

std::optional<Runtime> runtimeNamed(std::string_view name) {
  for (const Runtime runtime : {Runtime::None, Runtime::Kubernetes, Runtime::Containerd, Runtime::CriO, Runtime::Docker, Runtime::Podman}) {
    if (runtimeName(runtime) == name) return runtime;
  }
  return std::nullopt;
}

ContainerName containerOf(std::string_view cgroupPath) { return Walk(cgroupPath).result(); }

}  // namespace coterie::foreign
