// Paths as they are found on machines, and what is told by each.
#include "foreign/cgroup_path.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace coterie::foreign {
namespace {

const std::string kId = "3f2a9c0d1e4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeef";
const std::string kOther = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const std::string kPod = "8d4c0a8e-5b7f-4d6c-9e1a-2f3b4c5d6e7f";
const std::string kPodInSlice = "8d4c0a8e_5b7f_4d6c_9e1a_2f3b4c5d6e7f";

struct Case {
  const char* name;
  std::string path;
  Runtime runtime;
  std::string pod;
  std::string id;
  std::string cgroup;  // empty: the whole path
};

TEST(CgroupPath, TellsRuntimePodAndContainer) {
  const std::string slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + kPodInSlice + ".slice";
  const std::vector<Case> cases = {
      {"systemd, containerd", slice + "/cri-containerd-" + kId + ".scope", Runtime::Containerd, kPod, kId, ""},
      {"systemd, guaranteed", "/kubepods.slice/kubepods-pod" + kPodInSlice + ".slice/cri-containerd-" + kId + ".scope", Runtime::Containerd, kPod,
       kId, ""},
      {"systemd, cri-o", slice + "/crio-" + kId + ".scope", Runtime::CriO, kPod, kId, ""},
      {"systemd, cri-o, inside", slice + "/crio-" + kId + ".scope/container", Runtime::CriO, kPod, kId, slice + "/crio-" + kId + ".scope"},
      {"systemd, docker", slice + "/docker-" + kId + ".scope", Runtime::Docker, kPod, kId, ""},
      {"cgroupfs, guaranteed", "/kubepods/pod" + kPod + "/" + kId, Runtime::Kubernetes, kPod, kId, ""},
      {"cgroupfs, besteffort", "/kubepods/besteffort/pod" + kPod + "/" + kId, Runtime::Kubernetes, kPod, kId, ""},
      {"cgroupfs, cri-o", "/kubepods/burstable/pod" + kPod + "/crio-" + kId, Runtime::CriO, kPod, kId, ""},
      {"cgroupfs, static pod", "/kubepods/burstable/pod3d0e1f2a3b4c5d6e7f8091a2b3c4d5e6/" + kId, Runtime::Kubernetes,
       "3d0e1f2a3b4c5d6e7f8091a2b3c4d5e6", kId, ""},
      {"systemd's names, cgroupfs driver", "/system.slice/containerd.service/kubepods-burstable-pod" + kPodInSlice + ".slice:cri-containerd:" + kId,
       Runtime::Containerd, kPod, kId, ""},
      {"kind",
       "/docker/" + kOther + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + kPodInSlice + ".slice/cri-containerd-" + kId + ".scope",
       Runtime::Containerd, kPod, kId, ""},
      {"docker, cgroupfs", "/docker/" + kId, Runtime::Docker, "", kId, ""},
      {"docker, systemd", "/system.slice/docker-" + kId + ".scope", Runtime::Docker, "", kId, ""},
      {"docker, ordinary user", "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + kId + ".scope", Runtime::Docker, "", kId, ""},
      {"docker, seen from another cgroup namespace", "/../../docker/" + kId, Runtime::Docker, "", kId, ""},
      {"docker in docker", "/docker/" + kId + "/docker/" + kOther, Runtime::Docker, "", kId, "/docker/" + kId},
      {"systemd inside docker", "/system.slice/docker-" + kId + ".scope/init.scope", Runtime::Docker, "", kId,
       "/system.slice/docker-" + kId + ".scope"},
      {"podman", "/machine.slice/libpod-" + kId + ".scope", Runtime::Podman, "", kId, ""},
      {"podman, inside", "/machine.slice/libpod-" + kId + ".scope/container", Runtime::Podman, "", kId, "/machine.slice/libpod-" + kId + ".scope"},
      {"podman, cgroupfs", "/libpod_parent/libpod-" + kId, Runtime::Podman, "", kId, ""},
      {"podman pod", "/machine.slice/machine-libpod_pod_" + kOther + ".slice/libpod-" + kId + ".scope", Runtime::Podman, "", kId, ""},
      {"containerd's own", "/default/redis", Runtime::Containerd, "", "redis", ""},
      {"containerd under docker", "/moby/" + kId, Runtime::Containerd, "", kId, ""},
      {"nerdctl", "/system.slice/nerdctl-" + kId + ".scope", Runtime::Containerd, "", kId, ""},
      {"podman's monitor", "/machine.slice/libpod-conmon-" + kId + ".scope", Runtime::None, "", "", ""},
      {"cri-o's monitor", slice + "/crio-conmon-" + kId + ".scope", Runtime::None, "", "", ""},
      {"the root", "/", Runtime::None, "", "", ""},
      {"nothing", "", Runtime::None, "", "", ""},
      {"a service", "/system.slice/nginx.service", Runtime::None, "", "", ""},
      {"a session", "/user.slice/user-1000.slice/session-3.scope", Runtime::None, "", "", ""},
      {"a pod without a container", slice, Runtime::None, "", "", ""},
      {"an id that is none", "/docker/buildkit", Runtime::None, "", "", ""},
      {"a pod's uid that is none", "/kubepods/burstable/podium/" + kId, Runtime::None, "", "", ""},
      {"a word beginning with docker", "/system.slice/docker.service", Runtime::None, "", "", ""},
  };
  for (const Case& one : cases) {
    const ContainerName found = containerOf(one.path);
    const std::string cgroup = one.id.empty() ? "" : one.cgroup.empty() ? one.path : one.cgroup;
    EXPECT_EQ(found, (ContainerName{one.runtime, one.pod, one.id, cgroup}))
        << one.name << ": " << runtimeName(found.runtime) << " pod " << found.pod << " id " << found.id << " at " << found.cgroup;
  }
}

TEST(CgroupPath, RuntimesAreNamed) {
  for (const Runtime runtime : {Runtime::None, Runtime::Kubernetes, Runtime::Containerd, Runtime::CriO, Runtime::Docker, Runtime::Podman})
    EXPECT_EQ(runtimeNamed(runtimeName(runtime)), runtime);
  EXPECT_FALSE(runtimeNamed("lxc"));
}

}  // namespace
}  // namespace coterie::foreign
