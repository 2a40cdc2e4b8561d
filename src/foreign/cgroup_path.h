// Whose container a cgroup is, told by its path alone: runtime, pod, container.
//
// Known are the paths that are written by: the kubelet with systemd's driver (kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope) and with
// the cgroupfs driver (kubepods/burstable/pod<uid>/<id>), also where the one's names are handed to the other (a.slice:cri-containerd:<id>);
// containerd (its namespaces default, k8s.io and moby; nerdctl), CRI-O, docker and podman, as root or as an ordinary user. A monitor of a container
// (conmon) is none. Where containers lie within each other the outermost counts, as that is what the machine sees as one; but a container of a pod
// counts before one that holds a whole cluster (kind). O(length). Pure. Source: the runtimes' documentation of their cgroup drivers; paths as found
// on machines (the table of the test).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace coterie::foreign {

enum class Runtime : std::uint8_t {
  None,        // no container
  Kubernetes,  // a pod's, by a runtime that the path does not name
  Containerd,
  CriO,
  Docker,
  Podman
};
[[nodiscard]] std::string_view runtimeName(Runtime runtime);  // "kubernetes", "containerd", "cri-o", "docker", "podman"; "none"
[[nodiscard]] std::optional<Runtime> runtimeNamed(std::string_view name);

struct ContainerName {
  Runtime runtime{Runtime::None};
  std::string pod;     // its uid with dashes, as Kubernetes shows it; empty: none
  std::string id;      // of the container; empty: this is no container's cgroup
  std::string cgroup;  // the container's own: the part of the path that ends with it
  friend bool operator==(const ContainerName&, const ContainerName&) = default;
};

[[nodiscard]] ContainerName containerOf(std::string_view cgroupPath);

}  // namespace coterie::foreign
