#include "worker/launch.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "channel/control_messages.h"
#include "channel/seqpacket.h"
#include "process/sandbox.h"

namespace coterie::worker {

namespace {

using channel::kControlFd;

int giveUp(const Error& error) {
  (void)channel::send(kControlFd, channel::encodeFailed(error), channel::Wait::Yes);
  return 0;
}

struct Opened {
  UniqueFd model;
  UniqueFd folder;
  UniqueFd runtime;
  UniqueFd worker;
};

std::string folderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

UniqueFd openBeneath(int root, const std::string& path, std::uint64_t flags) {
  open_how how{};
  how.flags = flags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root, path.empty() ? "." : path.c_str(), &how, sizeof how)));
}

Error modelError(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (errno == ENOENT || errno == ENOTDIR) return {Code::NotFound, "ModelMissing", name + " is missing: there is no file " + path};
  if (errno == EXDEV) return {Code::PermissionDenied, "ModelOutsideRoot", name + " lies outside the tenant's model folder"};
  return {Code::PermissionDenied, "ModelUnreadable", name + " cannot be read: " + std::strerror(errno)};
}

Result<Opened> openAll(const channel::LaunchMessage& message) {
  Opened opened;
  if (message.modelRoot.empty()) {
    opened.model.reset(::open(message.modelPath.c_str(), O_RDONLY | O_NONBLOCK));
    if (!opened.model) return modelError(message.modelPath);
    opened.folder.reset(::open(folderOf(message.modelPath).c_str(), O_PATH | O_DIRECTORY));
  } else {
    const UniqueFd root(::open(message.modelRoot.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) return modelError(message.modelRoot);
    const std::string prefix = message.modelRoot.back() == '/' ? message.modelRoot : message.modelRoot + "/";
    if (message.modelPath.rfind(prefix, 0) != 0) return errno = EXDEV, modelError(message.modelPath);
    const std::string relative = message.modelPath.substr(prefix.size());
    opened.model = openBeneath(root.get(), relative, O_RDONLY | O_NONBLOCK);
    if (!opened.model) return modelError(message.modelPath);
    opened.folder = openBeneath(root.get(), folderOf(relative), O_PATH | O_DIRECTORY);
  }
  if (!opened.folder) return modelError(message.modelPath);
  struct stat status{};
  if (::fstat(opened.model.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Error{Code::InvalidArgument, "NotOnnx", message.modelPath.substr(message.modelPath.rfind('/') + 1) + " is not a file"};
  }
  opened.runtime.reset(::open(message.runtimePath.c_str(), O_RDONLY));
  if (!opened.runtime) {
    return Error{Code::Unavailable, "NoRuntime",
                 "ONNX Runtime is missing: " + message.runtimePath + ": " + std::strerror(errno) + "; run ./dev setup"};
  }
  opened.worker.reset(::open(message.workerPath.c_str(), O_PATH | O_CLOEXEC));
  if (!opened.worker)
    return Error{Code::Unavailable, "NoWorker", "the worker binary cannot be opened: " + message.workerPath + ": " + std::strerror(errno)};
  return opened;
}

void become(const channel::LaunchMessage& message, const Opened& opened) {
  std::vector<std::string> arguments = message.workerArguments;
  for (const UniqueFd* fd : {&opened.model, &opened.folder, &opened.runtime}) arguments.push_back(std::to_string(fd->get()));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  (void)::syscall(SYS_execveat, opened.worker.get(), "", argv.data(), environ, AT_EMPTY_PATH);
}

}  // namespace

int launch() {
  (void)::setsid();  // a ^C at the supervisor's terminal is for the supervisor
  (void)::close_range(kControlFd + 1, ~0U, 0);
  std::vector<std::byte> buffer(channel::kMaxControlMessage);
  const channel::Received received = channel::receive(kControlFd, buffer, channel::Wait::Yes);
  if (received.outcome != channel::ReceiveOutcome::Message) return 2;
  const auto message = channel::decodeLaunch(std::span<const std::byte>(buffer).first(received.size));
  if (!message.ok()) return 2;

  const auto opened = openAll(*message);
  if (!opened.ok()) return giveUp(opened.error());
  std::vector<std::string> missing{"sandbox (turned off)"};
  if (message->sandbox) {
    process::SandboxOptions options;
    options.parent = message->parent;
    options.uid = message->uid;
    options.dataLimit = message->dataLimit;
    options.threadLimit = message->threadLimit;
    options.fileLimit = message->fileLimit;
    options.network = message->network;
    options.writeLimit = message->writeLimit;
    options.readable = {opened->model.get(), opened->folder.get(), opened->runtime.get()};
    options.worker = opened->worker.get();
    const auto entered = process::enterSandbox(options);
    if (!entered.ok()) return giveUp(entered.error());
    missing = *entered;
  }
  (void)channel::send(kControlFd, channel::encodeSandbox(missing), channel::Wait::Yes);
  become(*message, *opened);
  return giveUp({Code::Unavailable, "NoWorker", std::string("the worker binary cannot be started: ") + std::strerror(errno)});
}

}  // namespace coterie::worker
